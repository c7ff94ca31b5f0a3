package a2a

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Service is both ends of the profile, for all sessions of one endpoint. It is
// safe for concurrent use.
type Service struct{ opts Options }

// New returns a Service. Tasks that an earlier process left in the store go on:
// what had not started is started, what had started on a Worker of this process
// ends with a failure, what a session had been given waits for it to come back.
// It fails on registrations that are not complete and on a store that can not
// be read. The caller closes it.
func New(opts Options) (*Service, error) { return &Service{opts: opts}, nil }

// Profile returns the profile for the registry of the endpoint.
func (s *Service) Profile() *profiles.Profile { panic("not yet") }

// Declare tells the peer of a session that an agent is here which carries out
// tasks of some kinds: those of the Workers. The Handshake is sent at once, and
// again every two minutes as long as the session lives, so that a session on
// which nothing but work is awaited is not idle. A later Declare of the same
// agent_id on the same session replaces the kinds. A peer that refuses it has no
// way to say so in this profile.
func (s *Service) Declare(ctx context.Context, session profiles.Session, agentID string, kinds []string) error {
	panic("not yet")
}

// Agents returns the agents that sessions have declared, sorted by ID. Those
// whose session is gone are kept for a while, because tasks may wait for them.
func (s *Service) Agents() []Agent { panic("not yet") }

// Live returns how many tasks of peers are not over.
func (s *Service) Live() int { panic("not yet") }

// Close stops the Workers and waits for them. Tasks stay as they are in the
// store, for the next process to go on with. Sessions are ended first.
func (s *Service) Close() { panic("not yet") }
