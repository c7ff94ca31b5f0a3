// Package tooldisc is the TOOLDISC profile: which tools there are.
//
//	LIST_REQ → LIST_RESP | ERR
//	GET_REQ  → GET_RESP | ERR
//
// New builds a Service that tells peers the tools of MCP servers, as the servers
// describe them, and those that are configured. List and Find are the asking
// side.
//
// # Tools of MCP servers
//
// A tool is server/tool; its version is the server's; its descriptor is the
// server's, octet for octet; its schema_ref is the hash of the octets of its
// inputSchema, which BlobFor returns. A peer sees the tools that it may call, and
// no others.
//
// A server is first read when somebody asks for its tools, who then waits for
// it. From then on the tools are kept up to date, by the notifications of
// changes or else every Refresh, for as long as somebody asks for them now and
// then. A server that cannot be read is read again later and later, up to a
// minute; until then its old tools are listed.
//
// # Pages and versions
//
// Tools come in the order of the octets of their tool_id, then their version. A
// page_token is good for the peer and the filter that it was given for, until
// this process ends. Without a version the highest one is meant, as
// CompareVersions has it.
//
// Specification: SWP profiles §11.
package tooldisc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of TOOLDISC, Name its short name.
const (
	ProfileID = 11
	Name      = "tooldisc"
)

// Server is an MCP server whose tools are told to peers. It is safe for
// concurrent use.
type Server interface {
	// Follow reads the tools of the server and hands them to tell, and again
	// whenever they may have changed, until ctx ends. tell does not wait, and
	// takes the listing over.
	//
	// It returns nil after the first listing if it has no way to learn of
	// changes, and an error if the server could not be read, or no more.
	Follow(ctx context.Context, tell func(Listing)) error
}

// Listing is what an MCP server says of its tools.
type Listing struct {
	Version string            // of the server; empty: it has none
	Tools   []json.RawMessage // each as the server wrote it
}

// Options configure a Service. The zero value has no tools.
type Options struct {
	// Servers are the MCP servers, by the names that peers call them by.
	Servers map[string]Server

	// Tools are listed in addition to the tools of the servers. Their tool_ids must not begin
	// with the name of a server and a slash.
	Tools []Configured

	// Access says what a peer may see: the tools of servers that it may call
	// (profile mcp, operation tools/call, server/tool), of those that are
	// configured what it may get (profile tooldisc, operation get). Nil denies
	// nothing.
	Access profiles.Access

	// Partner reports whether an identity belongs to a partner. Tools of partners are not
	// listed to partners, because two that list each other would never end. Nil: none does.
	Partner func(identity string) bool

	// Partners requests the tools of the partners that wanted selects, if their lists are
	// too old (SetPartner), and waits for that or for ctx. It returns the partners that have
	// never listed their tools. Nil: there are no partners.
	Partners func(ctx context.Context, wanted func(partner string) bool) []Unread

	// Withheld reports whether calls of a tool of a partner are refused here for all callers, such as
	// those of tools that were not accepted. Lists leave it out; a get returns it. tool is its tool_id
	// at the partner. Nil: none is.
	Withheld func(partner, tool string) bool

	Pace                 // initially
	Wait   time.Duration // limit of the wait for servers that are being read, default profiles.ListWait
	Behind time.Duration // the same when a partner asks, default half of Wait

	Reading      int // servers that are read at once, default 4; after profiles.TurnWait others are read beside them
	ServerOctets int // of the tools of one server together, default and bound is MaxServerOctets

	// Report is told what is wrong with the tools of a server, and nil when it
	// was read without fault. It must not block. It may be nil.
	Report func(server string, err error)

	// Now is the clock that tells how old a listing is. Nil means time.Now.
	Now func() time.Time
}

// Pace says when the tools of servers are read.
type Pace struct {
	Refresh time.Duration // after which a server is read again that does not tell of changes, default 5 min
	Idle    time.Duration // for which nobody asked, after which a server is not followed any more, default 10 min
	Eager   bool          // follow all servers from the start and for good, whether or not anybody asks
}

func (p Pace) withDefaults() Pace {
	p.Refresh, p.Idle = cmp.Or(p.Refresh, 5*time.Minute), cmp.Or(p.Idle, 10*time.Minute)
	return p
}

func (o Options) withDefaults() Options {
	o.Pace, o.Wait = o.Pace.withDefaults(), cmp.Or(o.Wait, profiles.ListWait)
	o.Behind = cmp.Or(o.Behind, o.Wait/2)
	if o.Reading == 0 {
		o.Reading = 4
	}
	if o.ServerOctets == 0 {
		o.ServerOctets = MaxServerOctets
	}
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	if o.Report == nil {
		o.Report = func(string, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o *Options) validate() error {
	if o.Refresh < 0 || o.Idle < 0 || o.Wait < 0 || o.Behind < 0 || o.Reading < 0 || o.ServerOctets < 0 || o.ServerOctets > MaxServerOctets {
		return errNegative
	}
	return nil
}

var errNegative = errors.New("tooldisc: a duration or a bound is negative, or too high")

// Service tells peers which tools there are. It is safe for concurrent use.
type Service struct {
	opts      Options
	profile   *profiles.Profile
	tokens    tokens
	pace      atomic.Pointer[Pace]
	reading   chan struct{}                     // slots for those that are read
	watches   atomic.Pointer[map[string]*watch] // by server; a map never changes
	catalogue atomic.Pointer[catalogue]
	partners  profiles.PartnerLists[*entry]
	answers   profiles.PartnerAnswers[*entry] // of partners, about single tools

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup

	mu         sync.Mutex // guards the following fields
	closed     bool
	configured []*entry
	lists      map[string][]*entry // by server
	behind     map[string][]Unread // by partner: which of its servers it could not read
}

// New returns a Service. It fails on a tool that is configured twice, or that no
// peer would take. The caller closes it.
func New(opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, reading: make(chan struct{}, opts.Reading), lists: make(map[string][]*entry), behind: make(map[string][]Unread)}
	s.pace.Store(&opts.Pace)
	s.partners.Now = opts.Now
	s.answers.Most, s.answers.MostOctets, s.answers.Size = MaxPartnerTools, MaxPartnerOctets, (*entry).Octets
	s.watches.Store(new(map[string]*watch))
	_, _ = rand.Read(s.tokens.key[:]) // never fails
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeListReq, Name: "TOOLDISC_LIST_REQ", Role: profiles.Initiating},
			{ID: TypeListResp, Name: "TOOLDISC_LIST_RESP", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeGetReq, Name: "TOOLDISC_GET_REQ", Role: profiles.Initiating},
			{ID: TypeGetResp, Name: "TOOLDISC_GET_RESP", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeErr, Name: "TOOLDISC_ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Extensions: []uint64{ExtStale, ExtUnread},
		Operations: []profiles.Operation{
			{Name: "get", On: "tool_id of a descriptor that is configured"},
			{Name: "list", Free: true},
		},
		Behind:   profiles.PassedOn,
		Crossing: s.crossing(),
		Show:     p1.Show(Messages),
		Inert:    true,
		Handler:  profiles.HandlerFunc(s.serve),
		Check:    check,
		Refusal:  refusals.Refusal,
	}
	if err := s.Set(opts.Servers, opts.Tools); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// Set has the tools of other servers told, and others beside them, in place of those that
// New or Set was given last. A server that is the same value under the same name is
// followed on. If it fails, for the reasons of New, nothing has changed.
func (s *Service) Set(servers map[string]Server, tools []Configured) error {
	list, err := configured(servers, tools)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old, next := *s.watches.Load(), make(map[string]*watch, len(servers))
	for name, server := range servers {
		if w := old[name]; w != nil && w.server == server {
			next[name] = w
			continue
		}
		next[name] = &watch{s: s, name: name, server: server}
		delete(s.lists, name)
	}
	for name := range old {
		if next[name] == nil {
			delete(s.lists, name)
		}
	}
	s.configured = list
	s.watches.Store(&next)
	s.publish()
	s.mu.Unlock()
	for name, w := range old {
		if next[name] != w {
			w.stop()
		}
	}
	for _, w := range next {
		if s.pace.Load().Eager {
			w.ask()
		}
	}
	return nil
}

// SetPace changes when tools are read. Servers that are followed are read again, at the new
// pace; until then their tools stay listed. It fails for a negative duration, and then
// changes nothing.
func (s *Service) SetPace(p Pace) error {
	if p.Refresh < 0 || p.Idle < 0 {
		return errNegative
	}
	p = p.withDefaults()
	if was := s.pace.Swap(&p); *was == p {
		return nil
	}
	for _, w := range *s.watches.Load() {
		w.again()
	}
	return nil
}

// Check returns why Set would refuse servers and tools, or nil.
func Check(servers map[string]Server, tools []Configured) error {
	_, err := configured(servers, tools)
	return err
}

// configured returns the entries of tools that are told beside those of servers.
func configured(servers map[string]Server, tools []Configured) ([]*entry, error) {
	for name := range servers {
		if name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("tooldisc: server %q, want a name without a slash", name)
		}
	}
	list := make([]*entry, len(tools))
	for i := range tools {
		e, err := tools[i].entry()
		if err != nil {
			return nil, fmt.Errorf("tooldisc: tool %.80q: %w", tools[i].ID, err)
		}
		if server, _, ok := strings.Cut(e.ID, "/"); ok && servers[server] != nil {
			return nil, fmt.Errorf("tooldisc: tool %.80q: %q is an MCP server, which describes its tools itself", e.ID, server)
		}
		list[i] = e
	}
	if len(newCatalogue(list).entries) < len(list) {
		return nil, errors.New("tooldisc: a tool is configured twice in the same version")
	}
	return list, nil
}

// publish makes the catalogue of all lists. The caller holds mu.
func (s *Service) publish() {
	all := [][]*entry{s.configured}
	for _, list := range s.lists {
		all = append(all, list)
	}
	for list := range s.partners.All {
		all = append(all, list)
	}
	s.catalogue.Store(newCatalogue(all...))
}

// Profile returns the profile that serves peers. It is the same each time.
func (s *Service) Profile() *profiles.Profile { return s.profile }

// Close stops following servers, and waits until that is done.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
}

// BlobFor returns the schema of the input of a tool that an identity may see, by
// its SHA-256: so a schema_ref is resolved. It is valid for good, and nobody
// changes it.
func (s *Service) BlobFor(identity string, sum []byte) ([]byte, bool) {
	var key digest
	if len(sum) != len(key) {
		return nil, false
	}
	copy(key[:], sum)
	for _, e := range s.catalogue.Load().schemas[key] {
		if s.sees(identity, e) {
			return e.schema, true
		}
	}
	return nil, false
}

// sees reports whether an identity may know of a tool.
func (s *Service) sees(identity string, e *entry) bool {
	switch {
	case e.server != "":
		return s.mayCall(identity, e.ID)
	case e.partner != "" && s.opts.Partner != nil && s.opts.Partner(identity):
		return false
	case e.partner != "" && s.mayCall(identity, e.ID):
		return true
	}
	return profiles.Would(s.opts.Access, identity, s.profile.Name, "get", e.ID)
}

func (s *Service) mayCall(identity, toolID string) bool {
	return profiles.Would(s.opts.Access, identity, "mcp", "tools/call", toolID)
}
