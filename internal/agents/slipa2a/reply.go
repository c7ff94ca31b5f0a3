package slipa2a

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// replies checks the answers of an agent to one message. Its methods have one caller at a time.
type replies struct {
	x      *Extension
	in     *Incoming // nil: an operation without a message, whose answers are not checked
	send   func(string, []byte) error
	failed error // of the first invalid answer
}

func (x *Extension) replies(ctx context.Context, send func(string, []byte) error) *replies {
	in, _ := Of(ctx)
	return &replies{x: x, in: in, send: send}
}

// event checks an answer of a stream, and sends it.
func (r *replies) event(kind string, octets []byte) error {
	octets, err := r.check(octets)
	if err != nil {
		return err
	}
	return r.send(kind, octets)
}

// last checks the result of the agent. After an invalid answer it is an error.
func (r *replies) last(output []byte, err error) ([]byte, error) {
	if r.failed == nil && err == nil {
		output, err = r.check(output)
	}
	if r.failed != nil {
		return nil, r.failed
	}
	return output, err
}

// check returns an answer for the client.
func (r *replies) check(octets []byte) ([]byte, error) {
	if r.in == nil || !json.Valid(octets) { // such an answer is refused elsewhere
		return octets, nil
	}
	checked, err := r.x.reply(octets, r.in.TakesSLIP)
	if refused, ok := errors.AsType[*Error](err); ok {
		r.failed = refused.failure(a2abinding.CodeInvalidResponse, "INVALID_AGENT_RESPONSE").Result()
		err = r.failed
	}
	return checked, err
}

// reply checks an answer in valid JSON. takes says whether the client takes SLIP.
func (x *Extension) reply(octets []byte, takes bool) ([]byte, error) {
	m, err := answerOf(octets)
	if err != nil {
		return nil, fault(BadMessage, "%v", err)
	}
	if m == nil {
		return octets, nil
	}
	if !takes {
		if marked, err := isMarked(m); err != nil || !marked {
			return octets, err
		}
		return plain(octets, answerOf)
	}
	received, err := x.decode(m)
	if err != nil || received.Kind != Plain {
		return octets, err
	}
	return plain(octets, answerOf)
}

// answers are the places of the message of an agent in an answer.
var answers = [][]string{{"message"}, {"task", "status", "message"}, {"statusUpdate", "status", "message"}}

// answerOf finds the message of an agent in an answer, or returns nil.
func answerOf(octets []byte) (*object, error) {
	for _, path := range answers {
		o, err := parseObject(octets, whole(octets))
		for _, name := range path {
			if err == nil && o != nil {
				o, err = o.inner(name)
			}
		}
		if err != nil || o != nil {
			return o, err
		}
	}
	return nil, nil
}
