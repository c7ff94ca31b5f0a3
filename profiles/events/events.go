// Package events is the EVENTS profile: events, delivered in order to
// subscribers.
//
//	PUBLISH                 no answer, or ERR
//	BATCH                   as several PUBLISH, all valid or none
//	SUBSCRIBE → BATCH BATCH*   the first confirms and has no records
//	SUBSCRIBE → BATCH* ERR     refused, or cut off
//	UNSUBSCRIBE             no answer, or ERR NOT_FOUND
//
// New builds a Bus. With a Store an event is accepted once it is stored; a
// publisher learns that from swp.sync on the same stream. Without one there are
// live events only: they are gone once all current subscribers have them.
//
// # Order and duplicates
//
// All events that are accepted form one sequence. Those of one stream are in
// the order in which they came on it, and subscriptions get them in the order
// of the sequence. An event_id belongs to its producer, the authenticated
// identity: the same event again is accepted without an effect, another one
// under a used event_id is refused. With a Store that holds for the retention,
// without one for the last thousand or two of each producer.
//
// # Subscriptions
//
// A subscription gets what its filter matches and its identity may subscribe
// to. Its id is the msg_id of the SUBSCRIBE in lower-case hexadecimal; it
// belongs to its connection. Delivery never holds up who publishes: events wait
// in a bounded tail in memory, then in the Store, and a subscription that is so
// slow that they are held no longer is cut off with SLOW_CONSUMER. One that the
// rules would refuse ends with SECURITY_POLICY when they change.
//
// With a Store every BATCH carries a cursor (extension 17), and a SUBSCRIBE
// with that extension starts after it. The cursor of the confirmation says
// where delivery really starts: if it is greater than the requested one, the
// events between are no longer held. A BATCH without records says that there is
// nothing for this subscription up to its cursor; one comes after each
// Heartbeat of silence.
//
// A SUBSCRIBE with a name (extension 16) and a cursor also stores the cursor
// under the name, which belongs to the identity; with a name alone it goes on
// after the stored one, or if the name is new from the present on. ERR GAP says
// that this place is no longer held: then the subscriber has to choose one with
// a cursor. Delivered events may be repeated after a reconnection, so a
// subscriber stores its cursor with the effects of the event. The newest
// subscription of a name takes over; the one before ends with ERR REPLACED.
// UNSUBSCRIBE keeps the name unless it carries extension 16, too.
//
// Specification: SWP profiles §13.
package events

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of EVENTS, Name its short name.
const (
	ProfileID = 13
	Name      = "events"
)

// Options configure a Bus. The zero value serves live events to everyone.
type Options struct {
	// Store stores events and the cursors of named subscriptions. Nil: live events only.
	Store Store

	// Access decides which identity may publish and subscribe to which event_type. It is
	// asked again after at most a second; see Profile.Review. Nil denies nothing.
	Access profiles.Access

	// Retention is how long stored events are kept, default 24 hours; see SetRetention.
	Retention time.Duration

	// TailEntries and TailOctets bound the newest events in memory, by default 8,192 and 16
	// MiB. Without a Store they are also the maximum lag of a subscription.
	TailEntries, TailOctets int

	// PendingOctets bounds the events that wait to be stored, default 64 MiB; producers share
	// it. Above it events are refused as retryable.
	PendingOctets int

	// Subscriptions bounds the subscriptions of one connection, default 256, which its callers
	// share, and IdentitySubscriptions the ones of one identity, default 4,096.
	Subscriptions, IdentitySubscriptions int

	// Names bounds the named subscriptions of one identity, default 1,024.
	Names int

	// Heartbeat is the silence after which a subscription gets a BATCH without records,
	// default 5 minutes. It also prevents the idle timeout.
	Heartbeat time.Duration

	// Now is the clock of the retention. Nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, d := range []struct {
		value *int
		def   int
	}{
		{&o.TailEntries, 8192}, {&o.TailOctets, 16 << 20}, {&o.PendingOctets, 64 << 20}, {&o.Subscriptions, 256},
		{&o.IdentitySubscriptions, 4096}, {&o.Names, 1024},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.Retention == 0 {
		o.Retention = 24 * time.Hour
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 5 * time.Minute
	}
	return o
}

func (o *Options) validate() error {
	for _, v := range []int{o.TailEntries, o.TailOctets, o.PendingOctets, o.Subscriptions, o.IdentitySubscriptions, o.Names} {
		if v < 1 {
			return fmt.Errorf("events: a bound of %d, want at least 1", v)
		}
	}
	for _, d := range []time.Duration{o.Retention, o.Heartbeat} {
		if d < 0 {
			return fmt.Errorf("events: a duration of %v is negative", d)
		}
	}
	return nil
}

// Bus accepts events and delivers them to subscriptions. It is safe for concurrent use. It
// assumes one process: a live subscription gets the events that this Bus has accepted.
type Bus struct {
	opts    Options
	profile *profiles.Profile
	tail    tail
	kept    atomic.Int64  // Options.Retention, changed
	pending fair.Budget   // octets that wait to be stored, by producer
	order   order         // of what streams publish
	rules   atomic.Uint64 // how often they have changed
	readers *fair.Slots   // for reading the store
	large   *fair.Slots   // for large records from the store
	naming  chan struct{} // the slot for storing a new name

	live live
	hubs hubs // of events of partners

	ctx   context.Context // ends with Close
	close context.CancelCauseFunc
	work  sync.WaitGroup // deliveries

	subs table
}

// openTime bounds how long New waits for the store.
const openTime = 10 * time.Second

// New returns a Bus. It fails if an option is out of range or the store cannot
// be read. The caller closes it.
func New(opts Options) (*Bus, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	b := &Bus{opts: opts, readers: fair.NewSlots(storeReaders), large: fair.NewSlots(largeSlots), naming: make(chan struct{}, 1)}
	b.kept.Store(int64(opts.Retention))
	b.pending.Bound(opts.PendingOctets)
	b.tail.maxEntries, b.tail.maxOctets = opts.TailEntries, opts.TailOctets
	b.tail.waiters.init(opts.Access)
	b.live.seed = maphash.MakeSeed()
	b.subs.init()
	b.ctx, b.close = context.WithCancelCause(context.Background())
	if opts.Store != nil {
		ctx, cancel := context.WithTimeout(b.ctx, openTime)
		defer cancel()
		_, last, err := opts.Store.Span(ctx, spaceLog, logName)
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		b.tail.last = last
	}
	b.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name, Review: b.review,
		Types: []profiles.Type{
			{ID: TypePublish, Name: "EVT_PUBLISH", Role: profiles.Initiating},
			{ID: TypeSubscribe, Name: "EVT_SUBSCRIBE", Role: profiles.Initiating},
			{ID: TypeUnsubscribe, Name: "EVT_UNSUBSCRIBE", Role: profiles.Initiating | profiles.Concluding},
			{ID: TypeBatch, Name: "EVT_BATCH", Role: profiles.Initiating | profiles.Answer},
			{ID: TypeErr, Name: "EVT_ERR", Role: profiles.Answer | profiles.Lone},
		},
		Operations: []profiles.Operation{
			{Name: "publish", On: "event_type"},
			{Name: "subscribe", On: "event_type of each event delivered"},
			{Name: "unsubscribe", Free: true},
		},
		Extensions: []uint64{ExtSubscription, ExtCursor, profiles.ExtHops},
		Behind:     profiles.PassedOn,
		Crossing:   b.crossing(),
		Show:       p1.Show(Messages),
		Handler:    (*service)(b),
		Check:      checkAnswer,
		Lifecycle:  lifecycle,
		Refusal:    refusals.Refusal,
	}
	return b, nil
}

// SetRetention changes how long later events are kept. It must be above 0.
func (b *Bus) SetRetention(d time.Duration) { b.kept.Store(int64(d)) }

// Profile returns the profile that serves peers, the same one each time.
func (b *Bus) Profile() *profiles.Profile { return b.profile }

var errClosed = errors.New("events: closed")

// Drain ends the subscriptions of peers with a retryable ERR, and refuses new ones. Events
// are still accepted.
func (b *Bus) Drain() { b.subs.close() }

// Close calls Drain, ends the subscriptions of this process, refuses events and waits until
// deliveries have ended. Events that are being stored are stored.
func (b *Bus) Close() {
	b.Drain()
	b.close(errClosed)
	b.work.Wait()
}

// Pools returns the use of the reads of the store, of the slots for large records, and of the
// octets that wait to be stored.
func (b *Bus) Pools() []fair.Pool {
	return []fair.Pool{b.readers.Pool("event reads"), b.large.Pool("large events"), b.pending.Pool("event octets")}
}
