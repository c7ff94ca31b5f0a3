package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// cancelWait bounds how long Close waits for a slow peer to receive the RPC_CANCEL.
const cancelWait = time.Second

// Call calls a method and returns its result, which the caller owns. Stream items are
// dropped. The error is an *Error if the method failed, an *profiles.Error if either side
// refused a message, or that of ctx. If ctx ends, the call is cancelled at the peer.
func Call(ctx context.Context, on profiles.Caller, method string, params []byte) ([]byte, error) {
	return Invocation{Method: method, Params: params}.Call(ctx, on)
}

// CallJSON is Call for a method whose params and result are JSON. Params that are nil are
// empty. The error is that of Call, or names the method if the result is not JSON of its
// type.
func CallJSON(ctx context.Context, on profiles.Caller, method string, params, result any) (err error) {
	var octets []byte
	if params != nil {
		if octets, err = json.Marshal(params); err != nil {
			return fmt.Errorf("rpc: %s: %w", method, err)
		}
	}
	if octets, err = Call(ctx, on, method, octets); err != nil {
		return err
	}
	if err := json.Unmarshal(octets, result); err != nil {
		return &profiles.Error{Code: profiles.InvalidProfilePayload, Text: "rpc: " + method + ": the result is not the JSON of the method", Cause: err}
	}
	return nil
}

// Sync returns after the peer has processed and committed all earlier messages of a lane.
func Sync(ctx context.Context, lane profiles.Lane) error { return SyncOf(ctx, lane) }

// SyncOf is Sync for at most MaxSync earlier messages of the lane, by their msg_ids. It
// does not wait for others on the same stream, unless the peer does not support msg_ids.
func SyncOf(ctx context.Context, lane profiles.Lane, of ...[]byte) error {
	var params []byte
	for _, id := range of {
		params = e1.AppendBytes(params, id)
	}
	_, err := Call(ctx, profiles.Near(lane), MethodSync, params)
	return err
}

// Open calls a method and returns the stream of its answers. The caller closes
// it.
func Open(ctx context.Context, on profiles.Caller, method string, params []byte) (*Stream, error) {
	return Invocation{Method: method, Params: params}.Open(ctx, on)
}

// Invocation is a call with all options.
type Invocation struct {
	Method string
	Params []byte

	// IdempotencyKey, if set, makes the method run once for all identical calls with the
	// key within the replay window of the peer.
	IdempotencyKey string

	// Deadline is sent to the peer, which ends the call with an *Error of CodeTimeout when
	// it has passed. Zero means none. It is in milliseconds, counted from when the peer
	// reads the request.
	Deadline time.Duration

	// Extensions are sent with the request, after the extensions of this package.
	Extensions e1.Extensions
}

// Call is like the function Call.
func (c Invocation) Call(ctx context.Context, on profiles.Caller) ([]byte, error) {
	s := new(Stream)
	if err := c.open(ctx, on, s, nil); err != nil {
		return nil, err
	}
	defer s.Close()
	result, err := s.finish(ctx)
	return bytes.Clone(result), err
}

// Caller makes one call after the other and reuses its memory, which it keeps. It is for programs that
// make many calls. One goroutine at a time may use it.
type Caller struct {
	on     profiles.Caller
	stream Stream
	result []byte // the last one, if it was small
	lent   bool   // the last one is in the memory of stream
}

// smallResult is the size up to which a Caller copies a result.
const smallResult = 1 << 10

// NewCaller returns a Caller for a session or a lane.
func NewCaller(on profiles.Caller) *Caller { return &Caller{on: on} }

// Call is like the function Call, but the result is valid until the next Call or Close. Until then
// its octets count as in flight.
func (c *Caller) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	c.Close()
	s := &c.stream
	if err := (Invocation{Method: method, Params: params}).open(ctx, c.on, s, nil); err != nil {
		return nil, err
	}
	result, err := s.finish(ctx)
	switch {
	case err != nil:
		result = nil
	case len(result) > smallResult:
		c.lent = true
		return result, nil
	default:
		c.result = append(c.result[:0], result...)
		result = c.result
	}
	s.Close()
	return result, err
}

// Close gives back the memory of the last result. The Caller can be used again.
func (c *Caller) Close() {
	if c.lent {
		c.lent = false
		c.stream.Close()
	}
}

// Stream is the calling side of one call. One goroutine at a time may use it.
type Stream struct {
	call   profiles.Call
	lane   profiles.Lane // opened for the call, or nil
	rpcID  [16]byte
	small  [160]byte // a request that fits, so that a call is one allocation
	large  []byte    // one that does not fit, kept for the next
	ext    [8]byte   // extension with the window
	seq    uint64    // of the last item
	begun  bool      // an item has arrived
	last   bool      // no item may follow
	over   bool      // RESP or ERR has arrived, or no answer can arrive any more
	given  bool      // RPC_CANCEL was sent
	result []byte
	keeps  profiles.EndToEnd // of the last answer
	err    error             // what Recv returns from now on
}

// Open is like the function Open.
//
// A method that can wait does so while items are not received, without an effect on other calls.
// The items of another one, above 1,024, end the call with an *profiles.Error of RateLimitExceeded.
func (c Invocation) Open(ctx context.Context, on profiles.Caller) (*Stream, error) {
	s := new(Stream)
	if session, ok := on.(profiles.Session); ok { // a separate lane takes confirmations
		lane, err := session.Open(ctx)
		if err != nil {
			return nil, err
		}
		s.lane, on = lane, lane
	}
	if err := c.open(ctx, on, s, e1.AppendExtensionUvarint(s.ext[:0], ExtWindow, callWindow)); err != nil {
		s.close()
		return nil, err
	}
	s.large = nil // the stream may last for long
	return s, nil
}

// close closes the lane of the call.
func (s *Stream) close() {
	if s.lane != nil {
		_ = s.lane.Close()
	}
}

// open makes s the stream of a call, with extensions before those of c. Its last call is over.
func (c Invocation) open(ctx context.Context, on profiles.Caller, s *Stream, ext e1.Extensions) error {
	s.seq, s.begun, s.last, s.over, s.given = 0, false, false, false, false
	s.result, s.keeps, s.err = nil, profiles.EndToEnd{}, nil
	// An rpc_id must only be unique on this connection.
	binary.NativeEndian.PutUint64(s.rpcID[:], rand.Uint64())  //nolint:gosec // no secret
	binary.NativeEndian.PutUint64(s.rpcID[8:], rand.Uint64()) //nolint:gosec // no secret
	req := Req{RPCID: s.rpcID[:], Method: []byte(c.Method), Params: c.Params, IdempotencyKey: []byte(c.IdempotencyKey)}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeReq}
	apart := c.IdempotencyKey == "" // then params end the payload, and are not copied
	n := req.Size()
	if apart {
		n -= len(c.Params)
	}
	payload := s.small[:0]
	if n > len(s.small) {
		s.large = slices.Grow(s.large[:0], n)
		payload = s.large
	}
	if apart {
		env.Payload, env.Tail = req.appendHead(payload), c.Params
	} else {
		env.Payload = req.Append(payload)
	}
	env.Extensions = ext
	if c.Deadline > 0 {
		env.Extensions = e1.AppendExtensionUvarint(env.Extensions, profiles.ExtDeadline, uint64(max(1, c.Deadline.Milliseconds())))
	}
	env.Extensions = append(env.Extensions, c.Extensions...)
	var err error
	s.call, err = on.Call(ctx, env)
	return err
}

// finish receives the result of the call, valid until Close. Stream items are dropped.
func (s *Stream) finish(ctx context.Context) ([]byte, error) {
	for {
		switch _, err := s.Recv(ctx); {
		case errors.Is(err, io.EOF):
			return s.result, nil
		case err != nil:
			return nil, err
		}
	}
}

// RPCID is the rpc_id of the call.
func (s *Stream) RPCID() []byte { return bytes.Clone(s.rpcID[:]) }

// Recv returns the next item, valid until the next call of Recv or Close. At the end of a
// successful call the error is io.EOF, and Result returns its result; other errors are
// those of Call. Errors except that of ctx are permanent.
func (s *Stream) Recv(ctx context.Context) ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	env, err := s.call.Recv(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.over, s.err = true, err
		}
		return nil, err
	}
	s.keeps = profiles.EndToEndOf(env)
	item, err := s.answer(env)
	if err == nil {
		s.confirm(ctx, env.Extensions)
	}
	s.err = err
	return item, err
}

// confirm tells the peer that the items up to this one were taken, if it asks for that. If it
// cannot be sent, the connection has ended, and the call with it.
func (s *Stream) confirm(ctx context.Context, ext e1.Extensions) {
	if mark, ok := ext.LookupUvarint(ExtWindow); ok {
		m := Cancel{RPCID: s.rpcID[:]}
		_ = s.call.Lane().Send(ctx, e1.Envelope{
			ProfileID: ProfileID, MsgType: TypeCancel, Payload: m.Append(make([]byte, 0, m.Size())),
			Extensions: e1.AppendExtensionUvarint(nil, ExtTaken, mark),
		})
	}
}

// answer reads one answer. A violation of §12 is an error and leaves the call open, so that
// Close cancels it.
func (s *Stream) answer(env *e1.Envelope) ([]byte, error) {
	switch env.MsgType {
	case TypeResp:
		var m Resp
		if err := m.Decode(env.Payload); err != nil {
			return nil, err
		}
		if !bytes.Equal(m.RPCID, s.rpcID[:]) {
			return nil, violation("answer has the rpc_id of another call")
		}
		s.over, s.result = true, m.Result
		return nil, io.EOF
	case TypeErr:
		var m Err
		if err := m.Decode(env.Payload); err != nil {
			return nil, err
		}
		if !bytes.Equal(m.RPCID, s.rpcID[:]) {
			return nil, violation("answer has the rpc_id of another call")
		}
		s.over = true
		author, _ := env.Extensions.Lookup(profiles.ExtEndpoint)
		return nil, &Error{Code: string(m.ErrorCode), Message: string(m.ErrorMessage), Retryable: m.Retryable, Endpoint: string(author), Keeps: s.keeps}
	}
	var m StreamItem
	if err := m.Decode(env.Payload); err != nil {
		return nil, err
	}
	switch {
	case !bytes.Equal(m.RPCID, s.rpcID[:]):
		return nil, violation("answer has the rpc_id of another call")
	case s.last:
		return nil, violation("stream item after the terminal one")
	case s.begun && m.SeqNo <= s.seq:
		return nil, profiles.Errorf(profiles.InvalidProfilePayload, "rpc: stream item %d after %d", m.SeqNo, s.seq)
	}
	s.begun, s.seq, s.last = true, m.SeqNo, m.IsTerminal
	return m.Item, nil
}

func violation(text string) error {
	return profiles.Errorf(profiles.InvalidProfilePayload, "rpc: %s", text)
}

// Keeps returns what the last answer, from the last Recv, keeps when it is forwarded.
func (s *Stream) Keeps() profiles.EndToEnd { return s.keeps }

// Result returns the result of a successful call, valid until Close.
func (s *Stream) Result() []byte { return s.result }

// Cancel asks the peer to end the call. The end is received like any other answer.
func (s *Stream) Cancel(ctx context.Context) error {
	if s.over || s.given {
		return nil
	}
	s.given = true
	m := Cancel{RPCID: s.rpcID[:]}
	return s.call.Lane().Send(ctx, e1.Envelope{
		ProfileID: ProfileID, MsgType: TypeCancel, Payload: m.Append(make([]byte, 0, m.Size())),
	})
}

// Close ends the call on this side. If the peer has not ended it, Close sends a
// cancellation, for which it waits at most a second. Either Close or Abandon must be
// called, once.
func (s *Stream) Close() {
	if !s.over && !s.given { // a call that has ended well pays for no timeout
		ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
		defer cancel()
		_ = s.Cancel(ctx) // if it fails, the connection has ended, and the call with it
	}
	s.Abandon()
}

// Abandon ends the call on this side without telling the peer, in place of Close. A method
// with an idempotency_key continues there, and the same call with the same key gets its
// outcome.
func (s *Stream) Abandon() {
	s.call.Close()
	s.close()
}
