package sdlagent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
	"github.com/slimwire/swp/store"
)

// Records stores persistent state; see package store for its contract.
type Records interface{ store.Records }

// The spaces. Records belong to the identity of this endpoint, except tasks, which
// belong to the identity that sent them, and nonces and sessions, which belong to the
// agent_id.
const (
	spaceNonces   = "sdl.nonces"   // by the SHA-256 of agent_id and nonce; nothing but their time
	spaceSessions = "sdl.sessions" // by binding_id
	spaceRegistry = "sdl.registry"
	spaceTasks    = "sdl.tasks" // by task_id
)

// put writes a record and waits for the result, but not longer than ctx.
func put(ctx context.Context, r Records, space, key string, was uint64, owner string, value []byte, expires time.Time) store.PutResult {
	done := make(chan store.PutResult, 1)
	r.Put(space, key, was, owner, value, expires, func(p store.PutResult) { done <- p })
	select {
	case p := <-done:
		return p
	case <-ctx.Done():
		return store.PutResult{Err: ctx.Err()}
	}
}

// ownerOf is the owner whose quota counts the records of an agent, so that one agent
// does not use up the quota of others.
func ownerOf(agentID string) string {
	const longest = 512
	if len(agentID) > longest {
		sum := sha256.Sum256([]byte(agentID))
		agentID = hex.EncodeToString(sum[:])
	}
	return "sdl:" + agentID
}

// Nonces remembers nonces in Records, until their time is over and however often the
// process ends. It implements trust.Nonces. Quotas bound their number: each agent_id
// is an owner.
type Nonces struct {
	Records Records
	Now     func() time.Time // the clock that exp is on, and that of Records; nil means time.Now
}

// Remember implements trust.Nonces.
func (n Nonces) Remember(ctx context.Context, agent, nonce string, exp time.Time) (bool, error) {
	h := sha256.New()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(agent)))) // never fails
	_, _ = h.Write([]byte(agent))
	_, _ = h.Write([]byte(nonce))
	now := time.Now
	if n.Now != nil {
		now = n.Now
	}
	// The clock of the store does not jump. now() includes the monotonic reading that the
	// conversion needs.
	at := now() // as it is read, with its monotonic reading
	until := at.Add(exp.Sub(at))
	p := put(ctx, n.Records, spaceNonces, hex.EncodeToString(h.Sum(nil)), 0, ownerOf(agent), []byte(sdl.FormatTime(exp)), until)
	var kind interface{ StoreDetail() string }
	if errors.As(p.Err, &kind) && kind.StoreDetail() == "store_quota" {
		return false, trust.ErrFull
	}
	return p.Wrote, p.Err
}

// keptSession is the stored form of a session.
type keptSession struct {
	From    string    `json:"from"`
	To      string    `json:"to"`
	Expires time.Time `json:"expires"`
}

// keep stores the changes of a request before it is answered.
func (a *Agent) keep(ctx context.Context, r *serve.Request, answer serve.Result) error {
	if answer.CT != sdl.CTSession || a.language.Load().Sessions == nil {
		return nil // a refusal changes nothing
	}
	op, _ := r.Payload.Get("op").Text()
	id, _ := answer.Payload.Get("binding_id").Text()
	text, _ := answer.Payload.Get("expires").Text()
	expires, ok := sdl.ParseTime(text)
	if op != "open" || id == "" || !ok {
		return nil // refused, or opens no session
	}
	k := keptSession{From: r.Agent(), To: r.Envelope.To.AgentID, Expires: expires}
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("sdlagent: %w", err)
	}
	// Opening the same session again writes the same record.
	if p := put(ctx, a.opts.Records, spaceSessions, id, 0, ownerOf(k.From), value, expires); p.Err != nil {
		return fmt.Errorf("sdlagent: a session cannot be kept: %w", p.Err)
	}
	return nil
}

// recallSessions restores the sessions of the previous process.
func (a *Agent) recallSessions(ctx context.Context) error {
	if a.language.Load().Sessions == nil {
		return nil
	}
	var fault error
	err := a.opts.Records.Scan(ctx, spaceSessions, "", "", func(id string, _ uint64, value []byte) bool {
		var k keptSession
		if err := json.Unmarshal(value, &k); err != nil {
			fault = fmt.Errorf("sdlagent: stored session: %w", err)
			return false
		}
		// An expired session is refused here, which is correct.
		_ = a.language.Load().Sessions.Register(trust.Session{ID: id, From: k.From, To: k.To, Expires: k.Expires}, a.language.Load().Now())
		return true
	})
	return errors.Join(err, fault)
}

// keptRegistry is the stored form of the trust registry.
type keptRegistry struct {
	Configured string          `json:"configured"` // hash of its first State
	State      json.RawMessage `json:"state"`
}

// registryTime limits the wait for the store at a change of the trust registry.
const registryTime = 10 * time.Second

// Registry is a trust registry with its changes stored in Records.
type Registry struct {
	*trust.Registry
	records    Records
	configured string // hash of the configured initial state
	version    uint64 // version of the record; changes are serial
}

const registryKey = "registry"

// OpenRegistry returns the configured trust registry with its stored changes. If initial
// differs from the previous configuration, the stored changes are discarded. Used proposals
// stay recorded, so that none is applied twice.
func OpenRegistry(ctx context.Context, records Records, initial canonical.Value, now time.Time) (*Registry, error) {
	version, value, err := records.Get(ctx, spaceRegistry, registryKey)
	if err != nil {
		return nil, fmt.Errorf("sdlagent: trust registry: %w", err)
	}
	r := &Registry{records: records, configured: canonical.Hash(initial), version: version}
	state := initial
	if version > 0 {
		var k keptRegistry
		if err := json.Unmarshal(value, &k); err != nil {
			return nil, fmt.Errorf("sdlagent: stored trust registry: %w", err)
		}
		kept, err := canonical.ParseJSON(k.State)
		if err != nil {
			return nil, fmt.Errorf("sdlagent: stored trust registry: %w", err)
		}
		if state = kept; k.Configured != r.configured {
			for _, name := range []string{"sequence", "applied_proposals"} {
				initial = initial.With(name, kept.Get(name))
			}
			state = initial
		}
	}
	r.Registry, err = trust.NewRegistry(state, now, r.options(r.configured))
	return r, err
}

// Configure replaces the initial state, with the effect of OpenRegistry after a restart. An
// equal state changes nothing. Calls must be serial.
func (r *Registry) Configure(initial canonical.Value, now time.Time) error {
	configured := canonical.Hash(initial)
	if configured == r.configured {
		return nil
	}
	if err := r.Replace(initial, now, r.options(configured)); err != nil {
		return err
	}
	r.configured = configured
	return nil
}

// options store changes together with the hash of the initial state.
func (r *Registry) options(configured string) trust.RegistryOptions {
	return trust.RegistryOptions{Keep: func(state canonical.Value) error {
		value, err := json.Marshal(keptRegistry{configured, state.AppendJSON(nil)})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), registryTime)
		defer cancel()
		p := put(ctx, r.records, spaceRegistry, registryKey, r.version, "sdl", value, time.Time{})
		if p.Err != nil {
			return p.Err
		}
		if !p.Wrote {
			return errors.New("sdlagent: the record of the trust registry was written by somebody else")
		}
		r.version = p.Version
		return nil
	}}
}
