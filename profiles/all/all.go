// Package all is the one list of profiles. A built-in profile is a folder beside this
// one and its entries here: its options, itself, and what it needs of the others.
//
// Profiles do not know each other. What one needs of another, or of the world,
// it declares as a small interface of its own; here they are joined.
package all

import (
	"context"
	"slices"
	"sync"
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

	// Hop returns the handler of a profile that passes on what is for partners, with the
	// Access of this list. Nil: there are no partners, and a message with a target
	// (extension 52) is refused.
	Hop func(p *profiles.Profile, access profiles.Access) profiles.Handler

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

	// OBS configures profile 18.
	OBS obs.Options

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

	// More are profiles of one's own, beside those of this list: their methods are
	// served as well. They ask the Rules of a request what peers may do.
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

	partners bool // messages may be for them

	rpc    *profiles.Profile  // nil until the others are there
	cards  *agdisc.Cache      // those of agents on the other end of a session
	cancel context.CancelFunc // ends the calls that outlive their connections
	opened []func()           // close what is open; the last one first
}

// line is the line of a profile in the list.
type line struct {
	access *profiles.Access         // of its options; nil: it asks in another way
	made   func() *profiles.Profile // what was made of them
}

// lines is the list of the profiles. RPC serves the methods of all others and is made
// last.
func (s *Set) lines(o *Options) []line {
	return []line{
		{&o.MCP.Access, func() *profiles.Profile { return s.MCP.Profile() }},
		{&o.A2A.Access, func() *profiles.Profile { return s.A2A.Profile() }},
		{&o.AGDISC.Access, func() *profiles.Profile { return s.AGDISC.Profile() }},
		{&o.TOOLDISC.Access, func() *profiles.Profile { return s.TOOLDISC.Profile() }},
		{&o.RPC.Access, func() *profiles.Profile { return s.rpc }},
		{&o.Events.Access, func() *profiles.Profile { return s.Events.Profile() }},
		{&o.Artifact.Access, func() *profiles.Profile { return s.Artifact.Profile() }},
		{&o.Cred.Access, func() *profiles.Profile { return s.Cred.Profile() }},
		{&o.Hints.Access, func() *profiles.Profile { return s.Hints.Profile() }},
		{&o.State.Access, func() *profiles.Profile { return s.State.Profile() }},
		{&o.OBS.Access, func() *profiles.Profile { return s.Traces.Profile() }},
		{&o.Relay.Access, func() *profiles.Profile { return s.Relay.Profile() }},
		{nil, func() *profiles.Profile { return s.SDL.Profile() }},
		{&o.SLIP.Access, func() *profiles.Profile { return s.SLIP.Profile() }},
	}
}

// New builds every profile. It fails on methods that rpc.New refuses, and on
// those that are named like one of a profile.
func New(opts Options) (*Set, error) {
	if opts.Access == nil {
		opts.Access = profiles.Everyone
	}
	partners := opts.Hop != nil
	if !partners {
		opts.Hop = noHop
	}
	s := &Set{partners: partners}
	lines := s.lines(&opts)
	for _, l := range lines {
		if l.access != nil {
			*l.access = opts.Access
		}
	}
	opts.RPC.Context, s.cancel = context.WithCancel(context.Background())
	err := s.open(&opts)
	if err == nil {
		err = s.register(&opts, lines)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// register makes RPC, with the methods of all other profiles, and the registry.
func (s *Set) register(opts *Options, lines []line) (err error) {
	made := func() (list []*profiles.Profile) {
		for _, l := range lines {
			if p := l.made(); p != nil {
				list = append(list, p)
			}
		}
		return append(list, opts.More...)
	}
	for _, p := range made() {
		opts.RPC.Brought = append(opts.RPC.Brought, p.Methods...)
	}
	open := make(map[string]bool)
	opts.RPC.Info, opts.RPC.Access = s.info(*opts), withOpen{opts.Access, open}
	if s.rpc, err = rpc.New(opts.RPC); err != nil {
		return err
	}
	list := made()
	for i, p := range list {
		hopping := *p // who has made it may use it elsewhere
		hopping.Handler = opts.Hop(p, opts.Access)
		list[i] = &hopping
	}
	for _, name := range openOf(list) {
		open[name] = true
	}
	s.Registry, err = profiles.NewRegistry(list...)
	return err
}

// Tables returns the profiles of this list for what their tables say: nothing is behind
// their handlers. The caller must not change them.
var Tables = sync.OnceValue(func() []*profiles.Profile {
	s, err := New(Options{})
	if err != nil {
		panic(err) // without options there is nothing to refuse
	}
	defer s.Close()
	return s.Registry.All()
})

// open makes what Close closes.
func (s *Set) open(opts *Options) (err error) {
	s.Traces, s.Hints = obs.New(opts.OBS), policyhint.New(opts.Hints)
	opts.MCP.Policy, opts.A2A.Policy, opts.RPC.Policy = s.Hints, s.Hints, s.Hints
	opts.MCP.Identity, opts.RPC.Identity, opts.A2A.Identity = opts.Identity, opts.Identity, opts.Identity
	s.MCP = mcpmap.New(opts.MCP)
	opts.Cred.Sync = rpc.Sync
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

// info says what swp.info tells: of targets, those that the peer may reach.
func (s *Set) info(opts Options) func(*profiles.Peer) rpc.Info {
	return func(peer *profiles.Peer) rpc.Info {
		info := rpc.Info{Version: opts.Version, Targets: s.MCP.Targets(peer)}
		info.Extensions = map[uint64][]uint64{0: {profiles.ExtEndpoint}} // of any profile
		if s.partners {
			info.Extensions[0] = append(info.Extensions[0], profiles.ExtTarget)
		}
		info.IdleMillis = opts.Idle.Milliseconds()
		info.Partner = opts.Partner != nil && opts.Partner(peer.Identity)
		for _, p := range s.Registry.All() {
			types := make([]uint64, len(p.Types))
			for i, row := range p.Types {
				types[i] = row.ID
			}
			info.Profiles = append(info.Profiles, rpc.ProfileInfo{ID: p.ID, Types: types})
			if len(p.Extensions) > 0 {
				info.Extensions[p.ID] = p.Extensions
			}
		}
		return info
	}
}
