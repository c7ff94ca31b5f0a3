package artifact

import "github.com/slimwire/swp/e1"

// check reports whether the payload of an answer is well-formed.
func check(env *e1.Envelope) error {
	switch env.MsgType {
	case TypeChunk:
		return new(Chunk).Decode(env.Payload)
	case TypeAck:
		return new(Ack).Decode(env.Payload)
	}
	return new(Err).Decode(env.Payload)
}
