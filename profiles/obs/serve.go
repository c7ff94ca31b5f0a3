package obs

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// serve handles one message.
func (c *Contexts) serve(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeSet:
		return c.set(req)
	case TypeGet:
		return c.get(req, w)
	}
	// An answer without a call: if it is well formed, it is counted and dropped.
	return check(&req.Envelope)
}

func (c *Contexts) set(req *profiles.Request) error {
	var in Set
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	if err := c.allowed(req, "set"); err != nil {
		return err
	}
	if max(len(in.MsgID), len(in.TaskID), len(in.RPCID)) > MaxID {
		return profiles.Errorf(profiles.InvalidProfilePayload, "obs: an id of more than %d octets", MaxID)
	}
	if len(in.Traceparent) > MaxTraceparent || len(in.Tracestate) > MaxTracestate {
		// Too long to copy. Check returns the fault.
		return Check(profiles.Trace{Parent: string(in.Traceparent), State: string(in.Tracestate)})
	}
	s := set{
		trace: profiles.Trace{Parent: string(in.Traceparent), State: string(in.Tracestate)},
		msg:   string(in.MsgID), task: string(in.TaskID), call: string(in.RPCID),
	}
	if err := Check(s.trace); err != nil {
		return err
	}
	c.table.enter(req.Session).set(s)
	return nil
}

func (c *Contexts) get(req *profiles.Request, w profiles.Responder) error {
	if err := new(Get).Decode(req.Payload); err != nil {
		return err
	}
	if err := c.allowed(req, "get"); err != nil {
		return err
	}
	var last set
	if conn := c.table.Find(req.Session); conn != nil {
		last = conn.get()
	}
	out := Doc{fields(last.trace, IDs{[]byte(last.msg), []byte(last.task), []byte(last.call)})}
	return w.Finish(e1.Envelope{MsgType: TypeDoc, Payload: out.Append(req.Scratch(out.Size()))})
}

func (c *Contexts) allowed(req *profiles.Request, operation string) error {
	if req.May(c.access, c.profile.Name, operation, "") {
		return nil
	}
	return &profiles.Error{Code: profiles.SecurityPolicy, Detail: "access", Text: "obs: " + operation + " is not allowed", Denied: true}
}

// check returns an error for a malformed answer.
var check = p1.WellFormed(Messages)

// refusals are the OBS_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeSet, TypeGet},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Own: p1.OneOf(CodeTraceparent, CodeTracestate),
}
