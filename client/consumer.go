package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles/relay"
)

// Consumer processes the deliveries of a topic, over as many connections as necessary.
// Connect, Topic and Process are required.
type Consumer struct {
	// Connect makes a connection. It is called again after each loss.
	Connect Dialer
	Topic   string

	// Process is called for each delivery. If it returns nil, the delivery is acknowledged;
	// with a *NotProcessed it is rejected or returned for another attempt. Any other error
	// returns the delivery to the relay and ends Consume with that error. ctx ends at the
	// end of Drain. A delivery may arrive more than once, but never while it is being
	// processed here.
	Process func(ctx context.Context, d *relay.Delivery) error

	// MaxInFlight is how many unanswered deliveries the relay may send; 0 leaves that to
	// the relay. Parallel is how many are processed at the same time; default 1, which
	// keeps their order.
	MaxInFlight, Parallel int

	// Count is how many deliveries are processed before Consume ends; 0 means no limit.
	// With a MaxInFlight of 1 the relay sends no more than these. Otherwise further
	// deliveries may arrive and are returned, which counts as an attempt.
	Count uint64

	// Patience is how long the relay may be unreachable after it has confirmed the topic
	// once. Zero means no limit.
	Patience time.Duration

	// Silence is how long the relay may take to answer a request for a sign of life;
	// default 10 s.
	Silence time.Duration

	// Drain is how much time deliveries being processed have after the end of ctx; default
	// 30 s. Closing Abort ends that time at once.
	Drain time.Duration
	Abort <-chan struct{}

	// Attached is called when the relay has confirmed the topic. Lost is called when the
	// connection is lost, with the reason and the pause before the next attempt. Either may
	// be nil.
	Attached func(c *Client)
	Lost     func(err error, pause time.Duration)
}

// NotProcessed says that a delivery was not processed.
type NotProcessed struct {
	Retryable bool   // another attempt may succeed
	Reason    string // one word for the relay
}

func (e *NotProcessed) Error() string { return "not processed: " + e.Reason }

// Consume processes deliveries until ctx ends or Count is reached. Neither is an error.
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
	err := again{connect: o.Connect, patience: o.Patience, silence: o.Silence, lost: o.Lost, about: o.Topic}.run(ctx, c.run)
	if ctx.Err() != nil && !errors.As(err, new(*finalError)) {
		return nil
	}
	return err
}

// consuming is the state of Consume.
type consuming struct {
	Consumer
	life context.Context // of calls of Process
	came uint64
}

// run consumes over one connection. It returns after every received delivery has been
// processed, so that no delivery is processed twice at the same time.
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

// ended returns the error of Process that ends a connection, if there is one.
func ended(ctx, receiving context.Context) error {
	if ctx.Err() == nil && receiving.Err() != nil {
		return context.Cause(receiving)
	}
	return nil
}

// process processes a delivery and answers it. After the last wanted delivery it first
// tells the relay to send no more, and then answers.
func (c *consuming) process(d *relay.Delivery, last bool, from *relay.Consumer) error {
	err := c.Process(c.life, d)
	failed := (*NotProcessed)(nil)
	switch {
	case err == nil:
		if last {
			from.Close()
		}
		_ = d.Ack() // if it fails, the relay delivers again
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
