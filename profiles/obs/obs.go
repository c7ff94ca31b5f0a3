// Package obs is the OBS profile: trace contexts that join up.
//
//	SET              binds a W3C trace context to an exchange, or to the connection
//	GET → DOC | ERR  the last SET that was read on this connection
//
// A SET names the exchange by its msg_id, or by the task_id or rpc_id of the
// lifecycle that it belongs to, and goes ahead of it on the same lane, because it
// takes effect when it is read. Without ids it is for every exchange of the
// connection that has no context of its own. A SET without a traceparent takes
// back what was bound in the same way. Contexts are kept octet for octet.
//
// Bindings belong to the connection: no other one sees them, and they end with
// it. Each connection remembers at most 1,024 exchanges, or 1 MiB with overhead,
// and forgets the oldest first. All together remember 64 MiB; beyond that a
// connection remembers its latest exchange only.
//
// New is the serving side. Its Attach puts the context of an exchange where
// handlers find it, profiles.TraceOf, once an endpoint asks for it:
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

// New returns the contexts of an endpoint, none yet.
func New(opts Options) *Contexts {
	c := &Contexts{access: opts.Access}
	if c.access == nil {
		c.access = profiles.Everyone
	}
	c.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeSet, Name: "OBS_SET", Role: profiles.Initiating},
			{ID: TypeGet, Name: "OBS_GET", Role: profiles.Initiating},
			{ID: TypeDoc, Name: "OBS_DOC", Role: profiles.Answer},
			{ID: TypeErr, Name: "OBS_ERR", Role: profiles.Answer},
		},
		Operations: []profiles.Operation{
			{Name: "set"},
			{Name: "get"},
		},
		Show:    p1.Show(Messages),
		Handler: profiles.HandlerFunc(c.serve),
		Check:   check,
		Refusal: refusals.Refusal,
	}
	return c
}

// Profile returns the profile that sets them.
func (c *Contexts) Profile() *profiles.Profile { return c.profile }

// Trace returns the trace context of an exchange: what is bound to its msg_id,
// else to the key of its lifecycle, which may be empty, else to the connection.
// It is false if there is none. Where nothing was ever set it costs next to
// nothing.
func (c *Contexts) Trace(session profiles.Session, msgID, lifecycle []byte) (profiles.Trace, bool) {
	conn := c.table.Find(session)
	if conn == nil {
		return profiles.Trace{}, false
	}
	return conn.trace(msgID, func() []byte { return lifecycle })
}

// Of is Trace for a message of a profile, whose Lifecycle is asked only if that
// makes a difference.
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

// lifecycle asks the profile for the key of a message. It is asked on the read
// loop, before anyone looked at the payload: one that panics has none.
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
