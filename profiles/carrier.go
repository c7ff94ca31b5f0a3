package profiles

import (
	"context"

	"github.com/slimwire/swp/e1"
)

// Carrier transports data that accompanies messages without being part of them: a trace
// context, hints, or credentials. A peer sets this data by messages of a profile; it is
// forwarded with the work that is done for that peer. A Carrier is safe for concurrent use.
type Carrier interface {
	// Attach returns ctx with the data that the peer has set for a message, or ctx itself
	// if there is none. It is called on the read loop before the handler of an initiating
	// message, and must not block. req is valid until it returns.
	Attach(ctx context.Context, p *Profile, req *Request) context.Context

	// Forward sends the data that ctx carries on a lane, ahead of message m, and returns
	// the context in which to send m. It waits if m may only be sent after the other end
	// has accepted the data. After an error m must not be sent. An *Error that is not
	// retryable is permanent.
	Forward(ctx context.Context, lane Lane, m *Onward) (context.Context, error)
}

// Onward describes a message that is forwarded to another endpoint. Data for an Onward
// without MsgID and ID would apply to the whole connection.
type Onward struct {
	MsgID []byte // of the message; empty if it is not known yet
	Name  string // the name for the access rules
	Scope string // Profile.Scope of the lifecycle that it opens; empty: it opens none
	ID    []byte // of that lifecycle, such as its task_id
}

// Carriers are several Carriers; their data is sent in this order. A Carrier in the list
// must not be nil.
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

// ChainUnheld is the Text for a message under a chain that the next endpoint would not look at.
const ChainUnheld = "the next endpoint does not check credentials of messages of this kind"

var errUnheld = &Error{
	Code: SecurityPolicy, Detail: ErrChain.Detail, Domain: true, Text: ChainUnheld,
}

// carried is the data that a context carries.
type carried struct {
	trace      Trace
	hints      []Hint
	policy     Policy // of the endpoint where the hints were set; nil elsewhere
	delegation *Delegation
	refusal    error  // of a message that names a chain without having its delegation
	chain      string // chain_id that calls name
	endToEnd   EndToEnd
}

type carriedKey struct{}

func carriedBy(ctx context.Context) carried {
	if c, ok := ctx.Value(carriedKey{}).(*carried); ok {
		return *c
	}
	return carried{}
}

// in returns ctx with c as its data.
func (c carried) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, carriedKey{}, &c)
}

// Carrying returns ctx with the data that another context carries.
func Carrying(ctx, from context.Context) context.Context {
	if c := from.Value(carriedKey{}); c != nil {
		return context.WithValue(ctx, carriedKey{}, c)
	}
	return ctx
}

// WithForward returns ctx for one Call or Send of a Lane or a Session that forwards the message
// of ctx. Before the request c, if not nil, forwards the data that ctx carries, for the
// msg_id of the request. m has the other fields; if lifecycle is not nil, it reads the ID
// from the request (see Profile.Lifecycle). The request gets the EndToEnd of ctx. If ctx
// carries no data, the result is ctx.
func WithForward(ctx context.Context, c Carrier, m Onward, lifecycle func(*e1.Envelope) []byte) context.Context {
	if ctx.Value(carriedKey{}) == nil {
		return ctx
	}
	return WithAhead(ctx, func(ctx context.Context, lane Lane, env *e1.Envelope) error {
		carriedBy(ctx).endToEnd.Put(env)
		if c == nil {
			return nil
		}
		m := m
		m.MsgID = env.MsgID
		if lifecycle != nil {
			m.ID = lifecycle(env.Joined())
		}
		on, err := c.Forward(ctx, lane, &m)
		if err != nil {
			return err
		}
		if chain := carriedBy(on).chain; chain != carriedBy(ctx).chain {
			if HeedsOn(lane, 0, ExtEndpoint) && !HeedsOn(lane, 0, ExtChain) && !HeedsOn(lane, env.ProfileID, ExtChain) {
				return errUnheld // an endpoint of an earlier version, which has said what it supports
			}
			env.Extensions = e1.AppendExtension(env.Extensions, ExtChain, []byte(chain))
		}
		return nil
	})
}
