package rpc

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Outcomes keeps the outcomes of calls that had an idempotency_key. A store of
// package store fits, which documents the methods. What this package
// promises on top of it:
//
//   - A key belongs to the authenticated identity that used it, and stands for
//     the method and params of its first use. The same request again gets the
//     same RESP or ERR, octet for octet but for its own rpc_id; another one gets
//     ERR invalid_request, not retryable. Stream items are not kept: they go at
//     once to the caller whose request runs.
//   - A method runs after a record of the start is committed, and its outcome
//     is committed before any caller gets it. Where the first fails the method
//     does not run, and the answer is unavailable, retryable. If the second
//     commit fails the outcome is held in memory and no caller gets it: the
//     answer is unavailable, retryable, and the same request under the same key
//     has it committed and gets it. An outcome that the store never takes, for
//     its size, becomes ERR internal.
//   - Requests that repeat a call while it runs wait for it. Each may be
//     cancelled by itself; RPC_CANCEL, or a deadline, of the request that runs
//     ends the call for all: cancelled and timeout are outcomes like any other.
//   - A call goes on when its caller's connection is lost, unless its method is
//     Long: a Detached method for Options.Handler, any other for an hour.
//   - A retryable error is no outcome: nothing is kept, and the call runs again
//     when it is repeated.
//   - A call that was running when the process ended, however it ended, has left a
//     record without an outcome. This assumes one process, which has the store
//     open: a call that does not run here will never end. If the
//     method is Repeatable it is run again when the call is repeated. How far any
//     other got is unknown: its outcome becomes ERR internal, not retryable.
//   - swp.ping and swp.sync are executed each time.
//
// The calls under way are bounded: 4,096, 1,024 of one identity, 64 MiB of
// params and of outcomes that wait to be committed, 64 requests for one key.
// Above a bound the answer is unavailable, retryable.
type Outcomes interface {
	Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult))
	Delete(space, key string, was uint64, done func(removed bool, err error))
}

// space is the space of the records.
const space = "rpc"

// maxKey bounds idempotency_key, in octets.
const maxKey = 256

// nameOf is the name of the record of a key, with constant length and unique per identity.
func nameOf(identity string, key []byte) string {
	h := sha256.New()
	h.Write(e1.AppendBytes(nil, []byte(identity)))
	h.Write(key)
	return string(h.Sum(nil))
}

// inputsOf is the digest of the method and params of a call.
func inputsOf(method string, params []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(e1.AppendBytes(nil, []byte(method)))
	h.Write(params)
	h.Sum(sum[:0])
	return sum
}

// record is what is kept of a call:
//
//	version(1) state(1) until_unix_ms(8) inputs(32) rest
//
// rest is empty for a call that runs, the result for one that ended well, and
// code(bytes) message(bytes) for one that failed, followed by endpoint(bytes) if the
// error says which endpoint refused the call. If the answer came from another endpoint and
// keeps something (profiles.EndToEnd), recordKeeps is set in state, and rest follows
// flags(uvarint) extensions(bytes).
type record struct {
	state  byte
	until  time.Time // the end of the replay window, to the millisecond
	inputs [sha256.Size]byte
	outcome
}

const (
	recordVersion = 1
	recordHead    = 1 + 1 + 8 + sha256.Size

	recordRuns   = 1
	recordResult = 2
	recordError  = 3

	recordKeeps = 0x80
)

func (r *record) append(dst []byte) []byte {
	keeps := r.keeps
	if r.failed != nil {
		keeps = r.failed.Keeps
	}
	kept := keeps != profiles.EndToEnd{}
	state := r.state
	if kept {
		state |= recordKeeps
	}
	dst = append(dst, recordVersion, state)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.until.UnixMilli()))
	dst = append(dst, r.inputs[:]...)
	if kept {
		dst = e1.AppendBytes(e1.AppendUvarint(dst, keeps.Flags), []byte(keeps.Extensions))
	}
	switch r.state {
	case recordResult:
		return append(dst, r.result...)
	case recordError:
		dst = e1.AppendBytes(dst, []byte(r.failed.Code))
		dst = e1.AppendBytes(dst, []byte(r.failed.Message))
		if r.failed.Endpoint != "" {
			dst = e1.AppendBytes(dst, []byte(r.failed.Endpoint))
		}
	}
	return dst
}

var errRecord = errors.New("malformed")

// parseRecord reads a record, which aliases b.
func parseRecord(b []byte) (record, error) {
	if len(b) < recordHead || b[0] != recordVersion {
		return record{}, fmt.Errorf("rpc: record of %d octets: %w", len(b), errRecord)
	}
	r := record{state: b[1] &^ recordKeeps, until: time.UnixMilli(int64(binary.BigEndian.Uint64(b[2:])))}
	copy(r.inputs[:], b[10:])
	rest := b[recordHead:]
	if b[1]&recordKeeps != 0 {
		flags, n, err := e1.Uvarint(rest)
		ext, after, ok := []byte(nil), rest, err == nil
		if ok {
			ext, after, ok = cutBytes(rest[n:])
		}
		if !ok {
			return record{}, fmt.Errorf("rpc: record that keeps something with %d octets: %w", len(rest), errRecord)
		}
		rest, r.keeps = after, profiles.EndToEnd{Flags: flags, Extensions: string(ext)}
	}
	switch {
	case r.state == recordRuns && len(rest) == 0:
		return r, nil
	case r.state == recordResult:
		r.result = rest
		return r, nil
	case r.state == recordError:
		code, rest, ok1 := cutBytes(rest)
		message, rest, ok2 := cutBytes(rest)
		var endpoint []byte
		if ok1 && ok2 && len(rest) > 0 {
			endpoint, rest, ok2 = cutBytes(rest)
		}
		if ok1 && ok2 && len(rest) == 0 {
			r.failed = &Error{Code: string(code), Message: string(message), Endpoint: string(endpoint), Keeps: r.keeps}
			return r, nil
		}
	}
	return record{}, fmt.Errorf("rpc: record in state %d with %d octets: %w", r.state, len(rest), errRecord)
}

func cutBytes(b []byte) (value, rest []byte, ok bool) {
	n, size, err := e1.Uvarint(b)
	if err != nil || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(n)
	return b[size:end:end], b[end:], true
}
