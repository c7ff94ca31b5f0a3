package slipa2a

import (
	"encoding/json"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// replies checks the answers of an agent to one message. Its methods have one caller at a time.
type replies struct {
	checker
	send   func(string, []byte) error
	failed error // of the first invalid answer
}

func (x *Extension) replies(in *Incoming, send func(string, []byte) error) *replies {
	return &replies{checker: x.checker(in), send: send}
}

// event checks an answer of a stream, and sends it.
func (r *replies) event(kind string, octets []byte) error {
	if r.failed == nil {
		octets, r.failed = r.check(octets)
	}
	if r.failed != nil {
		return r.failed
	}
	return r.send(kind, octets)
}

// last checks the result of the agent. After an invalid answer it is an error.
func (r *replies) last(output []byte, err error) ([]byte, error) {
	switch {
	case r.failed != nil:
		return nil, r.failed
	case err != nil:
		return output, err
	}
	return r.check(output)
}

// checker checks the answers of an agent to one message.
type checker struct {
	x     *Extension
	idle  bool // an operation without a message, whose answers are not checked
	takes bool // the client takes SLIP
}

func (x *Extension) checker(in *Incoming) checker {
	return checker{x: x, idle: in == nil, takes: in != nil && in.TakesSLIP}
}

// check returns an answer for the client. Its error is a failure for the client.
func (c *checker) check(octets []byte) ([]byte, error) {
	if c.idle || !json.Valid(octets) { // such an answer is refused elsewhere
		return octets, nil
	}
	checked, err := c.x.reply(octets, c.takes)
	if refused, ok := errors.AsType[*Error](err); ok {
		return nil, refused.failure(a2abinding.CodeInvalidResponse, "INVALID_AGENT_RESPONSE").Result()
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
