package profiles

import (
	"context"

	"github.com/slimwire/swp/e1"
)

// Carrier is something that travels with messages and is no part of them, such as a
// trace context, hints, or credentials: a peer sets it by messages of a profile, and it
// goes on with what is done for that peer. It is safe for concurrent use.
type Carrier interface {
	// Attach returns ctx with what the peer has set for a message, or ctx itself if
	// that is nothing. It is called on the read loop before the handler of an
	// initiating message, and must not block. req is valid until it returns.
	Attach(ctx context.Context, p *Profile, req *Request) context.Context

	// Forward sends on a lane what ctx carries for a message, ahead of that message,
	// and returns the context to send it in. It waits where the message is not to be
	// sent before the other end has taken what goes ahead; after an error the message
	// is not sent. An *Error that is not retryable will be the same each time.
	Forward(ctx context.Context, lane Lane, m *Onward) (context.Context, error)
}

// Onward names a message that goes on to another endpoint. What has neither a MsgID nor
// an ID would hold for the whole connection.
type Onward struct {
	MsgID []byte // of the message; empty if it is not known yet
	Name  string // that Access is asked about for what the message asks for
	Scope string // of the lifecycle that it opens, as Profile has it; empty: it opens none
	ID    []byte // of that lifecycle, such as its task_id
}

// Carriers are several, in the order in which what they carry goes ahead. None of them
// is a Carrier that carries nothing.
type Carriers []Carrier

// Attach implements Carrier.
func (c Carriers) Attach(ctx context.Context, p *Profile, req *Request) context.Context {
	for _, one := range c {
		ctx = one.Attach(ctx, p, req)
	}
	return ctx
}

// Forward implements Carrier.
func (c Carriers) Forward(ctx context.Context, lane Lane, m *Onward) (context.Context, error) {
	for _, one := range c {
		var err error
		if ctx, err = one.Forward(ctx, lane, m); err != nil {
			return nil, err
		}
	}
	return ctx, nil
}

// carried is what travels with what is done in a context.
type carried struct {
	trace      Trace
	hints      []Hint
	delegation *Delegation
	refusal    error  // of a message that names a chain without having its delegation
	chain      string // chain_id that calls name
}

type carriedKey struct{}

func carriedBy(ctx context.Context) carried {
	if c, ok := ctx.Value(carriedKey{}).(*carried); ok {
		return *c
	}
	return carried{}
}

// in returns ctx with c in place of what it carries.
func (c carried) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, carriedKey{}, &c)
}

// WithForward returns ctx for one Call of a Lane or a Session, ahead of which c forwards
// what ctx carries, for its msg_id. m says the rest; lifecycle reads the ID from the
// request as Profile.Lifecycle does, and nil leaves it as m has it. It is ctx itself if
// that carries nothing.
func WithForward(ctx context.Context, c Carrier, m Onward, lifecycle func(*e1.Envelope) []byte) context.Context {
	if ctx.Value(carriedKey{}) == nil {
		return ctx
	}
	return WithAhead(ctx, func(ctx context.Context, lane Lane, env *e1.Envelope) error {
		m := m
		m.MsgID = env.MsgID
		if lifecycle != nil {
			m.ID = lifecycle(env)
		}
		on, err := c.Forward(ctx, lane, &m)
		if err != nil {
			return err
		}
		if chain := carriedBy(on).chain; chain != carriedBy(ctx).chain {
			env.Extensions = e1.AppendExtension(env.Extensions, ExtChain, []byte(chain))
		}
		return nil
	})
}
