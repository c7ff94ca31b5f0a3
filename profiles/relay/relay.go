// Package relay is the RELAY profile: deliveries that are kept until a consumer
// has processed them.
//
//	publisher → relay   PUBLISH → ACK       custody is taken: it is stored
//	                    PUBLISH → STATUS    duplicate: it is known
//	                    PUBLISH → ERR       CONFLICT, RATE_LIMIT_EXCEEDED, …
//	                    STATUS  → STATUS    how a delivery of one's own stands, or ERR NOT_FOUND
//	relay → consumer    PUBLISH → ACK       it is processed
//	                    PUBLISH → NACK      it is not
//	relay → publisher   NACK    → STATUS    it is dead, and why; repeated until that is answered
//
// New builds a Service. With a Store it is a relay; without one it publishes to
// relays and consumes from them. Both ends of a connection may be both.
//
// # Deliveries
//
// A delivery_id belongs to its publisher, the authenticated identity. It is
// remembered for the window, counted from custody, and for as long as the
// delivery is kept: the same delivery again is answered with STATUS duplicate
// and the number of its attempt, another topic or payload with ERR CONFLICT.
// Afterwards it is new. A topic is literal text: no character has a meaning.
//
// A delivery is made to one consumer of its topic at a time, at least once: it
// is attempted again until one acknowledges it, after NACK with retryable, after
// the ack timeout and when the connection is gone, with a growing pause. After
// the last attempt, after NACK without retryable and when its time is over it is
// dead; Reason lists why. The publisher is told on any of its sessions that has
// sent a message of this profile, or called one of its methods, until it answers
// with STATUS, or asks for STATUS while it is being told. Dead deliveries are
// kept, with their payload, and can be listed.
//
// First attempts are made in the order of custody, as far as one consumer goes.
//
// # Consumers
//
// A consumer attaches to a topic by the RPC method swp.relay.attach, whose
// params are AttachParams; the first stream item confirms it, and the call stays
// open while the consumer is attached. Deliveries are RELAY_PUBLISH on the lane
// of that call, with the publisher's identity (extension 16) and how many
// endpoints they have passed (48). Consumers of a topic take turns, each with at
// most max_in_flight unanswered deliveries, so that a slow one holds up nobody.
// A delivery can also be answered by an ACK or NACK with a new msg_id; if
// deliveries of the same id by several publishers are open, extension 16 selects
// one.
//
// A delivery passes at most eight endpoints: it is refused where it would pass
// one more, so that relays that feed each other do not do so for ever. Who
// passes one on gives it an id by Forward.
//
// Specification: SWP profiles §19.
package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of RELAY; Name is its short name.
const (
	ProfileID = 19
	Name      = "relay"
)

// RPC methods of a relay.
const (
	MethodAttach = "swp.relay.attach" // params AttachParams, stream items Attached; see Service.Attach
	MethodDead   = "swp.relay.dead"   // params DeadParams, result DeadPage; see Service.Dead
)

// Owned are topics that belong to another profile. That profile decides who may speak there
// and stores the deliveries by Keep; a RELAY_PUBLISH to such a topic, here or at a partner, is
// refused. A consumer needs a rule and the right to the agent_id (MayUse).
type Owned struct {
	Prefix string // of the topics; the agent_id of the receiver follows

	// Endpoints lets this endpoint itself (Self) and partners publish to such topics of this
	// endpoint: their profile has decided who speaks, and may have stored the delivery while
	// the link was lost.
	Endpoints bool
}

// Options configure a Service. The zero value is no relay.
type Options struct {
	// Store stores deliveries. Nil: this endpoint is no relay.
	Store Store

	// Access decides which identities may publish to a topic and consume from it. For
	// consumers it is checked again, at most once a second. Nil allows everyone.
	Access profiles.Access

	// Denied reports whether an identity may do nothing now. Its deliveries that wait are then
	// dead, at the start and after each Review; a change of other rules does not concern
	// deliveries in custody. It is called concurrently. Nil: no identity is denied.
	Denied func(identity string) bool

	// Owned are the topics of other profiles.
	Owned []Owned

	// MayUse reports whether an identity may use an agent_id, here or at a partner. It is
	// called like Access. Nil: any may.
	MayUse func(identity, agentID string) bool

	// Self returns the identity of this endpoint, under which its components publish. Nil:
	// they do not.
	Self func() string

	// Window is the minimum time for which a delivery_id is remembered; default 24 hours.
	Window time.Duration

	// TTL is the lifetime of a delivery if its publisher sets none. Zero means as long as
	// Retention.
	TTL time.Duration

	// Retention is the maximum time for which an unprocessed delivery is stored; default 7
	// days. DeadRetention holds for a dead delivery, from its death and again from the
	// acknowledgement of the notice.
	Retention, DeadRetention time.Duration

	// AckTimeout limits an attempt, from the moment it is the turn of the delivery; default
	// 30 s.
	AckTimeout time.Duration

	// Backoff is the pause after the first failed attempt; default 1 s. It doubles up to
	// MaxBackoff; default 60 s. Notices to publishers use the same pauses.
	Backoff, MaxBackoff time.Duration

	// Jitter extends each pause by a random part of up to this fraction; default 0.2. It
	// separates the retries of attempts that failed together. Negative means none.
	Jitter float64

	// MaxAttempts limits the attempts of a delivery; default 5.
	MaxAttempts int

	// MaxPayload limits accepted payloads, in octets. Zero means the largest that can be
	// delivered.
	MaxPayload int

	// FrameLimit and Envelope are the limits of consumers, in octets; default 8 MiB and
	// those of e1. A message that cannot be delivered within these limits is refused.
	FrameLimit int
	Envelope   e1.Limits

	// MaxAnswer limits the result of Dead, in octets; default 7 MiB.
	MaxAnswer int

	// MaxInFlight limits max_in_flight of one attachment; default 128. IdentityInFlight and
	// InFlight limit the sums for one identity and for all, who share it; default 4,096 and
	// 16,384. Further attachments are refused.
	MaxInFlight, IdentityInFlight, InFlight int

	// Heartbeat is the pause between stream items to a consumer without deliveries; default
	// 5 minutes. The items keep the connection from being idle.
	Heartbeat time.Duration

	// Notice is called for a dead delivery of this side, and reports whether the notice is
	// acknowledged. It must not block. May be nil.
	Notice func(relay *profiles.Peer, n Notice) bool

	// Behind returns the partner of a topic, and the topic there. Nil: there are no
	// partners.
	Behind func(topic string) (partner, rest string, ok bool)

	// Carries returns why a partner takes no deliveries, so that they are refused before they
	// are stored. It must not wait. Nil: every partner takes them.
	Carries func(partner string) error

	// Across prepares a call at a partner; an error refuses it. Nil: consumers can attach
	// to local topics only.
	Across func(ctx context.Context, errand *Errand) (*Way, error)

	// Carrier sends the hints and credentials under which a delivery for a partner was accepted
	// ahead of it, and Chains has those credentials. Nil: they stay here.
	Carrier profiles.Carrier
	Chains  profiles.Chains

	// Wrong is called for an answer with which a partner breaks the protocol: to a delivery,
	// which is published again after a pause, or to a question about one (operation status).
	// name is the topic here, or at the partner. It must not block. May be nil.
	Wrong func(partner, publisher, operation, name string, err error)

	// Away returns why a partner that cannot be reached refuses this endpoint; empty if that is not
	// known. It may be nil.
	Away func(partner string) string

	// Refused is called for a delivery that a partner, or an endpoint behind it, has refused
	// for good. topic is the one here. It must not block. May be nil.
	Refused func(partner, publisher, topic string, refusal Refusal)

	// Partner returns the name of the partner that has an identity. Its delivery_ids, and
	// those of deliveries forwarded to it, are remembered for Retention, because a delivery
	// may be repeated after days. Nil: there are no partners.
	Partner func(identity string) (name string, ok bool)

	// Key is the secret by which this endpoint recognises the delivery_ids that it has
	// given forwarded deliveries. It must survive restarts. Nil: a random one.
	Key []byte

	// Call calls an RPC method and returns its result. Nil: partners are not asked about
	// dead deliveries.
	Call func(ctx context.Context, on profiles.Caller, method string, params []byte) ([]byte, error)

	// Open calls an RPC method, for Consume. It returns when the call is sent.
	Open func(ctx context.Context, lane profiles.Lane, method string, params []byte, ext e1.Extensions) (Stream, error)

	// Now is the clock for times in the Store. After calls f when d has passed, unless stop
	// is called before. Nil means time.Now and time.AfterFunc.
	Now   func() time.Time
	After func(d time.Duration, f func()) (stop func() bool)
}

func (o Options) withDefaults() Options {
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	if o.MayUse == nil {
		o.MayUse = func(string, string) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&o.Window, 24 * time.Hour}, {&o.Retention, 7 * 24 * time.Hour}, {&o.DeadRetention, 7 * 24 * time.Hour},
		{&o.AckTimeout, 30 * time.Second}, {&o.Backoff, time.Second}, {&o.MaxBackoff, time.Minute}, {&o.Heartbeat, 5 * time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	for _, d := range []struct {
		value *int
		def   int
	}{
		{&o.MaxAttempts, 5}, {&o.MaxInFlight, 128}, {&o.IdentityInFlight, 4096}, {&o.InFlight, 16384}, {&o.MaxAnswer, 7 << 20},
		{&o.FrameLimit, 8 << 20},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	o.Envelope = o.Envelope.WithDefaults()
	if o.Key == nil {
		o.Key = make([]byte, 32)
		_, _ = rand.Read(o.Key) // never returns an error
	}
	if o.Jitter == 0 {
		o.Jitter = 0.2
	}
	return o
}

func (o *Options) validate() error {
	for _, v := range []int{o.MaxAttempts, o.MaxInFlight, o.IdentityInFlight, o.InFlight, o.MaxAnswer, o.FrameLimit} {
		if v < 1 {
			return fmt.Errorf("relay: a bound of %d, want at least 1", v)
		}
	}
	if o.MaxPayload < 0 {
		return fmt.Errorf("relay: MaxPayload of %d is negative", o.MaxPayload)
	}
	for _, d := range []time.Duration{
		o.Window, o.TTL, o.Retention, o.DeadRetention, o.AckTimeout, o.Backoff, o.MaxBackoff, o.Heartbeat,
	} {
		if d < 0 {
			return fmt.Errorf("relay: a duration of %v is negative", d)
		}
	}
	if o.Jitter > 1 {
		return fmt.Errorf("relay: a jitter of %v, want at most 1", o.Jitter)
	}
	return nil
}

// Service is a relay, and a client of relays. It is safe for concurrent use.
type Service struct {
	opts    Options
	limits  atomic.Pointer[Options] // options that SetLimits can change
	profile *profiles.Profile
	*counters
	expiry  expiry
	sweeper sweeper
	inboxes inboxes
	large   *fair.Slots // for items that are read separately from the Store

	ctx   context.Context // ends with Close
	close context.CancelCauseFunc
	work  sync.WaitGroup

	mu        sync.Mutex // guards the following fields, and feeds, seats, attachments and attempts
	draining  bool
	closed    bool
	feeds     map[string]*feed // by name of the queue
	accounts  map[string]*account
	reserved  fair.Shares // the sum of max_in_flight
	heralds   map[heraldKey]*herald
	heralding map[profiles.Session][]string // the publishers of which each is told
	attempts  map[attemptKey][]*attempt
	links     map[string]*onward // by partner
	lanes     map[profiles.Session]*sharedLane
	notices   map[string]func() // notices in progress, by id of the item; called on the answer
}

// New returns a Service. It fails if an option is out of range. The caller must close it.
func New(opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{
		opts: opts, counters: newCounters(), large: fair.NewSlots(largeSlots),
		feeds: make(map[string]*feed), accounts: make(map[string]*account), heralds: make(map[heraldKey]*herald), heralding: make(map[profiles.Session][]string),
		attempts: make(map[attemptKey][]*attempt), notices: make(map[string]func()), links: make(map[string]*onward),
		lanes: make(map[profiles.Session]*sharedLane),
	}
	s.inboxes.open = make(map[inboxKey][]*Consumer)
	s.ctx, s.close = context.WithCancelCause(context.Background())
	s.limits.Store(&opts)
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypePublish, Name: "RELAY_PUBLISH", Role: profiles.Initiating},
			{ID: TypeAck, Name: "RELAY_ACK", Role: profiles.Initiating | profiles.Answer | profiles.Concluding | profiles.Lone},
			{ID: TypeNack, Name: "RELAY_NACK", Role: profiles.Initiating | profiles.Answer | profiles.Concluding | profiles.Lone},
			{ID: TypeStatus, Name: "RELAY_STATUS", Role: profiles.Initiating | profiles.Answer | profiles.Lone},
			{ID: TypeErr, Name: "RELAY_ERR", Role: profiles.Answer | profiles.Lone},
		},
		Operations: []profiles.Operation{
			{Name: "publish", On: "topic"},
			{Name: "consume", On: "topic"},
			{Name: "ack", Free: true},
			{Name: "nack", Free: true},
			{Name: "status", Free: true},
		},
		Extensions: []uint64{ExtPublisher, profiles.ExtHops, profiles.ExtTarget},
		Behind:     profiles.PassedOn,
		Methods: []profiles.Method{
			{Name: MethodAttach, Open: true, Repeatable: true, Targets: true, Long: true, Held: s.attach},
			{Name: MethodDead, Open: true, Targets: true, Repeatable: true, Detached: s.listDead},
		},
		Show:      p1.Show(Messages),
		Handler:   (*service)(s),
		Check:     func(env *e1.Envelope) error { return check(env.MsgType, env.Payload) },
		Lifecycle: lifecycle,
		Act:       s.act,
		Refusal:   refusals.Refusal,
		Review:    s.review,
	}
	if opts.Store != nil {
		s.expiry = expiry{s: s, alarm: make(chan struct{}, 1)}
		s.expiry.ring()
		s.work.Go(s.expiry.run)
		if opts.Denied != nil {
			s.sweeper = sweeper{s: s, alarm: make(chan struct{}, 1)}
			s.review() // one may have been denied before the start
			s.work.Go(s.sweeper.run)
		}
	}
	return s, nil
}

// SetLimits changes Window, TTL, Retention, DeadRetention, AckTimeout, Backoff, MaxBackoff,
// MaxAttempts, MaxPayload, MaxInFlight, IdentityInFlight and InFlight for new deliveries and consumers.
// Stored deliveries keep their times, and attached consumers their places. It fails for
// options that New refuses, and then changes nothing.
func (s *Service) SetLimits(o Options) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	s.limits.Store(&o)
	return nil
}

// Profile returns the profile that serves peers. It is the same for each call.
func (s *Service) Profile() *profiles.Profile { return s.profile }

var errClosed = errors.New("relay: closed")

// Drain ends the attachments of consumers with an error that tells them to retry. They may
// still answer deliveries in flight, and new deliveries are still accepted.
func (s *Service) Drain() {
	s.mu.Lock()
	s.draining = true
	var all []*attachment
	for _, account := range s.accounts {
		for a := range account.attachments {
			all = append(all, a)
		}
	}
	s.mu.Unlock()
	for _, a := range all {
		a.fail(errEnding)
	}
}

// Close drains, ends the consumers on this side, and waits until deliveries in progress are
// back in the Store. Close the Store afterwards.
func (s *Service) Close() {
	s.Drain()
	s.mu.Lock()
	s.closed = true
	for _, f := range s.feeds {
		f.stop()
	}
	s.mu.Unlock()
	s.expiry.stop()
	s.close(errClosed)
	s.inboxes.close()
	s.work.Wait()
}

// spawn runs f on a goroutine that Close waits for. It returns false without running f if
// the Service is closed. The caller holds mu.
func (s *Service) spawn(f func()) bool {
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}
