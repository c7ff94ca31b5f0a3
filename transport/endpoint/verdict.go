package endpoint

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Observer is told what happens. Its methods are called from many goroutines
// at once, often on a read loop, and must not block. What they are given is
// valid until they return.
type Observer interface {
	// Verdict is called exactly once for every frame received, good or bad,
	// when it is known how it ended: at once for what is refused or answered
	// inline, at the end of the exchange for detached and held requests. So
	// verdicts of one stream need not arrive in the order of Seq.
	Verdict(v Verdict)

	// Security is called for each S1 failure on an established connection.
	// What fails before that is reported by the listener.
	Security(ev transport.SecurityEvent)

	// Opened is called when a session starts, Closed when it ended, with why.
	// Every Opened is followed by one Closed.
	Opened(s *Session)
	Closed(s *Session, cause error)

	// Refused is called for a connection that was closed unserved: a bound was
	// reached, Options.Admit said no, or the endpoint is shutting down.
	Refused(peer *transport.Peer)
}

// Verdict is how one received message ended. It is what logs, metrics, the
// audit trail and the vector runner read.
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

	// Reject says that the message was refused as a violation and charged to
	// the error budget. It is false for OK and for failures that the profile
	// defines as ordinary answers.
	Reject bool

	// Action is what the refusal did to the stream or connection.
	Action Action

	// What is known of the envelope. Zero where the frame did not get that far.
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
