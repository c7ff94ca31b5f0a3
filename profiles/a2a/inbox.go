package a2a

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Bounds of the queue for Recv.
const (
	inboxEvents = 1024
	inboxOctets = 1 << 20
)

// inbox is the receiver of an application.
type inbox struct {
	d       *Delivery
	payload []byte
	opts    SendOptions
	params  []string
	now     func() time.Time
	until   time.Time

	ready chan struct{} // one slot: there is something to look at

	mu     sync.Mutex
	events []*Event
	octets int
	end    *Result
	err    error // after the events
}

func newInbox(s *Service, id []byte, t *Task, opts SendOptions) *inbox {
	m := TaskBody{TaskID: id, Kind: []byte(t.Kind), Input: t.Input}
	return &inbox{
		payload: m.Append(make([]byte, 0, m.Size())), opts: opts, params: slices.Clone(t.Params),
		now: s.opts.Now, until: t.Deadline, ready: make(chan struct{}, 1),
	}
}

// task implements receiver.
func (b *inbox) task(context.Context) (e1.Envelope, error) {
	ext := taskExtensions(b.opts.Agent, b.params, b.opts.Hops)
	if !b.until.IsZero() {
		ext = appendDeadline(ext, b.until.Sub(b.now()))
	}
	return e1.Envelope{Extensions: ext, Payload: b.payload}, nil
}

// room implements receiver.
func (b *inbox) room(size int, _ bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) == 0 || len(b.events) < inboxEvents && b.octets+size <= inboxOctets
}

// wantsMissing implements receiver.
func (b *inbox) wantsMissing() bool { return b.room(0, true) }

// event implements receiver.
func (b *inbox) event(_ *profiles.Request, m *EventBody, at position) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.events = append(b.events, &Event{Seq: at.number, Message: string(m.Message), Payload: bytes.Clone(m.Payload), FirstHeld: at.firstHeld})
		b.octets += len(m.Message) + len(m.Payload)
		b.notify()
	}
	return nil
}

// result implements receiver.
func (b *inbox) result(_ *profiles.Request, m *ResultBody, at position) error {
	b.mu.Lock()
	if b.err == nil {
		b.err = io.EOF
		b.end = &Result{
			OK: m.OK, Output: bytes.Clone(m.Output), Reason: string(m.ErrorMessage),
			Last: at.number, FirstHeld: at.firstHeld, Endpoint: string(at.endpoint),
		}
		b.notify()
	}
	b.mu.Unlock()
	b.d.cancel(io.EOF)
	return nil
}

// lost implements receiver.
func (b *inbox) lost(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		b.notify()
	}
}

func (b *inbox) notify() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take returns the next Event, or the error after the last one; empty means that there is
// none yet.
func (b *inbox) take() (event *Event, empty bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) > 0 {
		event, b.events[0] = b.events[0], nil
		b.events = b.events[1:]
		b.octets -= len(event.Message) + len(event.Payload)
		return event, false, nil
	}
	return nil, b.err == nil, b.err
}
