// Package state is the STATE profile: immutable blobs under their digests, each
// with the states that it was made from.
//
//	PUT              no answer, or ERR
//	GET → PUT | ERR  the state, as it was put
//	DELTA            no answer, or ERR
//
// New builds a Service that keeps states in a Store. Accepted states are stored:
// swp.sync on the same stream tells the sender so. PutAll, AddDelta, Fetch, Log and
// ReadChange are the calling side.
//
// # States
//
// A state is stored only when all its parents are, so it cannot be its own
// ancestor. One message may follow the other without waiting: a parent on its
// way into the store is waited for. The same state put again has no effect; with
// other parents, in another order, or with other metadata it is refused.
//
// A state belongs to the authenticated identity that put it. Another identity
// that puts the same blob has its own state, with its own parents and metadata,
// pays for it, and learns nothing of the others. An identity reads and changes
// its own states; for those of others it needs a rule: operation get or delta of
// profile state on the state_id, in lower-case hexadecimal. It then sees the one
// that was put first, unless it has one of its own. A state that it may not see
// is absent, also as a parent.
//
// A state stays until its owner has it forgotten, or until Retention has passed
// since it was last put. Then it may be missing where it is named as a parent.
//
// # Deltas
//
// The endpoint does not interpret deltas. Deltas of a state are kept in the
// order in which they came, octet for octet, beside the state that their sender
// sees, and identities that see it may read them, by the RPC method swp.state.deltas.
// The same delta sent again by the same identity is not kept twice.
//
// Specification: SWP profiles §17.
package state

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of STATE, Name its short name.
const (
	ProfileID = 17
	Name      = "state"
)

// Names of the RPC methods of the profile.
const (
	MethodDeltas = "swp.state.deltas" // params a state_id; stream items STATE_DELTA payloads, in order; result a Lost as JSON, or nothing
	MethodForget = "swp.state.forget" // params a state_id; result a Forgotten as JSON
)

// Source has blobs that are not stored here, such as the schemas of tools. It is safe for
// concurrent use, and must not wait.
type Source interface {
	// BlobFor returns the blob with a SHA-256 if an identity may read it. The caller must
	// not change it.
	BlobFor(identity string, digest []byte) ([]byte, bool)
}

// Options configure a Service. The zero value stores nothing.
type Options struct {
	// Store stores the states. Nil: states are refused.
	Store Store

	// Sources have additional blobs for identities that they allow. These have no parents,
	// cannot be parents, and accept no deltas.
	Sources []Source

	// Access is asked for the operation put on each state_id, and for get and delta on
	// states of other identities. Nil denies nothing.
	Access profiles.Access

	// Retention is how long a state is kept after it was last put, and a delta. Zero means
	// until its owner deletes it.
	Retention time.Duration

	// Now is the clock of the retention. Nil means time.Now.
	Now func() time.Time
}

// Service stores and serves the states of one endpoint. It is safe for concurrent use.
type Service struct {
	opts    Options
	kept    atomic.Int64 // Options.Retention, changed
	profile *profiles.Profile
	turns   turns
	seen    seen
	slots   *fair.Slots // for hashing and for reading the store

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // accepted messages that are not yet passed to the store
}

var errClosed = errors.New("state: closed")

// New returns a Service. It fails on a negative Retention. The caller closes it.
func New(opts Options) (*Service, error) {
	if opts.Retention < 0 {
		return nil, fmt.Errorf("state: retention %v is negative", opts.Retention)
	}
	if opts.Access == nil {
		opts.Access = profiles.Everyone
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Service{opts: opts, slots: fair.NewSlots(2 * runtime.GOMAXPROCS(0))}
	s.SetRetention(opts.Retention)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypePut, Name: "STATE_PUT", Role: profiles.Initiating | profiles.Answer | profiles.Terminal},
			{ID: TypeGet, Name: "STATE_GET", Role: profiles.Initiating},
			{ID: TypeDelta, Name: "STATE_DELTA", Role: profiles.Initiating},
			{ID: TypeErr, Name: "STATE_ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Behind:   profiles.PassedOn,
		Crossing: &profiles.Crossing{Read: read, Fits: fits, Refused: refusals.Refused},
		Operations: []profiles.Operation{
			{Name: "put", On: "state_id, in lower-case hexadecimal"},
			{Name: "get", On: "state_id, of a state that somebody else has put"},
			{Name: "delta", On: "state_id, of a state that somebody else has put"},
		},
		Methods: []profiles.Method{
			{Name: MethodDeltas, Open: true, Repeatable: true, Detached: s.deltas},
			{Name: MethodForget, Open: true, Repeatable: true, Held: s.forget},
		},
		Show:    p1.Show(Messages),
		Handler: profiles.HandlerFunc(s.serve),
		Check:   check,
		Refusal: refusals.Refusal,
	}
	return s, nil
}

// SetRetention changes how long states are kept that are put from now on, which must not be
// negative.
func (s *Service) SetRetention(d time.Duration) { s.kept.Store(int64(d)) }

// Profile returns the profile that serves peers, the same one each time.
func (s *Service) Profile() *profiles.Profile { return s.profile }

// Close refuses waiting messages, and returns when all others have been passed to the
// store. End the sessions of the endpoint before.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel(errClosed)
	s.work.Wait()
}

// spawn runs f on a goroutine that Close waits for. It returns false once the
// Service is closed.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// until is the expiry of a state stored now.
func (s *Service) until() time.Time {
	if kept := time.Duration(s.kept.Load()); kept > 0 {
		return s.opts.Now().Add(kept)
	}
	return time.Time{}
}

// Pools returns who uses the places for hashing and reading.
func (s *Service) Pools() []fair.Pool { return []fair.Pool{s.slots.Pool("state checks")} }
