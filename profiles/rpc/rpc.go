// Package rpc is the RPC profile: calls of named methods with one result, one
// error, or a stream of items before either.
//
//	REQ → RESP | ERR
//	REQ → STREAM_ITEM* → RESP | ERR
//	CANCEL ends the call of an rpc_id early, with ERR cancelled
//
// New builds the serving side from a table of methods. Call and Open are the
// calling side. An rpc_id belongs to the connection it came on: no other
// connection can cancel it, collide with it or learn that it exists.
//
// The built-in methods are swp.ping (alive), swp.echo (params come back),
// swp.info (what this endpoint offers) and swp.sync (answered once all earlier
// frames of the stream are processed and their data is committed).
//
// A request with an idempotency_key is run once: its terminal outcome is kept
// for the replay window, 24 hours by default, and answers every repetition. See
// Outcomes for the exact promises.
//
// The items of a call that is received by a Stream wait for their caller: extensions 16 and 17.
//
// A request with extension 49 ends with ERR timeout when the milliseconds that
// it names have passed.
//
// Specification: SWP profiles §12.
package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of RPC.
const ProfileID = 12

// Options configure the serving side. The zero value serves the built-in methods except
// swp.info, to everyone.
type Options struct {
	// Methods are served in addition to the built-in ones, by name. Names with the prefix
	// "swp." are reserved for this project. A name can be used once.
	Methods map[string]Method

	// Resolve returns the method with another name, such as one that another endpoint
	// serves. It is called on the read loop and must not block. May be nil.
	Resolve func(name string) (Method, bool)

	// Names returns the names of the methods of this endpoint that Resolve knows, for Info. May
	// be nil.
	Names func() []string

	// Toward returns a method of another endpoint, for a call with a target (extension 52).
	// For the rules the method is named target/name. The error says why it has none. Nil:
	// a call with a target is refused.
	Toward func(target, name string) (Method, error)

	// Info returns the result of swp.info for a peer. It is called on the read loop and
	// must not block. Nil: the method is not served.
	Info func(session profiles.Session) Info

	// Receipt returns the result of swp.audit.receipt for a peer. It judges itself which
	// peers may call it. Nil: the method is not served.
	Receipt func(ctx context.Context, peer *profiles.Peer, params []byte) ([]byte, error)

	// Access is asked for operation call of profile rpc on each method, including the
	// built-in ones. A denied call is answered with unauthorized, whether or not the method
	// exists. Nil means profiles.Everyone.
	Access profiles.Access

	// Keeping is asked instead of Access for a call whose outcome is kept under an
	// idempotency_key, which takes room in Outcomes. Nil: Access.
	Keeping profiles.Access

	// Brought are the methods of other profiles of the endpoint.
	Brought []profiles.Method

	// Identity is the identity of this endpoint, which is added to its refusals of calls.
	// May be empty.
	Identity string

	// Outcomes stores the outcomes of calls with an idempotency_key. Nil: such calls are
	// served for Repeatable methods only.
	Outcomes Outcomes

	// ReplayWindow is how long an outcome is kept after the end of its call, default 24
	// hours.
	ReplayWindow time.Duration

	// Handler is the time limit of a Detached method with an idempotency_key, to which the
	// bound of the endpoint does not apply; default 30 s.
	Handler time.Duration

	// Times returns ReplayWindow and Handler for each call; 0 means the value above. Nil:
	// they do not change.
	Times func() (window, handler time.Duration)

	// Context ends the calls with an idempotency_key, which outlive their connections. Nil:
	// nothing ends them.
	Context context.Context

	// Now is the clock of the replay window. Nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Keeping == nil {
		o.Keeping = o.Access
	}
	if o.ReplayWindow == 0 {
		o.ReplayWindow = 24 * time.Hour
	}
	if o.Handler == 0 {
		o.Handler = 30 * time.Second
	}
	if o.Times == nil {
		o.Times = func() (window, handler time.Duration) { return 0, 0 }
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// New returns the profile. It fails on a method without exactly one function, on a method
// with a built-in name, and on a negative duration.
func New(opts Options) (*profiles.Profile, error) {
	opts = opts.withDefaults()
	if opts.ReplayWindow < 0 || opts.Handler < 0 {
		return nil, fmt.Errorf("rpc: replay window %v and handler deadline %v, want neither negative", opts.ReplayWindow, opts.Handler)
	}
	s := &service{methods: make(map[string]*method), live: newTable(), access: opts.Access, keeping: opts.Keeping, resolve: opts.Resolve, toward: opts.Toward, identity: opts.Identity}
	for name, m := range builtin(&opts) {
		m.builtin = true
		s.methods[name] = &method{Method: m, name: name}
	}
	for i := range opts.Brought {
		m := &opts.Brought[i]
		if _, taken := s.methods[m.Name]; taken {
			return nil, fmt.Errorf("rpc: method %q is there twice", m.Name)
		}
		served := brought(m)
		if err := served.validate(); err != nil {
			return nil, fmt.Errorf("rpc: method %q: %w", m.Name, err)
		}
		s.methods[m.Name] = &method{Method: served, name: m.Name}
	}
	for name, m := range opts.Methods {
		if _, taken := s.methods[name]; taken {
			return nil, fmt.Errorf("rpc: method %q is built in", name)
		}
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("rpc: method %q: %w", name, err)
		}
		s.methods[name] = &method{Method: m, name: name}
	}
	if opts.Outcomes != nil {
		s.runs = newRuns(opts)
	}
	return &profiles.Profile{
		ID:   ProfileID,
		Name: "rpc",
		Types: []profiles.Type{
			{ID: TypeReq, Name: "RPC_REQ", Role: profiles.Initiating},
			{ID: TypeResp, Name: "RPC_RESP", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeErr, Name: "RPC_ERR", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeStreamItem, Name: "RPC_STREAM_ITEM", Role: profiles.Answer},
			{ID: TypeCancel, Name: "RPC_CANCEL", Role: profiles.Initiating | profiles.Concluding},
		},
		Operations: []profiles.Operation{
			{Name: "call", On: "method"},
			{Name: "cancel", Free: true},
		},
		Extensions: []uint64{ExtWindow, ExtTaken, profiles.ExtHops, profiles.ExtDeadline, profiles.ExtChain, profiles.ExtTarget},
		Methods: []profiles.Method{
			{Name: MethodPing, Open: true}, {Name: MethodEcho, Open: true}, {Name: MethodInfo, Open: true}, {Name: MethodSync, Open: true},
			{Name: MethodReceipt, Open: true},
		},
		Scope:     profiles.ScopeRPC,
		Behind:    profiles.PassedOn,
		Show:      p1.Show(Messages),
		Handler:   s,
		Check:     check,
		Act:       s.act,
		Lifecycle: Lifecycle,
		Refusal:   refusal,
		Review:    s.review,
	}, nil
}

// Lifecycle returns the rpc_id of a message, nil if it cannot be read. It is a window
// into the payload.
func Lifecycle(env *e1.Envelope) []byte {
	body, err := p1.Body(env.Payload, env.MsgType, members)
	if err != nil {
		return nil
	}
	var id []byte
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Bytes(&id)
		}
	}
	if f.Err() != nil {
		return nil
	}
	return id
}
