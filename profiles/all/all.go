// Package all is the one list of profiles. Adding a profile is a folder beside
// this one, its vectors, and a line here.
//
// Profiles do not know each other. What one needs of another, or of the world,
// it declares as a small interface of its own; here they are joined.
package all

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// Options configure the profiles. The zero value serves all of them, with
// nothing behind them.
type Options struct {
	// Version of the software, for swp.info.
	Version string

	// Identity is that of this endpoint, by which its own errors are told from those of
	// others. Empty: they do not say whose they are.
	Identity string

	// Access says what peers may do, in every profile: it takes the place of the
	// Access in the options of each. Nil means everyone may do everything.
	Access profiles.Access

	// Partner reports whether an identity is that of a federation partner, for
	// swp.info. Nil means that none is.
	Partner func(identity string) bool

	// Idle is after what time without use a connection is ended, for swp.info: that of
	// the endpoint's Bounds. Zero means that swp.info does not say.
	Idle time.Duration

	// MCP configures profile 1. Its Backend is the servers that peers may call.
	MCP mcpmap.Options

	// A2A configures profile 2. Without a Carrier of its own the Carriers of the Set
	// go ahead of tasks.
	A2A a2a.Options

	// AGDISC configures profile 10. Behind its Sources come the cards that agents
	// on the other end of a session have of their own.
	AGDISC agdisc.Options

	// TOOLDISC configures profile 11.
	TOOLDISC tooldisc.Options

	// Events configures profile 13.
	Events events.Options

	// Cred configures profile 15. Its Sync is of this package's making.
	Cred cred.Options

	// Hints configures profile 16. They are held against what the profiles 1, 2 and
	// 12 do.
	Hints policyhint.Options

	// Artifact configures profile 14.
	Artifact artifact.Options

	// State configures profile 17. Behind its Sources come the schemas of tools.
	State state.Options

	// Relay configures profile 19. Its Open is of this package's making.
	Relay relay.Options

	// SDL configures profile 1024.
	SDL sdl.Options

	// SLIP configures profile 1025. Without Agents and a Receive of its own it knows
	// those of A2A. SLIPRelay keeps messages for those of them that are away.
	SLIP      slip.Options
	SLIPRelay SLIPRelay

	// More are profiles of one's own, beside those of this list. They are asked for
	// what peers may do by nobody but themselves.
	More []*profiles.Profile

	// RPC configures profile 12. Its Methods are served beside the built-in ones;
	// Info and Context are of this package's making.
	RPC rpc.Options
}

// Set is the profiles of one endpoint, and the ends that they have on this side.
type Set struct {
	Registry *profiles.Registry

	// Carriers are what travels with messages: trace contexts, hints and credentials.
	// Their Attach is for endpoint.Options.Tracer, as an endpoint.ContextFunc.
	Carriers profiles.Carriers

	Traces   *obs.Contexts     // trace contexts that peers have set
	Hints    *policyhint.Hints // and hints
	Cred     *cred.Service     // and credentials
	MCP      *mcpmap.Mapping   // calls the MCP servers of peers
	A2A      *a2a.Service      // sends tasks, and carries out those of peers
	AGDISC   *agdisc.Service   // tells the cards of agents
	TOOLDISC *tooldisc.Service // tells which tools there are
	Events   *events.Bus       // takes in and gives out the events of this process
	Artifact *artifact.Service // keeps artifacts
	State    *state.Service    // keeps states
	Relay    *relay.Service    // keeps deliveries for others, publishes to relays and consumes from them
	SDL      *sdl.Service      // serves envelopes of A2A-SDL, and knows where agents spoke
	SLIP     *slip.Service     // passes messages of nSLIP and SLIP v1 on to agents

	cards  *agdisc.Cache      // those of agents on the other end of a session
	cancel context.CancelFunc // ends the calls that outlive their connections
	opened []func()           // close what is open; the last one first
}

// New builds every profile. It fails on methods that rpc.New refuses, and on
// those that are named like one of a profile.
func New(opts Options) (*Set, error) {
	if opts.Access == nil {
		opts.Access = profiles.Everyone
	}
	opts.MCP.Access, opts.A2A.Access, opts.Events.Access = opts.Access, opts.Access, opts.Access
	opts.AGDISC.Access, opts.TOOLDISC.Access, opts.State.Access = opts.Access, opts.Access, opts.Access
	opts.Relay.Access, opts.Hints.Access, opts.Artifact.Access = opts.Access, opts.Access, opts.Access
	opts.Cred.Access, opts.SLIP.Access = opts.Access, opts.Access
	s := &Set{Traces: obs.New(obs.Options{Access: opts.Access}), Hints: policyhint.New(opts.Hints)}
	opts.MCP.Policy, opts.A2A.Policy, opts.RPC.Policy = s.Hints, s.Hints, s.Hints
	opts.MCP.Identity, opts.RPC.Identity, opts.A2A.Identity = opts.Identity, opts.Identity, opts.Identity
	s.MCP = mcpmap.New(opts.MCP)
	methods := map[string]rpc.Method{
		mcpmap.MethodRPCListen: {Long: true, Held: s.listen},
		mcpmap.MethodRPCClose:  {Inline: s.end, Repeatable: true},
		agdisc.MethodList:      {Inline: s.agents, Repeatable: true},
		state.MethodDeltas:     {Detached: s.deltas, Repeatable: true},
		state.MethodForget:     {Held: s.forget, Repeatable: true},
		artifact.MethodList:    {Detached: s.artifacts, Repeatable: true},
		artifact.MethodForget:  {Held: s.forgetArtifact, Repeatable: true},
		relay.MethodAttach:     {Long: true, Held: s.attach},
		relay.MethodDead:       {Detached: s.dead, Repeatable: true},
	}
	for name, m := range opts.RPC.Methods {
		if _, taken := methods[name]; taken {
			return nil, fmt.Errorf("all: method %q is built in", name)
		}
		methods[name] = m
	}
	opts.RPC.Info, opts.RPC.Access, opts.RPC.Methods = s.info(opts), withOpen{opts.Access, Open()}, methods
	opts.RPC.Context, s.cancel = context.WithCancel(context.Background())
	calls, err := rpc.New(opts.RPC)
	if err == nil {
		err = s.open(&opts)
	}
	if err == nil {
		s.Registry, err = profiles.NewRegistry(append([]*profiles.Profile{
			s.MCP.Profile(),
			s.A2A.Profile(),
			s.AGDISC.Profile(),
			s.TOOLDISC.Profile(),
			calls,
			s.Events.Profile(),
			s.Artifact.Profile(),
			s.Cred.Profile(),
			s.Hints.Profile(),
			s.State.Profile(),
			s.Traces.Profile(),
			s.Relay.Profile(),
			s.SDL.Profile(),
			s.SLIP.Profile(),
		}, opts.More...)...)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open makes what Close closes.
func (s *Set) open(opts *Options) (err error) {
	opts.Cred.Sync = confirm
	if s.Cred, err = cred.New(context.Background(), opts.Cred); err != nil {
		return err
	}
	s.Carriers = profiles.Carriers{s.Traces, s.Hints, s.Cred}
	if s.Events, err = events.New(opts.Events); err != nil {
		return err
	}
	s.opened = append(s.opened, s.Events.Close)
	if s.TOOLDISC, err = tooldisc.New(opts.TOOLDISC); err != nil {
		return err
	}
	s.opened = append(s.opened, s.TOOLDISC.Close)
	if s.Artifact, err = artifact.New(opts.Artifact); err != nil {
		return err
	}
	s.opened = append(s.opened, s.Artifact.Close)
	opts.State.Sources = append(slices.Clone(opts.State.Sources), s.TOOLDISC)
	if s.State, err = state.New(opts.State); err != nil {
		return err
	}
	s.opened = append(s.opened, s.State.Close)
	opts.Relay.Open = openStream
	if s.Relay, err = relay.New(opts.Relay); err != nil {
		return err
	}
	s.opened = append(s.opened, s.Relay.Close)
	s.cards = agdisc.NewCache(agdisc.CacheOptions{})
	s.opened = append(s.opened, s.cards.Close)
	if opts.A2A.Carrier == nil {
		opts.A2A.Carrier = s.Carriers
	}
	opts.A2A.Chains = s.Cred
	if s.A2A, err = a2a.New(opts.A2A); err != nil {
		return err
	}
	s.opened = append(s.opened, s.A2A.Close, s.MCP.Close)
	if s.SDL, err = sdl.New(opts.SDL); err != nil {
		return err
	}
	s.opened = append(s.opened, s.SDL.Close)
	if opts.SLIP.Agents == nil && opts.SLIP.Receive == nil {
		opts.SLIP.Agents = s.A2A
	}
	if opts.SLIP.Relay == nil && opts.SLIPRelay.Agents != nil {
		opts.SLIP.Relay = KeepSLIP(s.Relay, opts.SLIPRelay)
	}
	if s.SLIP, err = slip.New(opts.SLIP); err != nil {
		return err
	}
	s.opened = append(s.opened, s.SLIP.Close)
	opts.AGDISC.Sources = append(slices.Clone(opts.AGDISC.Sources), agdisc.NewSessions(declared{s.A2A}, s.cards))
	s.AGDISC = agdisc.New(opts.AGDISC)
	return nil
}

// Close ends what the profiles keep open. Sessions of the endpoint are ended
// first.
func (s *Set) Close() {
	s.cancel()
	for _, end := range slices.Backward(s.opened) {
		end()
	}
}

// listen is swp.mcp.listen: held open while this caller hears what the server
// of a session says on its own account.
func (s *Set) listen(p *rpc.Pending, params []byte) error {
	release, err := s.MCP.Listen(p.Session(), p.Lane(), params, func(again error) {
		if again != nil {
			p.Fail(again)
			return
		}
		_ = p.Return(nil) // or the caller has left
	})
	if err != nil {
		return err
	}
	context.AfterFunc(p.Context(), release)
	return nil
}

// end is swp.mcp.close.
func (s *Set) end(req *profiles.Request, params []byte) ([]byte, error) {
	return nil, s.MCP.End(req.Session, params)
}

// agents is swp.agents.list.
func (s *Set) agents(req *profiles.Request, params []byte) ([]byte, error) {
	return s.AGDISC.List(req.Session.Peer(), params)
}

// deltas is swp.state.deltas.
func (s *Set) deltas(ctx context.Context, req *profiles.Request, params []byte, send func(item []byte) error) ([]byte, error) {
	err := s.State.Deltas(ctx, req.Session.Peer(), params, send)
	if fault := (*profiles.Error)(nil); errors.As(err, &fault) && fault.Domain {
		return nil, &rpc.Error{Code: "not_found", Message: fault.Text}
	}
	return nil, err
}

// forget is swp.state.forget.
func (s *Set) forget(p *rpc.Pending, params []byte) error {
	s.State.Forget(p.Session().Peer(), params, func(err error) {
		if err != nil {
			p.Fail(err)
			return
		}
		_ = p.Return(nil) // or nobody is left to be told
	})
	return nil
}

// artifacts is swp.artifacts.list.
func (s *Set) artifacts(ctx context.Context, req *profiles.Request, params []byte, _ func(item []byte) error) ([]byte, error) {
	return s.Artifact.List(ctx, req.Session.Peer(), params)
}

// forgetArtifact is swp.artifacts.forget.
func (s *Set) forgetArtifact(p *rpc.Pending, params []byte) error {
	s.Artifact.Forget(p.Session().Peer(), params, func(err error) {
		if err != nil {
			p.Fail(err)
			return
		}
		_ = p.Return(nil) // or nobody is left to be told
	})
	return nil
}

// declared are the agents that sessions have declared by A2A, as AGDISC wants
// them.
type declared struct{ *a2a.Service }

// AgentIDs implements agdisc.Agents.
func (d declared) AgentIDs() []string {
	var ids []string
	for _, agent := range d.Agents() {
		if agent.Online {
			ids = append(ids, agent.ID)
		}
	}
	return ids
}

// honoured are the extension types that are acted on or sent, by profile_id; 0 stands for
// any profile.
var honoured = map[uint64][]uint64{
	0: {profiles.ExtEndpoint},
	mcpmap.ProfileID: {
		profiles.ExtTarget, profiles.ExtSession, profiles.ExtRelated,
		profiles.ExtMCPParam, profiles.ExtHTTPStatus, profiles.ExtHops, profiles.ExtDeadline, profiles.ExtChain,
	},
	a2a.ProfileID: {
		profiles.ExtAgent, profiles.ExtParam, profiles.ExtSequence, profiles.ExtResume, profiles.ExtFirstHeld,
		profiles.ExtHops, profiles.ExtDeadline, profiles.ExtChain,
	},
	rpc.ProfileID:      {profiles.ExtHops, profiles.ExtDeadline, profiles.ExtChain},
	artifact.ProfileID: {profiles.ExtDurable},
	relay.ProfileID:    {profiles.ExtPublisher, profiles.ExtHops},
	events.ProfileID:   {profiles.ExtSubscription, profiles.ExtCursor, profiles.ExtHops},
	slip.ProfileID:     {profiles.ExtUCRHash, profiles.ExtHandle, profiles.ExtHops},
	sdl.ProfileID:      {profiles.ExtDeadline, profiles.ExtChain},
}

// info says what swp.info tells: of targets, those that the peer may reach.
func (s *Set) info(opts Options) func(*profiles.Peer) rpc.Info {
	return func(peer *profiles.Peer) rpc.Info {
		info := rpc.Info{Version: opts.Version, Extensions: honoured, Targets: s.MCP.Targets(peer)}
		info.IdleMillis = opts.Idle.Milliseconds()
		info.Partner = opts.Partner != nil && opts.Partner(peer.Identity)
		for _, p := range s.Registry.All() {
			types := make([]uint64, len(p.Types))
			for i, row := range p.Types {
				types[i] = row.ID
			}
			info.Profiles = append(info.Profiles, rpc.ProfileInfo{ID: p.ID, Types: types})
		}
		return info
	}
}
