package serve

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/trust"
)

// Operations and results of trustsync.v1.
const (
	opDiscover = "discover"
	opPropose  = "propose"

	statusSnapshot = "snapshot"
	statusAccepted = "accepted"
	statusRejected = "rejected"
)

// trustsync answers trustsync.v1: it shows the trust registry, and changes it if
// the approvers have signed (A2A-SDL §10.4).
func (s *Server) trustsync(_ context.Context, r *Request) (Result, error) {
	if !s.o.Compat.UnauthenticatedTrust && !r.Verified {
		return Result{}, sdl.Insecure(false, "trustsync: the request is not signed")
	}
	switch op := text(r.Payload.Get("op")); op {
	case opDiscover:
		return s.discover(r), nil
	case opPropose:
		return s.propose(r)
	default:
		return Result{}, sdl.Refuse(sdl.BadRequest, "trustsync: op %.40q, want %s or %s", op, opDiscover, opPropose)
	}
}

// synced is an answer of trustsync.v1.
func synced(r *Request, op, status, message string, more ...canonical.Member) Result {
	return Result{sdl.CTTrustSync, object(append(more,
		member("op", canonical.String(op)),
		member("status", canonical.String(status)),
		member("source_agent", canonical.String(r.Agent())),
		member("message", canonical.String(message)),
	)...)}
}

func shown(snapshot trust.Snapshot) []canonical.Member {
	return []canonical.Member{member("snapshot", snapshot.Value), member("registry_hash", canonical.String(snapshot.Hash))}
}

func (s *Server) discover(r *Request) Result {
	snapshot := trust.Snapshot{Value: object(), Hash: canonical.Hash(object())}
	if s.o.Registry != nil {
		snapshot = s.o.Registry.Snapshot()
	}
	return synced(r, opDiscover, statusSnapshot, "the registry as it is", shown(snapshot)...)
}

func (s *Server) propose(r *Request) (Result, error) {
	if s.o.Registry == nil || s.o.Proposals == nil {
		return synced(r, opPropose, statusRejected, "no proposal is taken here"), nil
	}
	p, err := trust.ReadProposal(r.Payload)
	if err != nil {
		return Result{}, sdl.Refuse(sdl.BadRequest, "%v", err)
	}
	id := member("proposal_id", canonical.String(p.ID))

	// Verify the proposal before the answer reveals anything, even if it was applied
	// before.
	approvedBy, err := s.o.Proposals.Verify(p)
	if err != nil {
		s.o.Failed(r, err)
		return synced(r, opPropose, statusRejected, s.disapproved(), id), nil
	}
	applied := s.o.Registry.Applied(p)
	snapshot, err := s.o.Registry.Apply(p, r.Now)
	if err != nil {
		s.o.Failed(r, err)
		return synced(r, opPropose, statusRejected, "the registry does not take the proposal", id), nil
	}
	members := append(shown(snapshot), id)
	if applied {
		return synced(r, opPropose, statusAccepted, "applied before", members...), nil
	}
	if q, ok := s.o.Proposals.(*trust.Quorum); ok {
		members = append(members, member("approved_by", canonical.Strings(approvedBy...)), member("quorum", object(
			member("threshold", canonical.Int(int64(q.Threshold()))),
			member("count", canonical.Int(int64(len(approvedBy)))),
		)))
	}
	return synced(r, opPropose, statusAccepted, "applied", members...), nil
}

// disapproved says which approvals a proposal lacks. This is not secret.
func (s *Server) disapproved() string {
	if q, ok := s.o.Proposals.(*trust.Quorum); ok {
		return fmt.Sprintf("the quorum of %d approvers is not met by approvals that fit", q.Threshold())
	}
	return "the signature is missing or does not fit"
}
