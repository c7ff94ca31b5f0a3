package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// crossing is how events are published at partners, and subscribed to there: by the types
// that an event or a filter names.
func (b *Bus) crossing() *profiles.Crossing {
	names := p1.Names{Messages: Messages, Field: "event_type"}
	c := names.Crossing(&refusals, map[uint64]profiles.Errand{
		TypePublish:     {Operation: "publish", Answers: profiles.Refusal},
		TypeBatch:       {Operation: "publish", Answers: profiles.Refusal},
		TypeUnsubscribe: {Answers: profiles.Here},
	})
	read := c.Read
	c.Read = func(env *e1.Envelope) (profiles.Errand, error) {
		if env.MsgType != TypeSubscribe {
			return read(env)
		}
		var m Subscribe
		if err := m.Decode(env.Payload); err != nil {
			return profiles.Errand{}, err
		}
		filter, err := ParseFilter(string(m.Filter))
		if err != nil {
			return profiles.Errand{}, err
		}
		e := profiles.Errand{Operation: "subscribe", Free: true, Answers: profiles.Endless}
		for _, name := range filter.types {
			e.Names = append(e.Names, string(name))
		}
		return e, nil
	}
	c.Pass = b.pass
	return c
}

// origin is where the events of a subscription come from that are not of this endpoint.
type origin struct {
	way   *profiles.Way
	opts  SubscribeOptions // there
	holds bool             // the partner stores events
	begun bool             // the subscription was confirmed

	mu        sync.Mutex
	forgetter func(error) // told when the partner was asked to forget the name, or cannot be
	over      bool        // nobody is asked any more
}

// forget has the partner be asked to forget the name when the subscription ends.
func (o *origin) forget(done func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		done(errForget)
		return
	}
	o.forgetter = done
}

// forgotten takes who is to be told that the partner forgets the name, nil if it need not.
func (o *origin) forgotten() (told func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	told, o.forgetter = o.forgetter, nil
	return told
}

// end has nobody wait for the partner any more.
func (o *origin) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	if told := o.forgotten(); told != nil {
		told(errForget)
	}
}

// errForget says that a name is kept.
var errForget = &profiles.Error{
	Code: profiles.Internal, Detail: "partner_lost", Retryable: true, Domain: true,
	Text: "events: the partner cannot be asked to forget the name now; subscribe under it again, and end that",
}

// pass begins a subscription to the events of a partner. It counts, and ends, like those
// to events of this endpoint.
func (b *Bus) pass(way *profiles.Way, req *profiles.Request, w profiles.Responder) (func(context.Context) error, error) {
	var m Subscribe
	if err := m.Decode(req.Payload); err != nil {
		return nil, err
	}
	text := string(m.Filter)
	if way.Named {
		text = inside(text, way.Prefix)
	}
	s, err := b.newSubscription(req, text, &origin{way: way, opts: SubscribeOptions{Filter: text}})
	if err != nil {
		return nil, err
	}
	if s.name != "" {
		s.from.opts.Name = nameThere(s.name)
	}
	if s.resume {
		s.from.opts.After = &s.cursor
	}
	if err := b.subs.add(s); err != nil {
		return nil, err
	}
	s.hold(req, w)
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })()
		return s.run()
	}, nil
}

// inside returns a filter with the names of types as they are behind a prefix.
func inside(filter, prefix string) string {
	terms := strings.Split(filter, ",")
	for i, term := range terms {
		if name, ok := strings.CutPrefix(term, "type:"); ok {
			terms[i] = "type:" + strings.TrimPrefix(name, prefix)
		}
	}
	return strings.Join(terms, ",")
}

// nameThere is the name of a subscription at a partner, to which all subscribers here are
// one: the same each time, and never that of another subscriber.
func nameThere(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

var followPauses = backoff.Exponential{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// errInterrupted ends a subscription to events that nobody holds: some may be missing.
var errInterrupted = &profiles.Error{
	Code: profiles.Internal, Detail: "partner_lost", Retryable: true, Domain: true,
	Text: "events: the link to the partner was lost, which stores no events: some may be missing; subscribe again",
}

// follow delivers the events of a partner, over as many sessions as it takes, until the
// subscription ends. Where the partner stores events none is missed.
func (s *subscription) follow() error {
	defer s.from.end()
	if s.from.way.Shared && s.name == "" && !s.resume {
		if err := s.followShared(s.from.way); !errors.Is(err, errBehind) {
			return err
		}
	}
	silence := time.NewTimer(s.bus.opts.Heartbeat)
	defer silence.Stop()
	for failures := 0; ; failures++ {
		moved, err := s.followOnce()
		if moved {
			failures = 0
		}
		refused, final := errors.AsType[*profiles.PeerError](err)
		switch {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case !s.from.begun, final && !refused.Retryable():
			return err
		case !s.from.holds:
			return errInterrupted
		}
		if moved {
			silence.Reset(s.bus.opts.Heartbeat)
		}
		select {
		case <-time.After(backoff.Jitter(followPauses.After(failures))):
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
		select {
		case <-silence.C:
			silence.Reset(s.bus.opts.Heartbeat)
			if err := s.send(s.batch(s.cursor, emptyBatch)); err != nil {
				return err
			}
		default:
		}
	}
}

// followOnce delivers what comes over one session. moved says that something did.
func (s *subscription) followOnce() (moved bool, err error) {
	session, err := s.from.way.Session(s.ctx)
	if err != nil {
		return false, err
	}
	sub, err := Open(s.ctx, session, s.from.opts)
	if err != nil {
		return false, err
	}
	defer s.leave(sub)
	s.from.holds = sub.Durable()
	switch last := s.from.opts.After; {
	case !s.from.begun:
		s.cursor = sub.Start()
		if err := s.w.Send(s.batch(s.cursor, emptyBatch)); err != nil {
			return false, err
		}
		s.from.begun = true
	case last != nil && sub.Start() > *last:
		return false, errGapThere
	}
	for {
		s.mark()
		d, err := sub.Recv(s.ctx)
		if err != nil {
			return moved, err
		}
		if err := s.deliverThere(d.Events, d.Cursor); err != nil {
			return moved, err
		}
		moved = true
	}
}

// deliverThere delivers those of a partner's events that the subscriber may get.
func (s *subscription) deliverThere(list []Record, cursor uint64) error {
	m := Batch{Events: make([]Record, 0, len(list))}
	for i := range list {
		if s.reader.may([]byte(s.from.way.Here(string(list[i].EventType)))) {
			m.Events = append(m.Events, list[i])
		}
	}
	payload := emptyBatch
	if len(m.Events) > 0 {
		payload = m.Append(make([]byte, 0, m.Size()))
	}
	if err := s.send(s.batch(cursor, payload)); err != nil {
		return err
	}
	s.cursor = cursor
	return nil
}

// mark notes where the next session goes on.
func (s *subscription) mark() {
	if s.from.holds {
		after := s.cursor
		s.from.opts.After = &after
	}
}

// leave ends a subscription at the partner, and has it forget the name if that is wanted.
func (s *subscription) leave(sub *Subscription) {
	if told := s.from.forgotten(); told != nil && errors.Is(context.Cause(s.ctx), errUnsubscribed) {
		if err := sub.ForgetAnd(s.from.way.Sync); err != nil {
			told(errForget)
			return
		}
		told(nil)
		return
	}
	sub.Close()
}
