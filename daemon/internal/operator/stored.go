package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/state"
)

// Engine lists what profiles do not list.
type Engine interface {
	relay.Queues

	// Owners calls yield with the owners of stored data whose names are greater than after, and their
	// octets, in order, until yield returns false.
	Owners(ctx context.Context, after string, yield func(name string, used int64) bool) error
}

// maxOwners is how many owners are looked at for the owner of a state.
const maxOwners = 100_000

// Kinds returns the kinds of data in a store. set returns the profiles.
func Kinds(engine Engine, set func() *all.Set) []Kind {
	s := &stored{engine, set}
	return []Kind{
		{
			Name: "topics", Does: "relay topics with deliveries that are not dead, and partners that deliveries wait for",
			Titles: map[string]string{"name": "topic", "state": "state", "count": "deliveries", "note": "consumers"},
			Rows:   s.topics,
		},
		{
			Name: "deliveries", Does: "deliveries that wait for a consumer or a partner, or that one has",
			Titles: map[string]string{"owner": "publisher", "id": "delivery", "name": "topic", "state": "state", "count": "attempts", "octets": "octets", "begun": "accepted"},
			Rows: func(ctx context.Context, after string, yield func(string, *Row) bool) error {
				return s.deliveries(ctx, false, after, yield)
			},
			Actions: []Action{
				s.delivery("deliveries.retry", "deliver it now, without the rest of its pause", []string{stateWaiting}, false, "it is due now", (*relay.Service).Retry),
				s.delivery("deliveries.release", "end the attempt of the consumer that has it, which counts as failed", []string{stateHeld}, false, "the attempt has ended", (*relay.Service).Release),
				s.delivery("deliveries.refuse", "make it dead; its publisher is told that it was rejected", []string{stateWaiting}, false, "it is dead", (*relay.Service).Refuse),
			},
		},
		{
			Name: "dead", Does: "dead deliveries",
			Titles: map[string]string{"owner": "publisher", "id": "delivery", "name": "topic", "state": "reason", "count": "attempts", "octets": "octets", "begun": "accepted", "ended": "died", "note": "remark"},
			Rows: func(ctx context.Context, after string, yield func(string, *Row) bool) error {
				return s.deliveries(ctx, true, after, yield)
			},
			Actions: []Action{
				s.delivery("dead.retry", "put it back into its topic, without attempts", nil, false, "it waits for a consumer again", (*relay.Service).Retry),
				s.delivery("dead.drop", "delete it with its payload", nil, true, "it is deleted", (*relay.Service).Drop),
			},
		},
		{
			Name: "tasks", Does: "tasks of peers, also those that have ended",
			Titles: map[string]string{"owner": "initiator", "id": "task", "name": "kind", "state": "state", "octets": "octets", "begun": "accepted", "ended": "deadline", "note": "remark"},
			Rows:   s.tasks,
			Actions: []Action{{
				Name: "tasks.cancel", Does: "end it; its initiator and its agent are told that it was cancelled", Final: true, States: []string{string(a2a.TaskWaiting), string(a2a.TaskRunning)},
				Do: func(ctx context.Context, on Target) (string, error) {
					id, err := Unspell(on.ID)
					if err != nil {
						return "", err
					}
					return "it is cancelled", set().A2A.Cancel(ctx, on.Owner, []byte(id))
				},
			}},
		},
		{
			Name: "artifacts", Does: "artifacts",
			Titles: map[string]string{"owner": "owner", "id": "artifact", "octets": "octets", "ended": "complete since", "note": "SHA-256"},
			Rows:   s.artifacts,
			Actions: []Action{{
				Name: "artifacts.delete", Does: "delete it, and an upload of its name that is not complete", Final: true,
				Do: func(ctx context.Context, on Target) (string, error) {
					id, err := Unspell(on.ID)
					if err != nil {
						return "", err
					}
					return wait(ctx, "artifact", func(done func(bool, error)) {
						set().Artifact.Forget(&profiles.Peer{Identity: on.Owner}, []byte(id), func(was artifact.Forgotten, err error) { done(was.Artifact || was.Upload, err) })
					})
				},
			}},
		},
		{
			Name: "streams", Does: "cursors of named subscriptions of events",
			Titles: map[string]string{"owner": "subscriber", "id": "name", "count": "events behind", "note": "last event"},
			Rows:   s.streams,
			Actions: []Action{{
				Name: "streams.forget", Does: "delete the cursor; the next subscription with the name misses the events until it begins", Final: true,
				Do: func(ctx context.Context, on Target) (string, error) {
					name, err := Unspell(on.ID)
					if err != nil {
						return "", err
					}
					return "it is deleted", set().Events.ForgetNamed(ctx, on.Owner, name)
				},
			}},
		},
		{
			Name: "state", Does: "states",
			Titles: map[string]string{"owner": "owner", "id": "state_id", "octets": "octets"},
			Rows:   s.states,
			Actions: []Action{{
				Name: "state.delete", Does: "delete it with its deltas", Final: true,
				Do: func(ctx context.Context, on Target) (string, error) {
					id, err := hex.DecodeString(on.ID)
					if err != nil {
						return "", fmt.Errorf("state_id %.80q: %w", on.ID, err)
					}
					return wait(ctx, "state", func(done func(bool, error)) {
						set().State.Forget(&profiles.Peer{Identity: on.Owner}, id, func(was state.Forgotten, err error) { done(was.State, err) })
					})
				},
			}},
		},
		{
			Name: "owners", Does: "identities with stored data, and the octets that count against their quotas, without artifacts",
			Titles: map[string]string{"owner": "identity", "octets": "octets"},
			Rows: func(ctx context.Context, after string, yield func(string, *Row) bool) error {
				return engine.Owners(ctx, after, func(name string, used int64) bool {
					return name == "" || yield(name, &Row{Owner: name, Octets: used})
				})
			},
		},
	}
}

// States of deliveries in rows.
const (
	stateWaiting = "waiting"
	stateHeld    = "in flight"
)

// stored lists what is stored.
type stored struct {
	engine Engine
	set    func() *all.Set
}

func (s *stored) topics(ctx context.Context, after string, yield func(string, *Row) bool) error {
	return s.set().Relay.Lines(ctx, s.engine, after, func(place string, l *relay.Line) bool {
		row := &Row{Name: l.Topic, State: "local", Count: l.Deliveries, Note: fmt.Sprint(l.Consumers)}
		if l.Partner != "" {
			row.Name, row.State, row.Note = l.Partner+"/", "of a partner", ""
		}
		return yield(place, row)
	})
}

func (s *stored) deliveries(ctx context.Context, dead bool, after string, yield func(string, *Row) bool) error {
	return s.set().Relay.Deliveries(ctx, s.engine, dead, after, func(place string, d *relay.Stored) bool {
		row := &Row{Owner: Spell(d.Publisher), ID: hex.EncodeToString(d.DeliveryID), Name: d.Topic, State: stateWaiting, Count: int64(d.Attempts), Octets: int64(d.Size), Begun: d.Taken}
		switch {
		case dead:
			row.State, row.Ended = string(d.Reason), d.Died
			if d.Refusal != nil {
				row.Note = d.Refusal.Code + ": " + d.Refusal.Message
			}
			if !d.Told {
				row.Note = joined(row.Note, "its publisher does not know yet")
			}
		case d.Leased:
			row.State = stateHeld
		}
		return yield(place, row)
	})
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// delivery is an action on a delivery.
func (s *stored) delivery(name, does string, states []string, final bool, said string, do func(r *relay.Service, ctx context.Context, key string) error) Action {
	return Action{Name: name, Does: does, States: states, Final: final, Do: func(ctx context.Context, on Target) (string, error) {
		id, err := hex.DecodeString(on.ID)
		if err != nil {
			return "", fmt.Errorf("delivery %.80q: %w", on.ID, err)
		}
		publisher, err := Unspell(on.Owner)
		if err != nil {
			return "", err
		}
		return said, do(s.set().Relay, ctx, relay.Key(publisher, id))
	}}
}

func (s *stored) tasks(ctx context.Context, after string, yield func(string, *Row) bool) error {
	return s.set().A2A.Stored(ctx, after, func(place string, t *a2a.Stored) bool {
		row := &Row{Owner: t.Owner, ID: Spell(t.ID), Name: t.Kind, State: string(t.State), Octets: int64(t.Octets), Begun: t.Created, Ended: t.Deadline, Note: t.Reason}
		if t.Agent != "" {
			row.Name = t.Agent + "/" + t.Kind
		}
		return yield(place, row)
	})
}

func (s *stored) artifacts(ctx context.Context, after string, yield func(string, *Row) bool) error {
	return s.set().Artifact.Stored(ctx, after, func(place string, a *artifact.Stored) bool {
		return yield(place, &Row{Owner: a.Owner, ID: Spell(a.ID), Octets: int64(a.Size), Ended: a.Completed, Note: a.SHA256})
	})
}

func (s *stored) streams(ctx context.Context, after string, yield func(string, *Row) bool) error {
	return s.set().Events.Named(ctx, after, func(place string, n *events.Named) bool {
		return yield(place, &Row{Owner: n.Owner, ID: Spell(n.Name), Count: int64(n.Behind), Note: fmt.Sprint(n.Cursor)})
	})
}

// states lists states. Only a hash of the owner is with a state, so the owners of all data are compared.
func (s *stored) states(ctx context.Context, after string, yield func(string, *Row) bool) error {
	owners := make(map[[sha256.Size]byte]string)
	err := s.engine.Owners(ctx, "", func(name string, _ int64) bool {
		owners[sha256.Sum256([]byte(name))] = name
		return len(owners) < maxOwners
	})
	if err != nil {
		return err
	}
	return s.set().State.Stored(ctx, after, func(place string, st *state.Stored) bool {
		return yield(place, &Row{Owner: owners[st.OwnerSum()], ID: hex.EncodeToString(st.ID[:]), Octets: int64(st.Octets)})
	})
}

// wait waits for a deletion, and returns an error if there was nothing.
func wait(ctx context.Context, what string, remove func(done func(was bool, err error))) (string, error) {
	type result struct {
		was bool
		err error
	}
	done := make(chan result, 1)
	remove(func(was bool, err error) { done <- result{was, err} })
	select {
	case r := <-done:
		if r.err == nil && !r.was {
			return "", profiles.Errorf(profiles.NotFound, "there is no such %s", what)
		}
		return "it is deleted", r.err
	case <-ctx.Done():
		return "", errors.Join(errors.New("it is not known whether it is deleted"), ctx.Err())
	}
}
