// Package obs is the OBS profile: trace contexts of peers.
//
//	SET              binds a W3C trace context to an exchange, or to the connection
//	GET → DOC | ERR  the last SET that was read on this connection
//
// A SET identifies the exchange by its msg_id, or by the task_id or rpc_id of its
// lifecycle. It must precede the exchange on the same lane, because it takes effect when it
// is read. Without ids it applies to every exchange of the connection without another
// context. A SET without a traceparent removes the binding. Contexts are kept unchanged.
//
// Bindings belong to the connection: they are not visible to others, and end with it. Each
// connection stores at most 1,024 exchanges, or 1 MiB with overhead, and removes the oldest
// first. All connections together store 64 MiB, which their identities share; beyond its
// share a connection stores only its latest exchange.
//
// New is the serving side. Its Attach puts the trace context of an exchange into the
// context of the handler, profiles.TraceOf, if an endpoint uses it:
//
//	endpoint.Options{Tracer: endpoint.ContextFunc(contexts.Attach)}
//
// Send, Bind, Last and Contexts.Forward are the calling side.
//
// Specification: SWP profiles §18, W3C Trace Context.
package obs

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of OBS, Name its short name.
const (
	ProfileID = 18
	Name      = "obs"
)

// Options configure the serving side.
type Options struct {
	// Access is asked for the operations set and get. Nil denies nothing.
	Access profiles.Access
}

// Contexts are the trace contexts of the connections of one endpoint. They are
// safe for concurrent use.
type Contexts struct {
	access  profiles.Access
	profile *profiles.Profile
	table   table
}

// New returns the contexts of an endpoint, initially none.
func New(opts Options) *Contexts {
	c := &Contexts{access: opts.Access}
	if c.access == nil {
		c.access = profiles.Everyone
	}
	c.table.octets.Bound(maxAllOctets)
	c.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeSet, Name: "OBS_SET", Role: profiles.Initiating},
			{ID: TypeGet, Name: "OBS_GET", Role: profiles.Initiating},
			{ID: TypeDoc, Name: "OBS_DOC", Role: profiles.Answer | profiles.Lone},
			{ID: TypeErr, Name: "OBS_ERR", Role: profiles.Answer | profiles.Lone},
		},
		Operations: []profiles.Operation{
			{Name: "set"},
			{Name: "get"},
		},
		Show:    p1.Show(Messages),
		Inert:   true,
		Handler: profiles.HandlerFunc(c.serve),
		Check:   check,
		Refusal: refusals.Refusal,
	}
	return c
}

// Profile returns the profile by which peers set them.
func (c *Contexts) Profile() *profiles.Profile { return c.profile }

// Trace returns the trace context of an exchange: the one bound to its msg_id, else to the
// key of its lifecycle, if not empty, else to the connection. It returns false
// without one. On a connection without contexts it is cheap.
func (c *Contexts) Trace(session profiles.Session, msgID, lifecycle []byte) (profiles.Trace, bool) {
	conn := c.table.Find(session)
	if conn == nil {
		return profiles.Trace{}, false
	}
	return conn.trace(msgID, func() []byte { return lifecycle })
}

// Of is Trace for a message of a profile. It calls Lifecycle only if a context may be bound
// to the key.
func (c *Contexts) Of(p *profiles.Profile, req *profiles.Request) (profiles.Trace, bool) {
	conn := c.table.Find(req.Session)
	if conn == nil {
		return profiles.Trace{}, false
	}
	return conn.trace(req.MsgID, func() []byte { return lifecycle(p, &req.Envelope) })
}

// Attach returns ctx with the trace context of a message, or ctx unchanged.
func (c *Contexts) Attach(ctx context.Context, p *profiles.Profile, req *profiles.Request) context.Context {
	t, ok := c.Of(p, req)
	if !ok {
		return ctx
	}
	return profiles.WithTrace(ctx, t)
}

// lifecycle returns the key of a message from its profile. It runs on the read loop, before
// the payload was checked: if the profile panics, there is no key.
func lifecycle(p *profiles.Profile, env *e1.Envelope) (key []byte) {
	if p.Lifecycle == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			key = nil
		}
	}()
	return p.Lifecycle(env)
}
