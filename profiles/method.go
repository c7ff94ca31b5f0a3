package profiles

import "context"

// Method is a method of RPC that comes with a profile. Exactly one of Inline, Detached
// and Held is set.
//
// A *MethodError that a method returns is its answer. Any other error refuses the call
// as one of Serve refuses a message.
type Method struct {
	Name string // beginning with what no other profile has, as swp.state

	// Open says that every peer may call it, whatever the access rules say: it tells
	// nothing that the peer may not know, or asks for itself.
	Open bool

	// Inline answers on the read loop, in order of arrival. It must not block. req and
	// params are valid until it returns; the result may alias params.
	Inline func(req *Request, params []byte) (result []byte, err error)

	// Detached runs in the bounded pool of the session, for work that computes or does
	// I/O. req and params are valid until it returns. send queues a stream item and
	// waits while the peer is slow to read. After the end of ctx nothing it sends or
	// returns counts.
	Detached func(ctx context.Context, req *Request, params []byte, send func(item []byte) error) (result []byte, err error)

	// Held opens a call that waits for someone else: it copies what it needs of params,
	// keeps p and returns. It is called on the read loop and must not block.
	Held func(p Pending, params []byte) error

	Long       bool // a Held call has no expected end, as a subscription
	Repeatable bool // to run it twice with the same params does no harm
	Local      bool // it is about the connection that it is called on: no target leads elsewhere
}

// Pending is the open call of a Held method. It is safe for concurrent use, and no
// method waits. One of Return and Fail must be called in the end; once the call is over
// they do nothing.
type Pending interface {
	Session() Session // the connection of the caller
	Lane() Lane       // where the call came; what belongs to it is sent there

	// Context ends when the call is over, in whichever way.
	Context() context.Context

	// About says what the call is about, in the words of the access rules, see Subject.
	About(profile, operation, name string)

	// Item queues a stream item. Return ends the call with its result, Fail with an
	// error. The first two fail with ErrFinished once the call is over.
	Item(item []byte) error
	Return(result []byte) error
	Fail(err error)
}

// MethodError is the failure of a method, told in the words of its profile.
type MethodError struct {
	Code    string // an error_code of the profile
	Message string // for people; reaches the peer
}

func (e *MethodError) Error() string { return e.Code + ": " + e.Message }

// Done returns what ends a call that has no result: with err, unless it is nil.
func Done(p Pending) func(err error) {
	return func(err error) {
		if err != nil {
			p.Fail(err)
			return
		}
		_ = p.Return(nil) // or nobody is left to be told
	}
}
