package endpoint

import (
	"github.com/slimwire/swp/profiles"
)

// Verdict says how one received message ended. Logs, metrics, the audit trail and the
// vector runner read it.
type Verdict struct {
	Session *Session
	Lane    uint64 // which stream of the session, from 1 in order of appearance
	Seq     uint64 // which frame of that stream, from 1

	// Code is the canonical code, OK if the message was accepted. Detail is the
	// finer name, such as ERR_FRAME_TOO_LARGE, or a short word from a fixed set
	// ("unsolicited", "draining"); it may be empty.
	Code   profiles.Code
	Detail string
	Err    error // why, for the log; nil if Code is OK

	// Reject says that the message was refused as a violation and charged to the error
	// budget. It is false for OK and for failures that the profile defines as ordinary
	// answers.
	Reject bool

	// Action is what the refusal did to the stream or connection.
	Action Action

	// The envelope, up to the decoded part; the other fields are zero.
	ProfileID uint64
	MsgType   uint64
	Flags     uint64
	MsgID     []byte // a window, valid until Verdict returns
	Bytes     int    // size of the frame, prefix included
}

// Action is what a refusal did.
type Action uint8

// Actions, in order of severity.
const (
	Kept   Action = iota // the stream goes on
	Reset                // the stream was reset, the connection goes on (QUIC)
	Closed               // the connection was closed
)

func (a Action) String() string {
	switch a {
	case Reset:
		return "reset"
	case Closed:
		return "closed"
	}
	return "kept"
}

// verdict reports how the message being served ended.
func (l *lane) verdict(code profiles.Code, detail string, err error, reject bool, action Action) {
	env := &l.req.Envelope
	v := Verdict{
		Session: l.s, Lane: l.id, Seq: l.seq,
		Code: code, Detail: detail, Err: err, Reject: reject, Action: action,
		ProfileID: env.ProfileID, MsgType: env.MsgType, Flags: env.Flags, MsgID: env.MsgID, Bytes: l.size,
	}
	l.s.opts.Observer.Verdict(v)
	if ended := l.traced; ended != nil {
		l.traced = nil
		ended(v)
	}
	l.s.report(&l.account, &l.req, &v, l.reqCtx, false)
	l.account.forget()
}
