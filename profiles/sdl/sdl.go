// Package sdl carries A2A-SDL: one envelope of the language is the payload of one
// message, without a wrapper.
//
//	REQ → RES   a request and its response, or the language's own error
//	EVT         something that is told; never answered
//
// A Server interprets the envelope; this package looks at its first octet only. New
// builds a Service, which is the serving side; Call and Tell are the calling side.
// An envelope is JSON or CBOR, told apart by that octet, and is answered in the
// same form.
//
// # Two verdicts
//
// The sender of a request gets the error envelope that the language wants. Logs,
// counters and the error budget get a canonical code: ERR_SECURITY_POLICY where
// security was at stake, replay included, ERR_INVALID_PROFILE_PAYLOAD where it was
// the shape. A content type that nobody serves here is an ordinary answer. An
// envelope whose type differs from its message is refused without an answer, and
// so is everything but a request.
//
// # Order
//
// Requests of a session are handled at once, events one after the other in the order in
// which they came.
//
// # Partners
//
// With an Onward envelopes go on to partners, by a target or by Onward.Route, octet for
// octet. Events that come from a partner go to the agent that they are for.
//
// # Bounds
//
// A request counts against the requests in flight of its session until it is
// answered, and against Options.Handling. Twice as many as there are processors are
// decoded, verified and decrypted at once; one that waits for another party calls
// Rest, and makes room. It ends with its session, with the milliseconds of
// extension 49, or after Options.Deadline.
//
// Specification: docs/profile-sdl.md, A2A-SDL §16.
package sdl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// ProfileID is the provisional profile_id of A2A-SDL.
const ProfileID = 1024

// Topic is the prefix of the relay topics with the undelivered events of an agent; the
// agent_id follows.
const Topic = "sdl/"

// The message types.
const (
	TypeReq = 1
	TypeRes = 2
	TypeEvt = 3
)

// Form is the encoding of an envelope.
type Form uint8

// The forms.
const (
	JSON Form = iota
	CBOR
)

// FormOf returns the form of an envelope from its first octet: a CBOR map, or an opening
// brace or white space for JSON. ok is false for any other octet and for an empty body.
func FormOf(body []byte) (form Form, ok bool) {
	if len(body) == 0 {
		return JSON, false
	}
	switch c := body[0]; {
	case c >= 0xa0 && c <= 0xbf:
		return CBOR, true
	case c == '{', c == ' ', c == '\t', c == '\n', c == '\r':
		return JSON, true
	}
	return JSON, false
}

// Message is a received envelope.
type Message struct {
	Type    uint64           // TypeReq or TypeEvt
	Form    Form             // form of Body; JSON for an invalid body, which is refused
	Body    []byte           // valid until Handle returns
	Session profiles.Session // session of the message
	From    string           // identity of its sender, see profiles.Request.Identity

	// Answered is closed once the answer to the message is queued for writing, or will
	// never be: what is sent on the session then comes after it. It is never nil in Handle.
	Answered <-chan struct{}

	leave func() // releases the room of the message
}

// Answer is the outcome of a Message.
type Answer struct {
	// Body is an envelope of type res in the form of the message: a response or an SDL
	// error. Empty means no answer. It is ignored unless the message is a request.
	Body []byte

	// Agent is the agent_id of the sender, after it was allowed. Messages to the agent can
	// then use its session; see Service.Session.
	Agent string

	// Claimed is the agent_id that the sender claimed, allowed or not; for observers.
	Claimed string

	// Fault is the reason for a refusal; nil if accepted.
	Fault *Fault
}

// Server implements the language. It must be safe for concurrent use.
type Server interface {
	// Handle handles one message. ctx carries the metadata of the message, and ends when
	// the answer is no longer needed. Handle may wait, but must call Rest before it waits
	// for another party.
	Handle(ctx context.Context, m *Message) Answer

	// Refusal returns the error envelope for a request that is refused unread. It is called
	// on the read loop and must not wait.
	Refusal(form Form, f *Fault) []byte
}

// Options configure a Service. The zero value refuses all messages.
type Options struct {
	// Server handles messages. Nil refuses them.
	Server Server

	// Onward forwards envelopes to partners, and delivers events. Nil: envelopes for
	// partners are refused.
	Onward Onward

	Deadline time.Duration // initially; see SetDeadline

	// Room takes memory for a message of an identity while it is handled. It returns a function
	// that gives it back, or nil without room; excused says that the identity has less than its
	// share. It is called on the read loop and must not wait. Nil: there is always room.
	Room func(identity string, octets int) (release func(), excused bool)

	Handling int // most messages in progress, including waiting ones; identities share them; default 4,096
	Agents   int // most agent_ids with a recorded session; default 4,096
}

// Service is the profile of one endpoint. It is safe for concurrent use.
type Service struct {
	opts     Options
	deadline atomic.Int64 // a time.Duration
	profile  *profiles.Profile
	slots    *fair.Slots // for computing
	agents   agents
	turns    turns // of events

	ctx    context.Context // canceled by Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	live   fair.Shares // messages in progress
	work   sync.WaitGroup
}

// SetDeadline changes the default and maximum deadline of later requests; 0 means 1 h.
func (s *Service) SetDeadline(d time.Duration) { s.deadline.Store(int64(cmp.Or(d, time.Hour))) }

func (s *Service) patience() time.Duration { return time.Duration(s.deadline.Load()) }

// New returns a Service. It fails for negative limits. The caller must close it.
func New(o Options) (*Service, error) {
	if o.Deadline < 0 || o.Handling < 0 || o.Agents < 0 {
		return nil, fmt.Errorf("sdl: deadline %v, handling %d, agents %d, want none negative", o.Deadline, o.Handling, o.Agents)
	}
	if o.Handling == 0 {
		o.Handling = 4096
	}
	if o.Agents == 0 {
		o.Agents = 4096
	}
	s := &Service{opts: o, slots: fair.NewSlots(max(8, 2*runtime.GOMAXPROCS(0))), live: fair.NewShares(o.Handling)}
	s.SetDeadline(o.Deadline)
	s.agents.bound, s.agents.passages.bound = o.Agents, o.Agents
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: "sdl",
		Types: []profiles.Type{
			{ID: TypeReq, Name: "req", Role: profiles.Initiating},
			{ID: TypeRes, Name: "res", Role: profiles.Answer | profiles.Terminal},
			{ID: TypeEvt, Name: "evt", Role: profiles.Initiating},
		},
		Operations: []profiles.Operation{
			{Name: "send", On: "agent_id that it speaks as"},
		},
		Behind:     profiles.PassedOn,
		Crossing:   s.crossing(),
		Extensions: []uint64{profiles.ExtDeadline, profiles.ExtChain},
		Handler:    profiles.HandlerFunc(s.serve),
		Check:      check,
		Act:        s.act,
		Refusal:    s.refusal,
	}
	return s, nil
}

// Profile returns the profile that serves peers. It is the same for each call.
func (s *Service) Profile() *profiles.Profile { return s.profile }

// Session returns the last session of an identity as an agent, or false.
func (s *Service) Session(identity, agentID string) (profiles.Session, bool) {
	return s.agents.session(identity, agentID)
}

// Close ends the messages in progress and waits for them. End the sessions of the endpoint
// first.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

var (
	errEnding   = profiles.Busy("closed", "sdl: this endpoint is shutting down")
	errHandling = profiles.Busy("sdl_handling", "sdl: too many messages are being handled")
	errRoom     = profiles.Busy("sdl_handling", "sdl: there is no memory for a message with so many values now")
	errNone     = &profiles.Error{Code: profiles.SecurityPolicy, Detail: DetailNotServed, Text: "this endpoint does not serve A2A-SDL (profile 1024)"}
)

// enter reserves room for a message with a body, and for the values that it will be parsed to. The
// caller must call leave.
func (s *Service) enter(identity string, form Form, body []byte) (func(), error) {
	if err := s.reserve(identity); err != nil {
		return nil, err
	}
	leave := func() { s.leave(identity) }
	octets := weight(form, body)
	if s.opts.Room == nil || octets < weightless {
		return leave, nil
	}
	release, excused := s.opts.Room(identity, octets)
	if release == nil {
		leave()
		fault := *errRoom
		fault.Excused = excused
		return nil, &fault
	}
	return func() {
		release()
		leave()
	}, nil
}

const (
	// valueSize is about the octets in memory of one value of a parsed body, with its name.
	valueSize = 48

	// mostValues is how many values a body may have: see canonical.
	mostValues = 1 << 18

	// weightless is the weight below which a message takes no room. The number of messages is
	// bounded.
	weightless = 16 << 10
)

// weight returns about the octets that the values of a body need in memory. It counts what
// begins or separates values in JSON, also within strings, and each octet of CBOR.
func weight(form Form, body []byte) int {
	n := len(body)
	if form == JSON {
		n = 0
		for _, c := range body {
			if c == ',' || c == ':' || c == '[' || c == '{' {
				n++
			}
		}
	}
	return min(n, mostValues)*valueSize + len(body)
}

func (s *Service) reserve(identity string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errEnding
	}
	if fault := s.live.Take(identity, 1).Refuse(errHandling); fault != nil {
		return fault
	}
	s.work.Add(1)
	return nil
}

// leave releases the room.
func (s *Service) leave(identity string) {
	s.mu.Lock()
	s.live.Give(identity, 1)
	s.mu.Unlock()
	s.work.Done()
}

// check validates an answer.
func check(env *e1.Envelope) error {
	if _, ok := FormOf(env.Payload); !ok {
		return errForm
	}
	return nil
}

var errForm = &profiles.Error{
	Code: profiles.InvalidProfilePayload, Detail: detailOf(CodeEncoding), Text: "sdl: the payload is neither JSON nor CBOR",
}

// errPanic is the cause for a panic during the handling of a message.
var errPanic = errors.New("sdl: panic")

// Pools returns whose messages are in progress, and who computes.
func (s *Service) Pools() []fair.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []fair.Pool{s.live.Pool("sdl messages"), s.slots.Pool("sdl computing")}
}
