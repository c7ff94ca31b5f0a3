package obs

import (
	"context"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// serve handles one message.
func (c *Contexts) serve(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeSet:
		return c.set(req)
	case TypeGet:
		return c.get(req, w)
	}
	// An answer to no call of ours: well formed it is counted and dropped.
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
		// Not worth a copy. Check says which it is.
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

// check says whether an answer is well formed.
func check(env *e1.Envelope) error {
	if env.MsgType == TypeDoc {
		return new(Doc).Decode(env.Payload)
	}
	return new(Err).Decode(env.Payload)
}

// maxText bounds the message of an OBS_ERR, so that as a frame it has 512
// octets at most.
const maxText = 256

// refusal builds the OBS_ERR for a SET or GET that was refused. There is none
// for a msg_id that is in use: it would be read as the answer to what is using
// it.
func refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	if req.MsgType != TypeSet && req.MsgType != TypeGet || fault.Code == profiles.DuplicateMsgID {
		return e1.Envelope{}, false
	}
	code := fault.Code.Alias()
	if fault.Detail == CodeTraceparent || fault.Detail == CodeTracestate {
		code = fault.Detail
	}
	text := []byte(fault.Text)
	if len(text) > maxText {
		n := maxText
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	m := Err{Code: []byte(code), Message: text}
	return e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))}, true
}
