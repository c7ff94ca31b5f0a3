// Package team routes messages among a team of A2A agents. To its callers a Team is one
// agent: it sends a message to its default agent, and then follows the recipients that
// agents choose until the recipient is the caller. An agent that declares the
// client-routing extension learns its peers and the sender of the message. Other agents get
// ordinary messages, and their answers go to the default agent.
//
// A Team is a Worker of profile 2 for the A2A operations, and a client of its members,
// local or remote. It writes only members of the extension; the rest of a message stays as
// its author wrote it.
//
// Specification: A2A client-routing extension v1, mcp-a2a mapping §4.
package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/profiles/a2a"
)

// MaxMembers limits the members of a team.
const MaxMembers = 64

// Agents is the access of a Team to agents. It must be safe for concurrent use.
type Agents interface {
	// Send sends a task to an agent of this endpoint, or to partner/agent. ctx also
	// carries the trace context, the hints and the credentials of the task.
	Send(ctx context.Context, agent string, t *a2a.Task, hops uint64) (Delivery, error)

	// Describe returns the current description of an agent.
	Describe(ctx context.Context, agent string) (Description, error)
}

// Delivery is a sent task. An a2a.Delivery implements it.
type Delivery interface {
	Recv(ctx context.Context) (*a2a.Event, error)
	Result() *a2a.Result
	Cancel(ctx context.Context, reason string) error
	Close()
}

// Description is an A2A card, or the declaration of a Handshake if there is no card.
type Description struct {
	Card         []byte
	Capabilities []string
}

// Member is an agent of a team.
type Member struct {
	// Agent is the name of the agent; partner/agent for an agent of a partner. Required. If
	// a team with this name was given to New, that team is the member.
	Agent string

	// Name, Text and Capabilities override the card.
	Name         string
	Text         string
	Capabilities []string

	// Routes says whether the agent supports the extension. Nil means as in its card or its
	// Handshake; then an agent without either is not used.
	Routes *bool

	// Form is the form of senders for this agent; default FormString.
	Form Form

	// Sends are the ids of the members that the agent may name as recipients, and is told
	// of. Nil means all. The caller, and the sender of the message that it answers, are
	// always allowed.
	Sends []string
}

// BasicReply is the recipient of an answer from an agent without the extension.
type BasicReply string

// Values of BasicReply. Answers of the default agent itself go to the caller.
const (
	ToDefault BasicReply = "default"
	ToUser    BasicReply = "user"
)

// Options configure a Team. Zero values mean the defaults.
type Options struct {
	Name    string            // as agent; required
	Members map[string]Member // by id, the name that agents use for each other; required, at most MaxMembers
	Default string            // id of the member that receives messages of callers; required

	Title      string        // name in the card, default Name
	Text       string        // description
	Card       []byte        // an A2A card; nil: made from the cards of the members
	MaxHops    int           // most deliveries for one message of a caller, default 10
	BasicReply BasicReply    // default ToDefault
	Context    int           // limit of the peer descriptions for an agent, in octets; default 64 KiB
	Held       int           // octets of an answer that is held back, default 4 MiB
	Tasks      int           // operations at once, default 64
	Deadline   time.Duration // deadline of operations without one; default that of the Service
	Refresh    time.Duration // how long what is known of a member is good, default 1 min
	Patience   time.Duration // for members to say what they are, default 2 s
	Retention  time.Duration // of which member has a task, after it was last used, default 30 days

	// Agents reaches the members. Required.
	Agents Agents

	// Records keep which member has a task. Required; every store.Store is one.
	Records a2aowners.Records

	// Observe receives each delivery to a member. It must not block. May be nil.
	Observe func(Hop)

	// Now is the wall clock, default time.Now.
	Now func() time.Time
}

// Hop is a delivery to a member.
type Hop struct {
	Team   string
	N      int    // from 1, for one message of a caller
	Sender string // User, or the id of a member
	Member string // id

	// Next is where the answer goes, User or the id of a member; empty if there was
	// none. Reason is what the member says about it, cut to 256 octets.
	Next   string
	Reason string

	Err error // why there is no next hop
}

// Team routes between its members. It is safe for concurrent use.
type Team struct {
	opts     Options
	members  map[string]*participant
	ids      []string // of the members, sorted
	required []string // extensions that the team's own card demands
	tasks    a2aowners.Ledger
}

// participant is a Member of a Team.
type participant struct {
	Member
	id   string
	team *Team // if it is one

	mu    sync.Mutex
	known *profile // as of then; nil if it could not be learnt
	err   error
	until time.Time
}

// sendsTo reports whether the member may name another one as a recipient.
func (m *participant) sendsTo(id string) bool { return m.Sends == nil || slices.Contains(m.Sends, id) }

// New returns the teams of an endpoint, by name. Those that are members of others are
// reached directly, and answer to the same bound on hops. A team must not contain
// itself.
func New(list ...Options) (map[string]*Team, error) {
	teams := make(map[string]*Team, len(list))
	for _, o := range list {
		t, err := newTeam(o)
		if err != nil {
			return nil, fmt.Errorf("team: %q: %w", o.Name, err)
		}
		if teams[o.Name] != nil {
			return nil, fmt.Errorf("team: %q is there twice", o.Name)
		}
		teams[o.Name] = t
	}
	for _, t := range teams {
		for _, m := range t.members {
			m.team = teams[m.Agent]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(teams)) {
		if path := teams[name].cycle([]string{name}, make(map[*Team]bool)); path != nil {
			return nil, fmt.Errorf("team: %q contains itself: %s", name, strings.Join(path, " > "))
		}
	}
	return teams, nil
}

func newTeam(o Options) (*Team, error) {
	switch {
	case o.Name == "" || len(o.Name) > a2a.MaxText || strings.Contains(o.Name, "/"):
		return nil, fmt.Errorf("want a name of at most %d octets without a slash", a2a.MaxText)
	case len(o.Members) == 0 || len(o.Members) > MaxMembers:
		return nil, fmt.Errorf("%d members, want 1 to %d", len(o.Members), MaxMembers)
	case o.Agents == nil || o.Records == nil:
		return nil, errors.New("Agents and Records are required")
	}
	o.MaxHops = cmp.Or(o.MaxHops, 10)
	o.Context = cmp.Or(o.Context, 64<<10)
	o.Held = cmp.Or(o.Held, 4<<20)
	o.Tasks = cmp.Or(o.Tasks, 64)
	o.Refresh = cmp.Or(o.Refresh, time.Minute)
	o.Patience = cmp.Or(o.Patience, 2*time.Second)
	o.Retention = cmp.Or(o.Retention, 30*24*time.Hour)
	o.BasicReply = cmp.Or(o.BasicReply, ToDefault)
	o.Title = cmp.Or(o.Title, o.Name)
	if o.Observe == nil {
		o.Observe = func(Hop) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxHops < 1 || o.Context < 1 || o.Held < 1 || o.Tasks < 1 {
		return nil, fmt.Errorf("hops %d, context %d, held %d, tasks %d: below 1", o.MaxHops, o.Context, o.Held, o.Tasks)
	}
	if o.BasicReply != ToDefault && o.BasicReply != ToUser {
		return nil, fmt.Errorf("basic reply %q, want %s or %s", o.BasicReply, ToDefault, ToUser)
	}
	t := &Team{opts: o, tasks: newTasks(&o), members: make(map[string]*participant, len(o.Members)), ids: slices.Sorted(maps.Keys(o.Members))}
	for _, id := range t.ids {
		m := o.Members[id]
		m.Form = cmp.Or(m.Form, FormString)
		switch {
		case id == "" || len(id) > maxName || id == User || id == Sender || strings.ContainsRune(id, '\n'):
			return nil, fmt.Errorf("member %q: want an id in one line of at most %d octets that is not %q or %q", id, maxName, User, Sender)
		case m.Agent == "":
			return nil, fmt.Errorf("member %q: no agent", id)
		case m.Form != FormString && m.Form != FormObject:
			return nil, fmt.Errorf("member %q: form %q, want %s or %s", id, m.Form, FormString, FormObject)
		}
		for _, to := range m.Sends {
			if _, known := o.Members[to]; !known || to == id {
				return nil, fmt.Errorf("member %q: sends to %q, which is no other member", id, to)
			}
		}
		t.members[id] = &participant{Member: m, id: id}
	}
	if t.members[o.Default] == nil {
		return nil, fmt.Errorf("default agent %q is no member", o.Default)
	}
	if o.Card != nil {
		card, err := readCard(o.Card)
		if err != nil {
			return nil, fmt.Errorf("card: %w", err)
		}
		t.required = card.required
	}
	return t, nil
}

// cycle returns how the team at the end of a path leads to the one at its beginning,
// nil if it does not. been are those that were looked at.
func (t *Team) cycle(path []string, been map[*Team]bool) []string {
	for _, id := range t.ids {
		in := t.members[id].team
		if in == nil {
			continue
		}
		further := append(slices.Clip(path), in.opts.Name)
		if further[0] == in.opts.Name {
			return further
		}
		if been[in] {
			continue
		}
		been[in] = true
		if found := in.cycle(further, been); found != nil {
			return found
		}
	}
	return nil
}

// Registration is the Worker of the team, for a2a.Options.
func (t *Team) Registration() a2a.Registration {
	return a2a.Registration{
		Agent: t.opts.Name, Kinds: a2abinding.Kinds(), Worker: a2a.WorkerFunc(t.run), Tasks: t.opts.Tasks, Deadline: t.opts.Deadline,
	}
}

func (t *Team) run(ctx context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	output, err := t.perform(ctx, task, func(octets []byte) error { return event("", octets) }, nil)
	if f, ok := errors.AsType[*a2abinding.Failure](err); ok {
		return nil, f.Result()
	}
	return output, err
}
