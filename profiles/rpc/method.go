package rpc

import (
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
)

// Method is one method. Exactly one of Inline, Detached and Held is set.
//
// An *Error that a method returns is its answer. Any other error is answered as
// internal, with nothing of it in the text, and is reported to the log.
type Method struct {
	// Inline answers on the read loop, in order of arrival. It must not block. req and
	// params are valid until it returns. The result is copied at once; it may alias params,
	// but not the buffer of req.Scratch.
	Inline func(req *profiles.Request, params []byte) (result []byte, err error)

	// Detached runs in the bounded pool of the session, for computation and I/O. req and
	// params are valid until it returns. send queues a stream item, waits for a slow peer,
	// and may be called by one goroutine at a time. ctx ends with the stream, at the
	// handler deadline, and on cancellation; after that its items and its result are
	// ignored.
	Detached func(ctx context.Context, req *profiles.Request, params []byte, send func(item []byte) error) (result []byte, err error)

	// Held starts a call that waits for another party: it copies what it needs of params,
	// keeps p and returns. It is called on the read loop and must not block. If it returns
	// an error, the call ends with it.
	Held func(p *Pending, params []byte) error

	// Long says that a Held call has no expected end, such as a subscription. Such calls
	// have a separate bound.
	Long bool

	// Repeatable says that a second run with the same params does no harm. If the process
	// ended during a call with an idempotency_key, the call then runs again when it is
	// repeated.
	Repeatable bool

	// always says that idempotency keys are ignored, because the answer depends on the
	// time.
	always bool

	// local says that the method is about its connection, targets that it handles the
	// target of a call itself, builtin that it is one of this profile.
	local, targets, builtin bool
}

// method is a Method under its name.
type method struct {
	Method
	name string
}

var (
	errKinds = errors.New("want exactly one of Inline, Detached and Held")
	errLong  = errors.New("long, but not held")
)

func (m *Method) validate() error {
	kinds := 0
	for _, set := range []bool{m.Inline != nil, m.Detached != nil, m.Held != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errKinds
	case m.Long && m.Held == nil:
		return errLong
	}
	return nil
}

// brought returns a method of another profile.
func brought(m *profiles.Method) Method {
	served := Method{Inline: m.Inline, Detached: m.Detached, Long: m.Long, Repeatable: m.Repeatable, local: m.Local, targets: m.Targets}
	if m.Held != nil {
		served.Held = func(p *Pending, params []byte) error { return m.Held(p, params) }
	}
	return served
}
