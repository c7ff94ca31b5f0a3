package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

// Publisher publishes deliveries to a relay, over as many connections as necessary. Connect
// is required.
type Publisher struct {
	// Connect makes a connection. It is called again after each loss.
	Connect Dialer

	// Patience is how long attempts continue without an acknowledgement; default 2 minutes.
	Patience time.Duration

	// Silence is how long each answer may take; default 10 s.
	Silence time.Duration

	// Lost is called when a connection has ended or could not be made, or the relay had no
	// room, with the reason and the pause before the next attempt. It may be nil.
	Lost func(err error, pause time.Duration)

	// Slow is called by Await for a delivery that it has waited for during some seconds, and
	// again every few seconds. It may be nil.
	Slow func(ctx context.Context, c *Client, id []byte)
}

func (p *Publisher) silence() time.Duration { return cmp.Or(p.Silence, 10*time.Second) }

func (p *Publisher) again() again {
	return again{connect: p.Connect, patience: cmp.Or(p.Patience, 2*time.Minute), silence: p.silence(), lost: p.Lost, alone: true}
}

// Bounds of unacknowledged publications.
const (
	maxUnacknowledged       = 64
	maxUnacknowledgedOctets = 8 << 20 // of payloads; a single larger one is sent alone
)

// Publish publishes the messages of a channel, in order, until the channel is closed. It
// calls taken for each message that the relay has stored. A message that is unacknowledged
// when a connection is lost, or the relay has no room, is published again with the same
// delivery_id, perhaps after later messages. An error of taken ends Publish with that
// error. If the relay refuses a publication permanently, Publish ends after the answers to
// those in flight; the error is then a *RefusedError.
func (p *Publisher) Publish(ctx context.Context, from <-chan *relay.Publication, taken func(*relay.Publication, relay.Receipt) error) error {
	w := &publishing{from: from, taken: taken, silence: p.silence(), window: 1}
	return p.again().run(ctx, w.run)
}

// RefusedError says which publication was refused.
type RefusedError struct {
	Publication *relay.Publication
	Err         error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Refused reports whether an error of Publish means that the same publication can never
// succeed: the relay refused it permanently, or it is too large for a message.
func Refused(err error) bool {
	answer, fault := (*profiles.PeerError)(nil), (*profiles.Error)(nil)
	switch {
	case !errors.As(err, new(*RefusedError)):
		return false
	case errors.As(err, &answer):
		return !answer.Retryable()
	}
	return errors.As(err, &fault) && (fault.Code == profiles.InvalidProfilePayload || fault.Detail == profiles.PayloadTooLarge.String())
}

// publishing is the state of Publish.
type publishing struct {
	from    <-chan *relay.Publication // nil when it is closed
	taken   func(*relay.Publication, relay.Receipt) error
	silence time.Duration

	// window is how many publications may be unacknowledged. It begins with one: a fault of
	// the first often affects all, and a peer that refuses many at once ends the
	// connection.
	window  int
	waiting []*relay.Publication // unacknowledged, in order
	octets  int                  // of their payloads
}

// receipt is the answer to a publication.
type receipt struct {
	publication *relay.Publication
	receipt     relay.Receipt
	err         error
}

// run publishes over one connection.
func (w *publishing) run(ctx context.Context, c *Client, moved func()) error {
	lane, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	answers := make(chan receipt, maxUnacknowledged)
	again := slices.Clone(w.waiting) // still to send over this connection
	for sent, failed := 0, error(nil); ; {
		var from <-chan *relay.Publication
		var next *relay.Publication
		switch {
		case failed != nil:
			if sent == 0 {
				return failed
			}
		case len(again) > 0 && sent < w.window:
			next, again = again[0], again[1:]
		case len(w.waiting) == 0 && w.from == nil:
			return nil
		case len(again) == 0 && w.room():
			from = w.from
		}
		if next == nil {
			var open bool
			select {
			case next, open = <-from:
				if !open {
					w.from = nil
					continue
				}
				w.waiting = append(w.waiting, next)
				w.octets += len(next.Payload)
			case a := <-answers:
				sent--
				if a.err == nil {
					moved()
					w.acknowledged(a.publication)
					if err := w.taken(a.publication, a.receipt); err != nil {
						a.err = &finalError{err}
					}
				}
				failed = cmp.Or(failed, a.err)
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := w.send(ctx, c, lane, next, answers); err != nil {
			failed = err
			continue
		}
		sent++
	}
}

func (w *publishing) room() bool {
	return len(w.waiting) < w.window && (len(w.waiting) == 0 || w.octets < maxUnacknowledgedOctets)
}

func (w *publishing) acknowledged(p *relay.Publication) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *relay.Publication) bool { return other == p })
	w.octets -= len(p.Payload)
	w.window = min(2*w.window, maxUnacknowledged)
}

// send publishes p and delivers the answer to answers. If there is no answer in time, the
// connection is not usable any more.
func (w *publishing) send(ctx context.Context, c *Client, lane profiles.Lane, p *relay.Publication, answers chan<- receipt) error {
	wait, err := relay.Submit(ctx, lane, p)
	if err != nil {
		return &RefusedError{p, err}
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, w.silence)
		defer cancel()
		r, err := wait(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			c.peer.Close(profiles.OK)
		}
		if err != nil {
			err = &RefusedError{p, err}
		}
		answers <- receipt{p, r, err}
	}()
	return nil
}
