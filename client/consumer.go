package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles/relay"
)

// Consumer processes the deliveries of a topic, over as many connections as it
// takes. Connect, Topic and Process are required.
type Consumer struct {
	// Connect makes a connection. It is called again when one is lost.
	Connect Dialer
	Topic   string

	// Process gets each delivery. Without an error it is acknowledged; a
	// *NotProcessed says what else; any other error gives the delivery back and
	// ends Consume, and is its error. ctx ends when Drain is over. A delivery can
	// come more than once, but not while it is being processed here.
	Process func(ctx context.Context, d *relay.Delivery) error

	// MaxInFlight is how many unanswered deliveries the relay may leave here; 0
	// leaves that to the relay. Parallel is how many are processed at once; default
	// 1, which keeps their order.
	MaxInFlight, Parallel int

	// Count is how many deliveries are processed until Consume ends, 0 for no end.
	// With a MaxInFlight of 1 no more than these come; otherwise those that do are
	// given back, which counts as an attempt.
	Count uint64

	// Patience is how long the relay may be gone once it has confirmed something.
	// Zero means for ever.
	Patience time.Duration

	// Silence is how long it may leave a sign of life unanswered; default 10 s.
	Silence time.Duration

	// Drain is how long what is being processed has after ctx has ended; default
	// 30 s. Abort ends that time at once when it is closed.
	Drain time.Duration
	Abort <-chan struct{}

	// Attached is called when the relay has confirmed the topic, Lost when it is
	// gone, with the reason and the time until the next attempt. Either may be nil.
	Attached func(c *Client)
	Lost     func(err error, pause time.Duration)
}

// NotProcessed says that a delivery was not processed.
type NotProcessed struct {
	Retryable bool   // another attempt is worth it
	Reason    string // in a word, for the relay
}

func (e *NotProcessed) Error() string { return "not processed: " + e.Reason }

// Consume processes deliveries until ctx ends, which is no error, or Count is
// reached.
func (o Consumer) Consume(ctx context.Context) error {
	o.Parallel, o.Silence, o.Drain = max(o.Parallel, 1), cmp.Or(o.Silence, 10*time.Second), cmp.Or(o.Drain, 30*time.Second)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stopped := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(o.Drain):
		case <-o.Abort:
		case <-life.Done():
		}
		end()
	})
	defer stopped()
	c := &consuming{Consumer: o, life: life}
	err := again{connect: o.Connect, patience: o.Patience, silence: o.Silence, lost: o.Lost}.run(ctx, c.run)
	if ctx.Err() != nil && !errors.As(err, new(*finalError)) {
		return nil
	}
	return err
}

// consuming is the state of Consume.
type consuming struct {
	Consumer
	life context.Context // of the processing
	came uint64
}

// run consumes over one connection. It returns when every received delivery is
// processed, so that none is processed twice at once.
func (c *consuming) run(ctx context.Context, on *Client, moved func()) error {
	opening, cancel := context.WithTimeout(ctx, c.Silence)
	defer cancel()
	from, err := on.set.Relay.Consume(opening, on.Session, c.Topic, c.MaxInFlight)
	if err != nil {
		return err
	}
	moved()
	if c.Attached != nil {
		c.Attached(on)
	}
	receiving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	defer running.Wait()
	defer from.Close()
	slots := make(chan struct{}, c.Parallel)
	for c.Count == 0 || c.came < c.Count {
		select {
		case slots <- struct{}{}:
		case <-receiving.Done():
			return ended(ctx, receiving)
		}
		d, err := from.Recv(receiving)
		switch {
		case receiving.Err() != nil && err != nil:
			return ended(ctx, receiving)
		case err != nil:
			return err
		}
		c.came++
		last := c.came == c.Count
		running.Go(func() {
			defer func() { <-slots }()
			if err := c.process(d, last, from); err != nil {
				stop(&finalError{err})
			}
		})
	}
	running.Wait()
	return ended(ctx, receiving)
}

// ended returns why a connection is of no more use: the error of Process, or none.
func ended(ctx, receiving context.Context) error {
	if ctx.Err() == nil && receiving.Err() != nil {
		return context.Cause(receiving)
	}
	return nil
}

// process processes a delivery and answers it. Where nothing more is wanted the
// relay knows that before it has the answer, and has not sent another one.
func (c *consuming) process(d *relay.Delivery, last bool, from *relay.Consumer) error {
	err := c.Process(c.life, d)
	failed := (*NotProcessed)(nil)
	switch {
	case err == nil:
		if last {
			from.Close()
		}
		_ = d.Ack() // or the relay has noticed, and the delivery comes again
		return nil
	case errors.As(err, &failed):
		if last {
			from.Close()
		}
		_ = d.Nack(failed.Retryable, failed.Reason)
		return nil
	}
	from.Close()
	_ = d.Nack(true, "failed")
	return err
}
