package daemon

import (
	"cmp"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/telemetry"
)

// announce logs the start lines: identity, addresses, services and policies.
// It takes several lines, because a log line has a limited number of fields.
func (d *daemon) announce() {
	c := d.config
	freshness := "off: timestamps are not checked"
	if c.Freshness.Owner != "off" {
		freshness = fmt.Sprintf("enforced by %s, skew %s, required %v", c.Freshness.Owner, c.Freshness.Skew, c.Freshness.Required)
	}
	errorPath := "off"
	for _, l := range c.Listeners {
		if l.ErrorFrames {
			errorPath = "on where error_frames is set"
		}
	}
	source := c.Source
	if source == "" {
		source = "built in"
	}
	rate := "off"
	if c.Limits.FrameRate > 0 {
		rate = fmt.Sprintf("%d/s, burst %d, then reading pauses", c.Limits.FrameRate, c.Burst())
	}
	if c.Rate.Frames > 0 {
		rate += fmt.Sprintf("; above %d in %d ms refused", c.Rate.Frames, c.Rate.WindowMS)
	}
	durability := c.Durability
	if c.Store == config.StoreMemory {
		durability = ""
	}
	d.log.Info("serving",
		zap.String("version", d.opts.Version),
		zap.String("config", source),
		zap.String("identity", d.credentials.Identity()),
		zap.Bool("development", c.Development()),
		zap.String("addresses", strings.Join(d.listeners.Addresses(), " ")),
		zap.String("admin", cmp.Or(d.admin.address(), config.AdminOff)),
		zap.String("health", d.probes.address()),
		zap.String("metrics", d.monitor.Address()),
		zap.String("http", d.fronts.URL()),
		zap.String("partners", part.Names(c.Partners)),
		zap.String("mcp_servers", strings.Join(d.servers.Names(), " ")),
		zap.String("a2a_workers", part.Names(c.A2A.Workers)),
		zap.String("a2a_agents", part.Names(c.A2A.Agents)),
		zap.String("rpc_backends", part.Names(c.RPC.Backends)),
		zap.String("teams", part.Names(c.Teams)),
		zap.Int("agent_cards", len(c.AGDISC.Cards)),
		zap.String("sdl", c.SDL.AgentID),
		zap.Int("access_rules", len(c.Access.Rules)),
	)
	d.log.Info("policies",
		zap.String("freshness", freshness),
		zap.String("error_path", errorPath),
		zap.String("frame_rate", rate),
		zap.Stringer("frame_bytes", c.Limits.FrameBytes),
		zap.Stringer("payload_bytes", c.Limits.PayloadBytes),
		zap.Int("connections", c.Limits.Connections),
		zap.Int("connections_per_identity", c.Limits.ConnectionsPerIdentity),
		zap.Int("in_flight", c.Limits.InFlight),
		zap.Uint64("memory_limit", d.memory.Limit()),
		zap.String("store", c.Store),
		zap.String("durability", durability),
		zap.String("data", c.Data),
		zap.Stringer("quota", c.Quota.Total),
		zap.Stringer("quota_per_identity", c.Quota.PerIdentity),
		zap.String("traces", telemetry.Collector(c.Telemetry.OTLP)),
	)
	if len(c.Access.Rules) == 0 {
		d.log.Warn("access has no rules, so nobody may do anything; see access in docs/configuration.md")
	}
}
