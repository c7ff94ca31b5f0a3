// Package conformance plays vectors: it loads their descriptors, hands their
// steps to a Target, compares its observations with the descriptor's
// expectations, and reports.
//
// A Target never learns what is expected, nor which vector it plays. So a
// verdict comes from octets and behaviour, there is nothing to fall back on,
// and what nothing played is not passed.
//
// Specification: docs/conformance.md.
package conformance

import (
	"context"
	"errors"

	"github.com/slimwire/swp/vectors"
)

// Vector is a loaded descriptor. The exported fields are for reports; steps and
// expectations are not exported.
type Vector struct {
	ID       string // vector_id
	Path     string // of the descriptor
	Category string

	Outcome   string // accept, reject or process_check
	Code      string // alias; may be empty, and is then not compared
	ErrorCode string // canonical; may be empty, and is then not compared

	scenes   []scene   // the first is the vector itself, the others its siblings
	artifact document  // a document that must exist
	evidence *document // of a process vector
}

// scene is a play and its expected outcome.
type scene struct {
	name    string // "" for the vector itself
	why     string
	input   Input
	expect  []*vectors.Expect // one for each step
	whys    []string          // one for each step
	frames  [][]byte          // Out and Told: the frame to compare with
	main    int               // step whose outcome is the vector's; -1 in siblings
	allOuts bool              // frames that no step asked for are a fault
}

// Input is all that a Target learns of a vector.
type Input struct {
	Category string
	Setup    string // see vectors.Serve and the others
	Limits   vectors.Limits
	Policy   vectors.Policy
	Clock    *vectors.Clock   // nil: real time
	Channel  *vectors.Channel // nil: an in-memory connection, or a good channel in category s1
	Steps    []Step
}

// Step is one thing that happens, after the one before it has had its effect.
type Step struct {
	Dir    string // vectors.In, Out, App or Told
	Conn   string // name of the connection
	Octets []byte // In and App
	AtMs   int    // on the endpoint's clock, from its start

	End       bool // In: nothing more is sent
	Answers   bool // In: take the msg_id of the last frame that came out here
	Relates   bool // In: name that msg_id in extension 18
	Continues bool // the page_token is the next_page_token of the last frame of the endpoint
	Gathers   int  // Out: frames are taken until their bodies have so many fields
	Flip      bool // In: one bit of the protected record is inverted on its way
}

// A Target plays inputs. ErrNotPlayed says that it cannot play this one, any
// other error that the play came to no end. Neither is an observation.
type Target interface {
	Play(ctx context.Context, in *Input) (*Observation, error)
}

// ErrNotPlayed is wrapped by a Target's error for an input that it has no means
// to play.
var ErrNotPlayed = errors.New("not run")

// Observation is what a Target saw.
type Observation struct {
	Steps []Seen  // one for each step
	Extra []Frame // what the endpoint sent without a step that asked for it

	// Traffic between the endpoint and the application behind it outside of
	// steps: messages that the application got, and requests without an answer
	// in the script.
	Untold     [][]byte
	Unanswered int
}

// Seen is what one step led to.
type Seen struct {
	Verdicts []Verdict // In: one for each frame that was judged
	Handled  []Handled // what handlers were given
	Closed   bool      // the endpoint ended the connection
	Events   []string  // reasons of security events

	// Allocated is the octets that the whole process allocated during the play.
	// It is exact for large allocations only.
	Allocated uint64

	Frame []byte // Out and Told: the received frame; nil if none
}

// Verdict is how one frame ended.
type Verdict struct {
	Code      string // canonical, or OK
	Alias     string
	Detail    string
	ProfileID uint64
	MsgType   uint64
	Flags     uint64
}

// Handled is what a handler was given. The slices are its own.
type Handled struct {
	Handler   uint64 // profile_id that the handler is registered for
	Version   uint64
	ProfileID uint64
	MsgType   uint64
	Flags     uint64
	Timestamp uint64
	MsgID     []byte

	Extensions []byte
	Payload    []byte
	Encoded    []byte // the envelope, encoded again
}

// Frame is a frame, or on a JSON-RPC connection a message, that the endpoint
// sent.
type Frame struct {
	Conn   string
	Octets []byte
}
