// Package slip is the SLIP profile: messages of nSLIP and SLIP v1 between agents.
//
//	NSLIP         nSLIP as text
//	SLIP          a line of SLIP v1
//	NSLIP_BINARY  nSLIP as an NSlipMessage
//	SLIP_ERR      a message was not delivered, and why; a message that was has no answer
//
// The payload of the first three is the message itself, without a wrapper. New builds
// a Service, which finds the agent that a message is for: on the session that has
// declared it, behind the partner that announces it, or in the relay if it is away and
// its messages are kept. With Options.Receive it is instead the end of an agent. Send
// and Check are the sending side.
//
// # Senders and receivers
//
// The agents of SLIP v1 are agent_ids. Those of nSLIP are numbers, which
// Options.Numbers maps to agent_ids; a number without an entry is refused with
// no_mapping. The identity of the channel has to be one that may use the agent_id that
// speaks, and nobody else may have declared that agent here, or the message is denied.
//
// # Order and delivery
//
// Messages that came on one stream for one agent are passed on in their order. A
// message is done when it is queued for writing to its agent or partner, or when the
// relay has it; swp.sync waits for that. A SLIP_ERR that comes back is passed on to
// the session that the message came from, under its own msg_id, for a minute.
//
// # Extensions
//
// Extension 16 is the ucrHash of the anchors that the sender of a SLIP knows: another
// one than ours is refused, ERR_COMPATIBILITY_POLICY. Extension 17 says what a handle
// of a conversation stands for, see Handles. Extension 48 counts endpoints.
//
// # Bounds
//
// So many messages wait for one agent, and for all, and so many octets of them, as
// Options say; beyond that a message is refused. Above their own bounds messages are
// refused as too_long.
//
// Specification: docs/profile-slip.md, Slipstream part E.
package slip

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// ProfileID is the provisional profile_id of SLIP, Name its short name.
const (
	ProfileID = 1025
	Name      = "slip"
)

// The message types of the languages; TypeErr is beside them.
const (
	TypeNSLIP  = 1
	TypeSLIP   = 2
	TypeBinary = 3
)

// Agents finds the agents that sessions have declared. It must not block, and must be safe
// for concurrent use.
type Agents interface {
	// Session returns the session of an agent; false while it is away.
	Session(agentID string) (profiles.Session, bool)

	// Owner returns the identity of an agent, connected or away; false for an unknown
	// agent.
	Owner(agentID string) (identity string, known bool)
}

// Partners finds the agents of partners. It must be safe for concurrent use.
type Partners interface {
	// Find returns the way to an agent that a partner announces. It may wait.
	Find(ctx context.Context, agentID string) (Way, bool)
}

// Way leads to an agent of a partner.
type Way struct {
	Session profiles.Session
	Name    string // of the agent at this endpoint, as declarations of hints have it

	// Onward prepares a message of an identity: it returns the context in which to send it, with
	// the hints and credentials of ctx, and its extensions, with one hop more than p. The error
	// refuses the message.
	Onward func(ctx context.Context, identity string, p profiles.Passage) (context.Context, e1.Extensions, error)
}

// Relay stores messages for absent agents. It must be safe for concurrent use.
type Relay interface {
	// Keeps reports whether messages for an agent are stored.
	Keeps(agentID string) bool

	// Keep takes custody of a message as text, sent by an identity with a msg_id. It may
	// wait. A repeated msg_id means the same message.
	Keep(ctx context.Context, identity, agentID string, msgID, text []byte, hops uint64) error
}

// Options configure a Service. The zero value delivers nothing.
type Options struct {
	// Access is asked for the operation send on the agent_id that a message is for.
	// Nil denies nothing.
	Access profiles.Access

	// MayUse reports whether an identity may speak as an agent. Nil: any may.
	MayUse func(identity, agentID string) bool

	// Agents, Partners and Relay are where messages go. Nil: nowhere.
	Agents   Agents
	Partners Partners
	Relay    Relay

	// Bridge reaches agents that get lines of SLIP v1 in another way. May be nil.
	Bridge Bridge

	// Receive makes the Service the end of an agent: it gets every message that is
	// well formed, and nothing is passed on. m is valid until it returns. It is called
	// on the read loop and must not block. An error is told to the sender; see Refuse.
	Receive func(session profiles.Session, m *Message) error

	// Returned is told of a SLIP_ERR for a message that was not passed on here but
	// sent by Send. It must not block. It may be nil.
	Returned func(session profiles.Session, msgID []byte, err *profiles.PeerError)

	// Numbers are the agents of nSLIP.
	Numbers map[uint64]string

	// Forms are the forms in which agents want nSLIP, TypeNSLIP or TypeBinary. To
	// others it is passed on as it came.
	Forms map[string]uint64

	// Anchors are the ones of this installation, default the core of UCR 1.0.0.
	Anchors *ucr.Table

	// Handles resolves handles, default a new Handles.
	Handles *Handles

	Waiting         int           // messages on their way, default 4,096
	WaitingPerAgent int           // for one agent, default 256
	WaitingBytes    int           // octets of all, default 16 MiB
	Returns         int           // messages that were passed on whose SLIP_ERR is passed back, default 4,096
	Timeout         time.Duration // for passing on one message, default 30 s

	// Now is the clock, default time.Now.
	Now func() time.Time
}

// returnable is how long a SLIP_ERR can be returned.
const returnable = time.Minute

func (o Options) withDefaults() (Options, error) {
	for _, row := range []struct {
		name string
		n    *int
		def  int
	}{
		{"waiting", &o.Waiting, 4096}, {"waiting per agent", &o.WaitingPerAgent, 256},
		{"waiting bytes", &o.WaitingBytes, 16 << 20}, {"returns", &o.Returns, 4096},
	} {
		if *row.n < 0 {
			return o, fmt.Errorf("slip: %s: %d, want 0 or more", row.name, *row.n)
		}
		if *row.n == 0 {
			*row.n = row.def
		}
	}
	if err := o.checkWords(); err != nil {
		return o, err
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	if o.MayUse == nil {
		o.MayUse = func(string, string) bool { return true }
	}
	if o.Handles == nil {
		o.Handles = NewHandles(HandlesOptions{})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

func (o *Options) checkWords() error {
	for number, agent := range o.Numbers {
		if !slipstream.IsAgent(agent) {
			return fmt.Errorf("slip: agent %d is %q, want letters, digits, \".\", \"_\" and \"-\"", number, agent)
		}
	}
	for agent, form := range o.Forms {
		if form != TypeNSLIP && form != TypeBinary {
			return fmt.Errorf("slip: agent %q wants form %d, want %d or %d", agent, form, TypeNSLIP, TypeBinary)
		}
	}
	return nil
}

// Service is the profile of one endpoint. It is safe for concurrent use.
type Service struct {
	opts    Options
	words   atomic.Pointer[words]
	profile *profiles.Profile
	queues  queues
	returns returns
	parsed  sync.Pool // *Message
}

// New returns a Service. It fails if an option is out of range. The caller must close it.
func New(opts Options) (*Service, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{opts: opts}
	s.words.Store(newWords(&opts, s.transits()))
	s.parsed.New = func() any { return new(Message) }
	s.queues.open(opts.Waiting, opts.WaitingPerAgent, opts.WaitingBytes, opts.Timeout)
	s.returns = returns{bound: opts.Returns, now: opts.Now}
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeNSLIP, Name: "NSLIP", Role: profiles.Initiating},
			{ID: TypeSLIP, Name: "SLIP", Role: profiles.Initiating},
			{ID: TypeBinary, Name: "NSLIP_BINARY", Role: profiles.Initiating},
			// It arrives after its exchange has ended, because the message had no answer.
			{ID: TypeErr, Name: "SLIP_ERR", Role: profiles.Initiating | profiles.Answer | profiles.Terminal | profiles.Concluding},
		},
		Operations: []profiles.Operation{
			{Name: "send", On: "agent_id that it is sent to"},
			{Name: "return", Free: true},
		},
		Extensions: []uint64{ExtUCRHash, ExtHandle, profiles.ExtHops},
		Handler:    profiles.HandlerFunc(s.serve),
		Show:       p1.Show(Messages),
		Check:      p1.WellFormed(Messages),
		Act:        s.act,
		Refusal:    refusals.Refusal,
	}
	return s, nil
}

// SetWords replaces Numbers, Forms and Anchors for new messages; other fields of o are
// ignored. It fails for options that New refuses, and then changes nothing.
func (s *Service) SetWords(o Options) error {
	if err := o.checkWords(); err != nil {
		return err
	}
	s.words.Store(newWords(&o, s.transits()))
	return nil
}

// words are the options that SetWords can change.
type words struct {
	codec
	numbers map[uint64]string
	forms   map[string]uint64
}

func newWords(o *Options, transit bool) *words {
	return &words{newCodec(o.Anchors, transit), o.Numbers, o.Forms}
}

// transits reports whether messages may only be forwarded to a partner, whose anchors may be
// others.
func (s *Service) transits() bool { return s.opts.Receive == nil && s.opts.Partners != nil }

// Profile returns the profile that serves peers. It is the same for each call.
func (s *Service) Profile() *profiles.Profile { return s.profile }

// Close drops waiting messages and waits for running ones.
func (s *Service) Close() { s.queues.close() }

// Pools returns who uses the places and the octets of messages that are on their way.
func (s *Service) Pools() []fair.Pool { return s.queues.pools() }

// codec reads and writes both languages within their limits.
type codec struct {
	nslip nslip.Codec
	slip  slipstream.Codec
}

func newCodec(anchors *ucr.Table, transit bool) codec {
	// Every message that was read can be written in the other form, however long its
	// strings are.
	return codec{nslip.Codec{MaxString: maxNSLIP, MaxMessage: maxNSLIP}, slipstream.Codec{Table: anchors, Transit: transit}}
}

// maxNSLIP limits a message of nSLIP, in octets.
const maxNSLIP = 4 << 10
