package all

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
)

// Attach returns ctx with what a peer has set for a message: its trace context,
// its hints, and the delegation of the chain that it names. It is for
// endpoint.Options.Tracer.
func (s *Set) Attach(ctx context.Context, p *profiles.Profile, req *profiles.Request) context.Context {
	return s.Cred.Attach(s.Hints.Attach(s.Traces.Attach(ctx, p, req), p, req), p, req)
}

// hintsTime bounds how long a task waits until its hints are taken where it goes.
const hintsTime = 10 * time.Second

// tellHints is a2a.Options.Hints. Where the peer does not take a MUST the task does
// not go there.
func tellHints(ctx context.Context, lane profiles.Lane, kind string, taskID []byte) error {
	ctx, cancel := context.WithTimeout(ctx, hintsTime)
	defer cancel()
	err := policyhint.ForTask(ctx, lane, kind, taskID)
	if errors.As(err, new(*policyhint.ViolationError)) || errors.As(err, new(*profiles.PeerError)) {
		return &profiles.Error{Code: profiles.SecurityPolicy, Detail: "policy_hint", Text: "the hints for the task were not taken", Cause: err}
	}
	return err
}
