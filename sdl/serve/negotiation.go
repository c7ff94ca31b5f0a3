package serve

import (
	"context"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// negotiation answers negotiation.v1: what its sender can use here (A2A-SDL §10.3).
func (s *Server) negotiation(_ context.Context, r *Request) (Result, error) {
	yes := canonical.Bool(true)
	return Result{sdl.CTNegotiation, object(
		member("need", object()),
		member("ask", canonical.Array()),
		member("have", r.Envelope.Value.Get("cap")),
		member("supported_ct", canonical.Strings(s.types(r)...)),
		member("available_tools", canonical.Strings(s.tools(r)...)),
		member("versioning", object(
			member("protocol", object(
				member("current", canonical.Int(sdl.Version)),
				member("supported", canonical.Array(canonical.Int(sdl.Version))),
				member("requires_same_major", yes),
			)),
			member("semver_policy", object(
				member("version", canonical.String("1.0.0")),
				member("minor_forward_compat", yes),
			)),
			member("migration", object(
				member("deprecation_window_days", canonical.Int(90)),
				member("requires_migration_metadata_for_breaking_changes", yes),
				member("rollback_supported", yes),
			)),
			member("runtime_policy", object(
				member("supports_peer_min_max", yes),
				member("supports_content_type_deprecation", yes),
				member("supports_content_type_version_ranges", yes),
			)),
		)),
		member("session_binding", object(
			member("supported", canonical.Bool(s.o.SessionKey != nil)),
			member("content_type", canonical.String(sdl.CTSession)),
			member("alg", canonical.String("ed25519")),
		)),
	)}, nil
}
