package profiles

import (
	"context"
	"encoding/json"
)

// Method is an RPC method of a profile. Exactly one of Inline, Detached and Held is set.
//
// A *MethodError that a function returns becomes the answer. Any other error refuses the
// call, as an error of Serve refuses a message.
type Method struct {
	Name string // with a prefix that no other profile uses, such as swp.state

	// Open allows every peer to call the method, without the access rules: it reveals
	// nothing secret, or asks the rules itself.
	Open bool

	// Inline answers on the read loop, in order of arrival. It must not block. req and
	// params are valid until it returns; the result may alias params.
	Inline func(req *Request, params []byte) (result []byte, err error)

	// Detached runs in the bounded pool of the session, for work that computes or does
	// I/O. req and params are valid until it returns. send queues a stream item and
	// waits while the peer is slow to read. After the end of ctx nothing it sends or
	// returns counts.
	Detached func(ctx context.Context, req *Request, params []byte, send func(item []byte) error) (result []byte, err error)

	// Held starts a call that waits for another party: it copies what it needs of params,
	// keeps p and returns. It is called on the read loop and must not block.
	Held func(p Pending, params []byte) error

	Long       bool // a Held call has no expected end, as a subscription
	Repeatable bool // a second run with the same params does no harm
	Local      bool // it is about its connection, and refuses a target
	Targets    bool // it handles the target of a call itself; see Pending.Target
}

// Pending is an open call of a Held method. It is safe for concurrent use; its methods do
// not wait. The method must call Return or Fail once. After the end of the call both do
// nothing.
type Pending interface {
	Session() Session // the connection of the caller
	Peer() *Peer      // the caller, see Request.Peer
	Lane() Lane       // lane of the call, for messages that belong to the call

	// Target is where the call goes (extension 52), for a method that handles targets.
	// Passage is what the call says of its way.
	Target() string
	Passage() Passage

	// Context ends when the call is over, for any reason.
	Context() context.Context

	// About says what the call is about, in the words of the access rules, see Subject.
	About(profile, operation, name string)

	// Item queues a stream item. Return ends the call with its result, Fail with an error.
	// After the end of the call Item and Return return ErrFinished.
	Item(item []byte) error
	Return(result []byte) error
	Fail(err error)

	// Leave ends the call without an answer, because its caller is leaving.
	Leave()
}

// MethodError is the failure of a method. It becomes the error answer of the call.
type MethodError struct {
	Code    string // an error_code of the profile
	Message string // for people; reaches the peer
}

func (e *MethodError) Error() string { return e.Code + ": " + e.Message }

// Done returns a function that ends a call without a result: with its error, if that is not
// nil.
func Done(p Pending) func(err error) {
	return func(err error) {
		if err != nil {
			p.Fail(err)
			return
		}
		_ = p.Return(nil) // an error means that the caller is gone
	}
}

// DoneJSON ends a call with a result as JSON, or with its error, if that is not nil.
func DoneJSON(p Pending, result any, err error) {
	octets := []byte(nil)
	if err == nil {
		octets, err = json.Marshal(result)
	}
	if err != nil {
		p.Fail(err)
		return
	}
	_ = p.Return(octets) // an error means that the caller is gone
}
