// Package all is the list of profiles. A built-in profile is a folder next to this one, and
// has entries here: its options, the profile, and its dependencies on other profiles.
//
// Profiles do not import each other. Each declares its dependencies as small interfaces;
// this package connects them.
package all

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
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

// Options configure the profiles. The zero value serves all profiles, without backends.
type Options struct {
	// Version of the software, for swp.info.
	Version string

	// Conformance lists the conformance classes that the software claims, for swp.info.
	Conformance []string

	// Identity is the identity of this endpoint. Its own errors carry it. Empty: they carry
	// none.
	Identity string

	// Access decides what peers may do, in every profile: it replaces the Access in the
	// options of each. Nil denies nothing.
	Access profiles.Access

	// Hop returns the handler of a profile that forwards messages for partners, with the
	// Access of these options. Nil: there are no partners, and a message with a target
	// (extension 52) is refused.
	Hop func(p *profiles.Profile, access profiles.Access) profiles.Handler

	// Partner reports whether an identity is a federation partner, for swp.info. Nil: there
	// are no partners.
	Partner func(identity string) bool

	// Partners returns the names of the federation partners, for swp.info. It is called on the
	// read loop. Nil: there are none.
	Partners func() []string

	// KnownAs returns how a partner knows a peer that it distinguishes, for swp.info; empty: it does not.
	// It is called on the read loop. Required with Partners.
	KnownAs func(partner, identity string) string

	// Methods returns the optional built-in methods that a federation partner may call, for
	// swp.info. It is called on the read loop. Nil: there are none.
	Methods func(peer *profiles.Peer) []string

	// Callers says that the endpoint verifies assertions of callers (extension 51, see
	// endpoint.Options), for swp.info.
	Callers bool

	// TellBounds has swp.info tell the idle timeout and the limits of the connection on which
	// it is asked.
	TellBounds bool

	// MCP configures profile 1. Its Backend has the servers that peers may call.
	MCP mcpmap.Options

	// A2A configures profile 2. Without a Carrier, the Carriers of the Set are used.
	A2A a2a.Options

	// AGDISC configures profile 10. The cards of connected agents are added after its
	// Sources; Kinds is set by this package.
	AGDISC agdisc.Options

	// Card returns what peers get for the card of a connected agent. It must not wait. Nil
	// changes none.
	Card func(agdisc.Card) agdisc.Card

	// TOOLDISC configures profile 11.
	TOOLDISC tooldisc.Options

	// Events configures profile 13.
	Events events.Options

	// Cred configures profile 15. Its Sync is set by this package.
	Cred cred.Options

	// OBS configures profile 18.
	OBS obs.Options

	// Hints configures profile 16, which compares the messages of all profiles with hints.
	// Without Targets everything is done as A2A.Declares says.
	Hints policyhint.Options

	// Artifact configures profile 14.
	Artifact artifact.Options

	// State configures profile 17. The schemas of tools are added after its Sources.
	State state.Options

	// Relay configures profile 19. Its Open is set by this package, and Owned extended.
	Relay relay.Options

	// SDL configures profile 1024.
	SDL sdl.Options

	// SLIP configures profile 1025. Without Agents and Receive it uses the agents of A2A.
	// SLIPRelay stores messages for agents that are not connected.
	SLIP      slip.Options
	SLIPRelay SLIPRelay

	// More are additional profiles; their methods are served as well. They check access
	// with the Rules of a request.
	More []*profiles.Profile

	// RPC configures profile 12. Its Methods are served in addition to the built-in ones.
	// Info, Times and Context are set by this package.
	RPC rpc.Options
}

// Set has the profiles of one endpoint, and the services that implement them.
type Set struct {
	Registry *profiles.Registry

	// Carriers forward the data that accompanies messages: trace contexts, hints and
	// credentials. Use their Attach as endpoint.Options.Tracer, as an endpoint.ContextFunc.
	Carriers profiles.Carriers

	Traces   *obs.Contexts     // trace contexts of peers
	Hints    *policyhint.Hints // and hints
	Cred     *cred.Service     // credentials of peers
	MCP      *mcpmap.Mapping   // calls the MCP servers of peers
	A2A      *a2a.Service      // sends tasks, and carries out tasks of peers
	AGDISC   *agdisc.Service   // serves the cards of agents
	TOOLDISC *tooldisc.Service // serves the descriptors of tools
	Events   *events.Bus       // publishes and delivers events
	Artifact *artifact.Service // stores artifacts
	State    *state.Service    // keeps states
	Relay    *relay.Service    // stores deliveries, publishes to relays and consumes from them
	SDL      *sdl.Service      // serves envelopes of A2A-SDL, and knows the sessions of agents
	SLIP     *slip.Service     // forwards messages of nSLIP and SLIP v1 to agents

	partners bool // there is a Hop

	window, handler atomic.Int64 // time.Durations of RPC that were changed; 0: as in the options

	rpc    *profiles.Profile  // nil until the other profiles are made
	cards  *agdisc.Cache      // of the cards of connected agents
	cancel context.CancelFunc // ends calls that outlive their connections
	opened []func()           // functions for Close, in reverse order
}

// SetReplayWindow changes RPC.ReplayWindow for later calls, which must be above 0.
func (s *Set) SetReplayWindow(d time.Duration) { s.window.Store(int64(d)) }

// SetHandler changes RPC.Handler for later calls, which must be above 0.
func (s *Set) SetHandler(d time.Duration) { s.handler.Store(int64(d)) }

// line is the entry of a profile in the list.
type line struct {
	access *profiles.Access         // in its options; nil if it has none
	made   func() *profiles.Profile // returns the profile that was made
}

// lines returns the list of the profiles. RPC serves the methods of all others and is made
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

// New builds every profile. It fails on methods that rpc.New refuses, and on methods with
// the name of a profile's method.
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
	opts.RPC.Times = func() (window, handler time.Duration) {
		return time.Duration(s.window.Load()), time.Duration(s.handler.Load())
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

// register makes the RPC profile, with the methods of all other profiles, and the registry.
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
	opts.RPC.Info, opts.RPC.Access, opts.RPC.Keeping = s.info(*opts), withOpen{opts.Access, open}, opts.Access
	if s.rpc, err = rpc.New(opts.RPC); err != nil {
		return err
	}
	list := made()
	for i, p := range list {
		hopping := *p // a copy, because the profile may be used elsewhere
		hopping.Handler = opts.Hop(p, opts.Access)
		list[i] = &hopping
	}
	for _, name := range openOf(list) {
		open[name] = true
	}
	s.Registry, err = profiles.NewRegistry(list...)
	return err
}

// Tables returns the profiles of this list for their tables only: their handlers have no
// backends. The caller must not change them.
var Tables = sync.OnceValue(func() []*profiles.Profile {
	s, err := New(Options{})
	if err != nil {
		panic(err) // New cannot refuse empty options
	}
	defer s.Close()
	return s.Registry.All()
})

// open makes everything that Close closes.
func (s *Set) open(opts *Options) (err error) {
	if opts.Hints.Targets == nil {
		if opts.Hints.Targets, err = policyhint.Declared(opts.A2A.Declares); err != nil {
			return err
		}
	}
	s.Traces, s.Hints = obs.New(opts.OBS), policyhint.New(opts.Hints)
	opts.A2A.Policy, opts.A2A.Declaration = s.Hints, policyhint.CheckDeclaration
	opts.MCP.Identity, opts.RPC.Identity, opts.A2A.Identity = opts.Identity, opts.Identity, opts.Identity
	s.MCP = mcpmap.New(opts.MCP)
	if err := s.MCP.Restore(context.Background()); err != nil {
		return err
	}
	opts.Cred.Sync = rpc.Sync
	if s.Cred, err = cred.New(context.Background(), opts.Cred); err != nil {
		return err
	}
	s.opened = append(s.opened, s.Cred.Close)
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
	opts.Relay.Open, opts.Relay.Call = openStream, rpc.Call
	opts.Relay.Owned = slices.Concat(opts.Relay.Owned, owned)
	opts.Relay.Carrier, opts.Relay.Chains = s.Carriers, s.Cred
	if s.Relay, err = relay.New(opts.Relay); err != nil {
		return err
	}
	s.opened = append(s.opened, s.Relay.Close)
	s.cards = agdisc.NewCache(agdisc.CacheOptions{})
	s.opened = append(s.opened, s.cards.Close)
	if opts.A2A.Carrier == nil {
		opts.A2A.Carrier = s.Carriers
	}
	opts.A2A.Chains, opts.A2A.Card = s.Cred, s.cardOf
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
	opts.AGDISC.Sources = append(slices.Clone(opts.AGDISC.Sources), agdisc.NewSessions(declared{s.A2A}, s.cards, opts.Card))
	opts.AGDISC.Kinds = s.A2A.Kinds
	s.AGDISC = agdisc.New(opts.AGDISC)
	return nil
}

// Close closes the services of the profiles. End the sessions of the endpoint before.
func (s *Set) Close() {
	s.cancel()
	for _, end := range slices.Backward(s.opened) {
		end()
	}
}

// cardOf returns the card of an agent for profile 2: the one that peers get here, or the one of
// a partner's agent.
func (s *Set) cardOf(ctx context.Context, at profiles.Session, agent string) ([]byte, error) {
	_, name, behind := strings.Cut(agent, "/")
	if !behind {
		card, err := s.AGDISC.Card(ctx, agent)
		return card.Payload, err
	}
	if !profiles.Serves(at, agdisc.ProfileID) {
		return nil, errors.New("agdisc: this partner has no cards")
	}
	card, err := agdisc.Ask(ctx, at, name, "")
	if err != nil {
		return nil, err
	}
	return card.Payload, nil
}

// declared implements agdisc.Agents with the agents that sessions have declared by A2A.
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

// info returns the function for swp.info. It lists only the targets that the peer may use.
func (s *Set) info(opts Options) func(profiles.Session) rpc.Info {
	return func(session profiles.Session) rpc.Info {
		peer := session.Peer()
		info := rpc.Info{Version: opts.Version, Conformance: opts.Conformance, Targets: s.MCP.Targets(peer)}
		info.Extensions = map[uint64][]uint64{0: {profiles.ExtChain, profiles.ExtEndpoint, profiles.ExtDraining}} // of any profile
		if opts.Callers {
			info.Extensions[0] = append(info.Extensions[0], profiles.ExtCaller)
		}
		if s.partners {
			info.Extensions[0] = append(info.Extensions[0], profiles.ExtTarget)
		}
		if opts.TellBounds {
			info.IdleMillis = profiles.IdleOf(session).Milliseconds()
			if limits := profiles.LimitsOf(session); limits != (profiles.Limits{}) {
				info.Limits = &limits
			}
		}
		info.Partner = opts.Partner != nil && opts.Partner(peer.Identity)
		if info.Partner && opts.Methods != nil {
			info.Methods = opts.Methods(peer)
		}
		info.Methods = append(info.Methods, callable(&opts, peer.Identity)...)
		if opts.Partners != nil {
			info.Partners = s.reached(opts, peer.Identity)
			info.KnownAs = make(map[string]string)
			for _, partner := range info.Partners {
				if name := opts.KnownAs(partner, peer.Identity); name != "" {
					info.KnownAs[partner] = name
				}
			}
		}
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
		info.Profiles = append(info.Profiles, rpc.ProfileInfo{ID: profiles.ErrorProfile, Types: []uint64{1}}) // the endpoint reads why a connection ends
		return info
	}
}

// callable returns the methods that are not built in and that an identity may call, sorted.
func callable(opts *Options, identity string) []string {
	names := slices.Collect(maps.Keys(opts.RPC.Methods))
	if opts.RPC.Names != nil {
		names = append(names, opts.RPC.Names()...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		return opts.Access != nil && !profiles.Would(opts.Access, identity, "rpc", "call", name)
	})
}

// reached returns the partners on whose objects the rules let an identity act in some
// profile.
func (s *Set) reached(opts Options, identity string) []string {
	return slices.DeleteFunc(opts.Partners(), func(partner string) bool {
		return !slices.ContainsFunc(s.Registry.All(), func(p *profiles.Profile) bool {
			return profiles.Reaches(opts.Access, identity, p.Name, partner)
		})
	})
}

// Pools returns the use of the shared pools of the profiles.
func (s *Set) Pools() (list []fair.Pool) {
	for _, of := range []interface{ Pools() []fair.Pool }{s.A2A, s.MCP, s.Events, s.Artifact, s.State, s.Relay, s.SDL, s.SLIP} {
		list = append(list, of.Pools()...)
	}
	return list
}
