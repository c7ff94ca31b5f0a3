package events

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// service is a Bus as the handler of the profile.
type service Bus

// Serve handles one message.
func (s *service) Serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	b := (*Bus)(s)
	if req.Unsolicited {
		return check(req.MsgType, req.Payload) // a well-formed one is counted and dropped
	}
	if hops, _, err := profiles.Uvarint(req.Extensions, profiles.ExtHops); err != nil {
		return err
	} else if hops > profiles.MaxHops {
		return invalid(DetailHops, "%d hops, want at most %d", hops, profiles.MaxHops)
	}
	switch req.MsgType {
	case TypePublish:
		return b.publish(req)
	case TypeBatch:
		return b.batch(req)
	case TypeSubscribe:
		return b.subscribe(req)
	}
	return b.unsubscribe(req)
}

func checkAnswer(env *e1.Envelope) error { return check(env.MsgType, env.Payload) }

// lifecycle returns the key of the lifecycle of a published event.
func lifecycle(env *e1.Envelope) []byte {
	var m Publish
	if env.MsgType != TypePublish || m.Decode(env.Payload) != nil {
		return nil
	}
	if len(m.Event.TaskID) > 0 {
		return m.Event.TaskID
	}
	return m.Event.RPCID
}
