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
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// crossing says how events are published at partners, and how peers subscribe there: by the
// event types in an event or a filter.
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
		return profiles.Errand{Operation: "subscribe", Answers: profiles.Endless, Names: filter.asked()}, nil
	}
	c.May = may
	c.Pass = b.pass
	return c
}

// origin is the partner whose events a subscription delivers.
type origin struct {
	upstream

	mu        sync.Mutex
	forgetter func(error) // called after the partner was asked to delete the name, or could not be
	over      bool        // the partner is not asked any more
}

// forget makes the partner delete the name at the end of the subscription.
func (o *origin) forget(done func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		done(errForget)
		return
	}
	o.forgetter = done
}

// forgotten takes the callback for the deletion of the name, or nil.
func (o *origin) forgotten() (told func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	told, o.forgetter = o.forgetter, nil
	return told
}

// end calls the callback without waiting for the partner.
func (o *origin) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	if told := o.forgotten(); told != nil {
		told(errForget)
	}
}

// errForget says that a name was not deleted.
var errForget = profiles.LinkFault(profiles.DetailLinkDown,
	"events: the partner cannot be asked to forget the name now; subscribe under it again, and end that", true, nil)

// pass begins a subscription to the events of a partner. It counts, and ends, like a
// subscription to events of this endpoint.
func (b *Bus) pass(way *profiles.Way, req *profiles.Request, w profiles.Responder) (func(context.Context) error, error) {
	var m Subscribe
	if err := m.Decode(req.Payload); err != nil {
		return nil, err
	}
	text := string(m.Filter)
	if way.Named {
		text = inside(text, way.Prefix)
	}
	s, err := b.newSubscription(req, text, &origin{upstream: upstream{way: way, opts: SubscribeOptions{Filter: text}}})
	if err != nil {
		return nil, err
	}
	s.asked, s.from.filter = string(m.Filter), s.reader.filter
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

// inside returns a filter with the types without a prefix.
func inside(filter, prefix string) string {
	terms := strings.Split(filter, ",")
	for i, term := range terms {
		if name, ok := strings.CutPrefix(term, "type:"); ok {
			terms[i] = "type:" + strings.TrimPrefix(name, prefix)
		}
	}
	return strings.Join(terms, ",")
}

// nameThere is the name of a subscription at a partner, for which all subscribers here are
// one identity. It is the same each time, and different for each subscriber.
func nameThere(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// follow delivers the events of a partner until the subscription ends.
func (s *subscription) follow() error {
	defer s.from.end()
	if s.from.way.Shared && s.name == "" && !s.resume {
		if err := s.followShared(s.from.way); !errors.Is(err, errBehind) {
			return err
		}
	}
	silence := time.NewTimer(s.bus.opts.Heartbeat)
	defer silence.Stop()
	u := &s.from.upstream
	u.opened = func(start uint64) error {
		if u.begun {
			return nil
		}
		s.cursor = start
		return s.w.Send(s.batch(s.cursor, emptyBatch))
	}
	u.take = func(d Delivery) error {
		silence.Reset(s.bus.opts.Heartbeat)
		return s.deliverThere(d.Events, d.Cursor)
	}
	u.paused = func() error {
		select {
		case <-silence.C:
			silence.Reset(s.bus.opts.Heartbeat)
			return s.send(s.batch(s.cursor, emptyBatch))
		default:
			return nil
		}
	}
	u.leave = s.leave
	return u.follow(s.ctx)
}

// deliverThere delivers those events of a partner that the subscriber may get.
func (s *subscription) deliverThere(list []Record, cursor uint64) error {
	m := Batch{Events: make([]Record, 0, len(list))}
	for i := range list {
		if name, ok := s.reader.filter.there(&list[i]); ok && s.reader.rights.may([]byte(s.from.way.Here(string(name)))) {
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

// leave ends a subscription at the partner, and deletes the name there if requested.
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
