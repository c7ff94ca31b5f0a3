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
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// cancelWait bounds how long Close waits for a slow peer to take the RPC_CANCEL
// of a call that is given up.
const cancelWait = time.Second

// Call calls a method and returns its result, which is the caller's own. Stream
// items are dropped. The error is an *Error if the method failed, an
// *profiles.Error if either side refused a message, or the context's; a call
// that is given up because ctx ended is cancelled at the other end.
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
		return fmt.Errorf("rpc: %s: %w", method, err)
	}
	return nil
}

// Sync returns once the peer has processed, and committed, what was sent on a lane before.
func Sync(ctx context.Context, lane profiles.Lane) error { return SyncOf(ctx, lane) }

// SyncOf is Sync for the messages with msg_ids, at most MaxSync, that were sent on the lane
// before. It does not wait for others on the same stream; a peer that knows no msg_ids does.
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

// Invocation is a call with all that can be said of it.
type Invocation struct {
	Method string
	Params []byte

	// IdempotencyKey, if set, has the method run once, however often the same
	// call is made under it within the replay window of the other end.
	IdempotencyKey string

	// Deadline is told to the other end, which then ends the call with an *Error
	// of CodeTimeout when it has passed. Zero means none. It is counted in
	// milliseconds, from when the other end reads the request.
	Deadline time.Duration

	// Extensions go out beside the request, after those that this package makes.
	Extensions e1.Extensions
}

// Call is the function Call.
func (c Invocation) Call(ctx context.Context, on profiles.Caller) ([]byte, error) {
	s, err := c.Open(ctx, on)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		switch _, err := s.Recv(ctx); {
		case errors.Is(err, io.EOF):
			return bytes.Clone(s.Result()), nil
		case err != nil:
			return nil, err
		}
	}
}

// Stream is the calling side of one call. It is used by one goroutine at a time.
type Stream struct {
	call   profiles.Call
	rpcID  [16]byte
	small  [160]byte // a request that fits, so that a call is one allocation
	seq    uint64    // of the last item
	last   bool      // no item may follow
	over   bool      // RESP or ERR has come, or nothing can come any more
	given  bool      // RPC_CANCEL was sent
	result []byte
	err    error // what Recv returns from now on
}

// Open is the function Open.
func (c Invocation) Open(ctx context.Context, on profiles.Caller) (*Stream, error) {
	s := new(Stream)
	// An rpc_id has to be unlike the others of this connection, no more.
	binary.NativeEndian.PutUint64(s.rpcID[:], rand.Uint64())  //nolint:gosec // no secret
	binary.NativeEndian.PutUint64(s.rpcID[8:], rand.Uint64()) //nolint:gosec // no secret
	req := Req{RPCID: s.rpcID[:], Method: []byte(c.Method), Params: c.Params, IdempotencyKey: []byte(c.IdempotencyKey)}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeReq}
	payload := s.small[:0]
	if n := req.Size(); n > len(s.small) {
		payload = make([]byte, 0, n)
	}
	env.Payload = req.Append(payload)
	if c.Deadline > 0 {
		env.Extensions = e1.AppendExtensionUvarint(nil, profiles.ExtDeadline, uint64(max(1, c.Deadline.Milliseconds())))
	}
	env.Extensions = append(env.Extensions, c.Extensions...)
	env.Extensions = profiles.AppendChain(ctx, env.Extensions)
	var err error
	if s.call, err = on.Call(ctx, env); err != nil {
		return nil, err
	}
	return s, nil
}

// RPCID is the rpc_id of the call.
func (s *Stream) RPCID() []byte { return bytes.Clone(s.rpcID[:]) }

// Recv returns the next item, valid until the next call of Recv or Close. At
// the end of a call that succeeded the error is io.EOF, and Result has its
// result; other errors are those of Call. Except for the context's, errors are
// kept.
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
	item, err := s.answer(env)
	s.err = err
	return item, err
}

// answer reads one answer. A violation of the rules of §12 is an error and
// leaves the call open, for Close to cancel.
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
		return nil, &Error{Code: string(m.ErrorCode), Message: string(m.ErrorMessage), Retryable: m.Retryable, Endpoint: string(author)}
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
	case m.SeqNo <= s.seq:
		return nil, profiles.Errorf(profiles.InvalidProfilePayload, "rpc: stream item %d after %d", m.SeqNo, s.seq)
	}
	s.seq, s.last = m.SeqNo, m.IsTerminal
	return m.Item, nil
}

func violation(text string) error {
	return profiles.Errorf(profiles.InvalidProfilePayload, "rpc: %s", text)
}

// Result returns the result of a call that has ended well, valid until Close.
func (s *Stream) Result() []byte { return s.result }

// Cancel asks the other end to end the call. How it ends, if it does, is
// received like any other answer.
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

// Close ends the call on this side. If the other end has not ended it, it is
// asked to, for which Close waits a second at most. Either Close or Abandon must be
// called, once.
func (s *Stream) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
	defer cancel()
	_ = s.Cancel(ctx) // if it cannot be sent, the connection is gone and the call with it
	s.Abandon()
}

// Abandon ends the call on this side without a word to the other, in place of
// Close. A method that was called under an idempotency_key goes on there, and the
// same call under the same key gets its outcome.
func (s *Stream) Abandon() { s.call.Close() }
