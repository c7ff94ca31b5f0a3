package endpoint

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Farewells tell peers why their new connection is closed. QUIC has a code for that. Over TLS the code is in
// an Error (ErrorProfile), which goes only to a peer that is known to read it: to another one it would be a
// message of an unknown profile. A nil *Farewells tells nobody over TLS.
type Farewells struct {
	// Reads reports whether the peer of an identity reads such an Error. Required.
	Reads func(identity string) bool

	running atomic.Int32
}

// maxFarewells is the number of connections that are told at one time. Others are closed without.
const maxFarewells = 16

// Close closes a connection that has no session, with a code and its meaning. It does not wait.
func (f *Farewells) Close(conn transport.Conn, code uint64, fault *profiles.Error) {
	if f == nil || conn.Multiplexed() || !f.Reads(conn.Peer().Identity) {
		_ = conn.Close(code)
		return
	}
	if f.running.Add(1) > maxFarewells {
		f.running.Add(-1)
		_ = conn.Close(code)
		return
	}
	go func() {
		defer f.running.Add(-1)
		say(conn, code, fault)
		_ = conn.Close(code)
	}()
}

// farewellTime bounds how long a peer has to read why its connection is closed.
const farewellTime = 5 * time.Second

// say sends an Error with a code and waits until the peer has read it, for farewellTime at most: a socket that is
// closed with unread octets sends a reset, which would discard it.
func say(conn transport.Conn, code uint64, fault *profiles.Error) {
	stream, err := conn.Open(context.Background())
	if err != nil {
		return
	}
	limits := e1.Limits{}.WithDefaults()
	env := errorFrame(&e1.Envelope{}, fault, code, &limits)
	env.Version, env.Timestamp = e1.Version, uint64(time.Now().UnixMilli())
	until := time.Now().Add(farewellTime)
	_, _ = stream.SetWriteDeadline(until), stream.SetReadDeadline(until)
	if _, err := stream.Write(env.Append(frame.AppendHeader(nil, env.Size()))); err != nil {
		return
	}
	if stream.CloseWrite() != nil {
		return
	}
	buf := make([]byte, 4096)
	for range 64 {
		if _, err := stream.Read(buf); err != nil {
			return
		}
	}
}

// farewell notes the code with which the peer is about to close the connection, and reports whether env is an
// Error that says one.
func (l *lane) farewell(env *e1.Envelope) bool {
	if env.MsgType != ErrorMsgType || env.Validate(&l.s.opts.Envelope) != nil {
		return false
	}
	_, closes, ok := parseErrorFrame(env.Payload)
	if !ok || closes == 0 {
		return false
	}
	l.s.said.Store(closes)
	return true
}

// ending returns the cause of the end of a session: of an end without a code, the code that the peer has said
// before.
func (s *Session) ending(cause error) error {
	if code := s.said.Load(); code != 0 && OverProfile(cause) {
		return &transport.CloseError{Code: code, Remote: true}
	}
	return cause
}

// turnAway closes a connection for which there is no room, or that has come while the endpoint drains.
func (o *Options) turnAway(conn transport.Conn, draining bool) {
	code, fault := uint64(profiles.RateLimitExceeded), errCrowded
	if draining && o.Draining != 0 && o.Farewells != nil && o.Farewells.Reads(conn.Peer().Identity) {
		code, fault = o.Draining, errDraining
	}
	o.Farewells.Close(conn, code, fault)
}

// errCrowded is the refusal of a connection.
var errCrowded = profiles.Busy("connections", "there is no room for the connection")
