package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// SDLFollower sends a request of A2A-SDL and receives the states of its task, over as many
// connections as necessary. Connect, Request and State are required.
//
// After a lost connection the request is sent again, because an envelope with the same id is
// the same task, and its states then come to the new connection. States that the endpoint has
// stored for the agent in the meantime come from the relay, topic sdl/AGENT, if the endpoint
// lets this side consume it. Without SWP (DialSDL) the endpoint sends them by itself.
type SDLFollower struct {
	// Connect makes a connection with profiles. It is called again after each loss.
	Connect func(ctx context.Context, set *all.Set) (*Client, error)
	Profile SDLOptions // of the profiles; Heard is set by Follow

	Request canonical.Value // of type req
	Form    sdl.Form

	// Seal secures Request each time that it is sent, with another nonce. Nil: Request is
	// sealed already, and sent once. After a lost connection only the relay has its states.
	Seal func(canonical.Value) (canonical.Value, error)

	Trust SDLTrust // in the answer and the states

	// Answered is called with the first answer, State once with each state, in the order in
	// which they come. If one returns an error, Follow ends with that error. Answered may be
	// nil.
	Answered, State func(*sdl.Envelope) error

	// Ignored is called for a state of this task that is not believed. It may be nil.
	Ignored func(error)

	// Silence is how long the endpoint may take to answer; default 10 s. Patience is how
	// long it may be unreachable after its first answer; 0 means no limit.
	Silence, Patience time.Duration

	// Lost is called with the reason why a connection ended and the pause before the next
	// attempt. It may be nil.
	Lost func(err error, pause time.Duration)
}

// ErrSDLFailed is the error of a task whose last state is failed.
var ErrSDLFailed = errors.New("the task has failed")

// Follow returns when the task is completed, or at once if the answer is of another content
// type than state.v1. The error is ErrSDLFailed if the task has failed, that of AskSDL if the
// request was refused, and the cause of ctx if that has ended first.
func (o SDLFollower) Follow(ctx context.Context) error {
	o.Silence = cmp.Or(o.Silence, 10*time.Second)
	f := &following{SDLFollower: o, came: make(chan arrival), shown: make(map[string]bool)}
	var refused *sdl.Error
	if f.asked, refused = sdl.Validate(o.Request, sdl.Options{}); refused != nil {
		return refused
	}
	if f.asked.Trace == nil {
		return errors.New("client: the request has no trace, by whose span_id the states of its task are found")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o.Profile.Heard = func(e *sdl.Envelope) { f.offer(ctx, arrival{e, func(bool) {}}) }
	set, err := NewSDL(o.Profile)
	if err != nil {
		return err
	}
	defer set.Close()
	defer stop() // before set.Close, which waits for events that nobody takes
	f.set, f.leave = set, stop
	connect := func(ctx context.Context) (*Client, error) { return o.Connect(ctx, set) }
	err = again{connect: connect, patience: o.Patience, silence: o.Silence, lost: o.Lost}.run(ctx, f.run)
	if final, ok := errors.AsType[*finalError](err); ok {
		return final.error
	}
	switch {
	case err == nil:
		return f.failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// following is the state of Follow.
type following struct {
	SDLFollower
	set      *all.Set
	asked    *sdl.Envelope
	answered bool
	failed   error // ErrSDLFailed
	leave    context.CancelFunc
	came     chan arrival
	shown    map[string]bool // hashes of the payloads of the states; bounded by maxShown
}

// maxShown bounds the states of one task that are recognised when they come again.
const maxShown = 1024

// arrival is an event from a session or from the relay.
type arrival struct {
	e    *sdl.Envelope
	took func(ours bool) // called when it was processed
}

func (f *following) offer(ctx context.Context, a arrival) {
	select {
	case f.came <- a:
	case <-ctx.Done():
	}
}

// run follows over one connection.
func (f *following) run(ctx context.Context, c *Client, moved func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	again := f.answered
	if !again || f.Seal != nil {
		if over, err := f.ask(ctx, c); err != nil || over {
			return err
		}
	}
	if again {
		end, err := f.consume(ctx, c, stop)
		switch {
		case err == nil:
			defer end()
		case f.Seal == nil || !said(err):
			return err // without the relay there are no states, or the connection has ended
		}
	}
	moved()
	for {
		select {
		case a := <-f.came:
			ours, over, err := f.take(a.e)
			a.took(ours)
			if err != nil {
				return &finalError{err}
			}
			if over {
				f.leave() // nobody takes events from here on
				return nil
			}
		case <-c.Context().Done():
			return c.cause()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask sends the request, and reports whether its answer announces no states.
func (f *following) ask(ctx context.Context, c *Client) (over bool, err error) {
	v := f.Request
	if f.Seal != nil {
		if v, err = f.Seal(v); err != nil {
			return true, &finalError{err}
		}
	}
	asking, cancel := context.WithTimeout(ctx, f.Silence)
	defer cancel()
	answer, err := c.AskSDL(asking, f.Form, v, f.Trust)
	refused, failed := errors.AsType[*SDLError](err)
	switch {
	case f.answered && (failed && refused.Retryable || err != nil && (asking.Err() != nil || c.Context().Err() != nil)):
		c.Close() // it is tried again over another connection
		return false, err
	case answer != nil && !f.answered && f.Answered != nil:
		if shown := f.Answered(answer); shown != nil {
			err = shown
		}
	}
	if err != nil {
		return true, &finalError{err}
	}
	f.answered = true
	return answer.CT != sdl.CTState, nil
}

// take processes an event: ours reports whether it is a state of the task, over whether it is
// the last one.
func (f *following) take(e *sdl.Envelope) (ours, over bool, err error) {
	if e.CT != sdl.CTState || e.Trace == nil || e.Trace.ParentSpanID != f.asked.Trace.SpanID {
		return false, false, nil
	}
	e, err = f.believe(e)
	if err != nil {
		if f.Ignored != nil {
			f.Ignored(err)
		}
		return false, false, nil
	}
	if key := canonical.Hash(e.Payload); !f.shown[key] {
		if len(f.shown) < maxShown {
			f.shown[key] = true
		}
		if err := f.State(e); err != nil {
			return true, true, err
		}
	}
	for op := range e.Payload.Get("patch").All() {
		if path, _ := op.Get("path").Text(); path != "/status" {
			continue
		}
		switch status, _ := op.Get("value").Text(); status {
		case "completed":
			return true, true, nil
		case "failed":
			f.failed = ErrSDLFailed
			return true, true, nil
		}
	}
	return true, false, nil
}

// believe checks that a state is between the two agents of the request, and its signature. It
// returns the state in clear.
func (f *following) believe(e *sdl.Envelope) (*sdl.Envelope, error) {
	if e.From.AgentID != f.asked.To.AgentID || e.To.AgentID != f.asked.From.AgentID {
		return nil, fmt.Errorf("client: state from %.100q to %.100q, want from %.100q to %.100q",
			e.From.AgentID, e.To.AgentID, f.asked.To.AgentID, f.asked.From.AgentID)
	}
	return f.Trust.open(e)
}

// consume offers the events that the endpoint has stored for the agent, until end is called.
func (f *following) consume(ctx context.Context, c *Client, stop context.CancelCauseFunc) (end func(), err error) {
	ended := func(error) {}
	if c.way != nil { // stored events come by themselves
		_, err := c.appear(ctx, f.asked.From.AgentID, f.asked.To.AgentID)
		return func() {}, err
	}
	if f.Seal == nil {
		ended = stop // the states come from nowhere else
	}
	return c.storedSDL(ctx, f.asked.From.AgentID, f.Silence, f.offer, ended)
}

// storedSDL offers the events that the endpoint has stored for an agent, one after the other,
// until end is called or the relay stops, which calls ended.
func (c *Client) storedSDL(
	ctx context.Context, agent string, silence time.Duration, offer func(context.Context, arrival), ended func(error),
) (end func(), err error) {
	opening, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	from, err := c.set.Relay.Consume(opening, c.peer, carriage.Topic+agent, 1)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	var pumping sync.WaitGroup
	pumping.Go(func() {
		for {
			d, err := from.Recv(ctx)
			if err != nil {
				ended(err)
				return
			}
			e, refused := readSDL(d.Payload)
			if refused != nil || e.Type != sdl.TypeEvt {
				_ = d.Nack(true, "no_event")
				continue
			}
			offer(ctx, arrival{e, func(ours bool) { answerDelivery(d, ours) }})
		}
	})
	return func() {
		stop()
		from.Close()
		pumping.Wait()
	}, nil
}

// answerDelivery acknowledges a delivery, or returns it to the relay. If that fails, the relay
// delivers it again.
func answerDelivery(d *relay.Delivery, ours bool) {
	if ours {
		_ = d.Ack()
		return
	}
	_ = d.Nack(true, "another_task")
}
