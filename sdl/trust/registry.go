package trust

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Bounds of a Registry. A snapshot fits into an envelope with the default limits.
const (
	maxRegistry   = 512 << 10 // octets of a snapshot as canonical JSON
	maxSet        = 10_000    // elements of an array
	maxApplied    = 4096      // proposals that are remembered
	maxProposalID = 256       // octets
)

// Registry has the keys that are trusted to sign, their agents, and the revoked ones
// (§7.3). It holds no private key.
//
// Every check after Apply has returned sees the change; a concurrent check sees all of it
// or nothing.
type Registry struct {
	keep func(canonical.Value) error

	mu    sync.Mutex // changes one at a time
	state atomic.Pointer[registryState]
}

// registryState is the state of a Registry.
type registryState struct {
	*members
	snapshot Snapshot
	sequence int64             // of the last proposal that had one
	applied  map[string]string // hash of each proposal, by id
}

// Snapshot is the public content of a Registry.
type Snapshot struct {
	Value canonical.Value // the five members and updated_at
	Hash  string
}

// RegistryOptions configure a Registry. The zero value is usable.
type RegistryOptions struct {
	// Keep stores the State before a change becomes visible; if it fails, the change is
	// refused. Pass the stored State to NewRegistry after a restart, so that applied
	// proposals stay applied. It may wait.
	Keep func(state canonical.Value) error
}

// NewRegistry returns a registry with the members of an object: those of §7.1 without
// decrypt_private_keys, or a State from Keep. now becomes updated_at.
func NewRegistry(initial canonical.Value, now time.Time, o RegistryOptions) (*Registry, error) {
	m, err := parseMembers(initial)
	if err != nil {
		return nil, err
	}
	s := &registryState{members: m, applied: make(map[string]string)}
	s.sequence, _ = initial.Get(memberSequence).Int64()
	for id, hash := range initial.Get(memberApplied).Members() {
		s.applied[id], _ = hash.Text()
	}
	if err := s.publish(now); err != nil {
		return nil, err
	}
	r := &Registry{keep: o.Keep}
	r.state.Store(s)
	return r, nil
}

// Members of a State besides those of a Snapshot.
const (
	memberSequence = "sequence"
	memberApplied  = "applied_proposals"
)

// Snapshot returns the present content.
func (r *Registry) Snapshot() Snapshot { return r.state.Load().snapshot }

// State returns the state for NewRegistry.
func (r *Registry) State() canonical.Value { return r.state.Load().value() }

func (s *registryState) value() canonical.Value {
	applied := make([]canonical.Member, 0, len(s.applied))
	for id, hash := range s.applied {
		applied = append(applied, canonical.Member{Name: id, Value: canonical.String(hash)})
	}
	return s.snapshot.Value.
		With(memberSequence, canonical.Int(s.sequence)).
		With(memberApplied, canonical.Object(applied...))
}

// Apply applies a verified proposal, and returns the registry after it. A proposal that was
// applied before changes nothing; another one with its id is refused.
//
// A proposal may have a sequence, an integer above zero in its registry. It is refused
// unless it is larger than the last one, so that an old proposal cannot undo a newer one
// under a new id. After the first proposal with a sequence all must have one.
//
// 4,096 proposals are remembered. After that only proposals with a sequence are accepted,
// because they need not be remembered.
func (r *Registry) Apply(p Proposal, now time.Time) (Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.state.Load()
	hash := canonical.Hash(p.document())
	switch before, ok := old.applied[p.ID]; {
	case ok && before == hash:
		return old.snapshot, nil
	case ok:
		return Snapshot{}, errors.New("trust: another proposal with this id was applied")
	case len(p.ID) > maxProposalID:
		return Snapshot{}, fmt.Errorf("trust: proposal_id of %d octets, limit %d", len(p.ID), maxProposalID)
	}
	sequence, err := sequenceOf(p.Registry)
	if err != nil {
		return Snapshot{}, err
	}
	if sequence <= old.sequence && (sequence > 0 || old.sequence > 0) {
		return Snapshot{}, fmt.Errorf("trust: sequence %d, want more than %d", sequence, old.sequence)
	}
	if len(old.applied) >= maxApplied && sequence == 0 {
		return Snapshot{}, fmt.Errorf("trust: %d proposals were applied, more need a sequence", len(old.applied))
	}
	m, err := parseMembers(p.Registry)
	if err != nil {
		return Snapshot{}, err
	}
	if p.Merge {
		if m, err = old.merge(m); err != nil {
			return Snapshot{}, err
		}
	}
	s := &registryState{members: m, sequence: max(sequence, old.sequence), applied: maps.Clone(old.applied)}
	if len(s.applied) < maxApplied {
		s.applied[p.ID] = hash
	}
	if err := s.publish(now); err != nil {
		return Snapshot{}, err
	}
	if r.keep != nil {
		if err := r.keep(s.value()); err != nil {
			return Snapshot{}, fmt.Errorf("trust: registry cannot be kept: %w", err)
		}
	}
	r.state.Store(s)
	return s.snapshot, nil
}

// Replace replaces the members, as if NewRegistry was called with initial and o. Applied
// proposals stay applied. If the members are invalid it fails and changes nothing.
func (r *Registry) Replace(initial canonical.Value, now time.Time, o RegistryOptions) error {
	m, err := parseMembers(initial)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.state.Load()
	s := &registryState{members: m, sequence: old.sequence, applied: old.applied}
	if err := s.publish(now); err != nil {
		return err
	}
	r.keep = o.Keep
	r.state.Store(s)
	return nil
}

// Applied reports whether exactly this proposal was applied before, so that applying
// it again changes nothing.
func (r *Registry) Applied(p Proposal) bool {
	return r.state.Load().applied[p.ID] == canonical.Hash(p.document())
}

// publish makes the snapshot.
func (s *registryState) publish(now time.Time) error {
	v := s.members.value.With("updated_at", canonical.String(sdl.FormatTime(now)))
	if n := v.JSONSize(); n > maxRegistry {
		return fmt.Errorf("trust: registry of %d octets, limit %d", n, maxRegistry)
	}
	if n := v.MaxArray(); n > maxSet {
		return fmt.Errorf("trust: registry with a set of %d, limit %d", n, maxSet)
	}
	s.snapshot = Snapshot{v, canonical.Hash(v)}
	return nil
}

// sequenceOf returns the sequence of a proposed registry, 0 if it has none.
func sequenceOf(registry canonical.Value) (int64, error) {
	if !registry.Has(memberSequence) {
		return 0, nil
	}
	n, ok := registry.Get(memberSequence).Int64()
	if !ok || n <= 0 {
		return 0, errors.New("trust: registry: sequence is no integer above zero")
	}
	return n, nil
}
