package p1

import "github.com/slimwire/swp/e1"

// Message describes a message of a schema, for generic display. The Messages of a profile
// are generated and must not be changed.
type Message struct {
	Type   uint64 // msg_type; 0 if it is part of another message
	Name   string // in the schema
	Fields []Field

	// Decode returns the error with which the profile would refuse a payload. Nil if the
	// message is part of another one.
	Decode func(payload []byte) error
}

// WellFormed returns what profiles.Profile has as Check: it decodes a message by its type,
// and returns why it cannot. A type without a schema is refused.
func WellFormed(messages []Message) func(env *e1.Envelope) error {
	return func(env *e1.Envelope) error {
		m := find(messages, env.MsgType)
		if m == nil {
			return refuse(DetailBody, "msg_type %d has no schema", env.MsgType)
		}
		return m.Decode(env.Payload)
	}
}

// find returns the message of a type, nil if it is not among messages.
func find(messages []Message, msgType uint64) *Message {
	for i := range messages {
		if messages[i].Type == msgType {
			return &messages[i]
		}
	}
	return nil
}

// highest returns the highest msg_type of messages.
func highest(messages []Message) (n uint64) {
	for i := range messages {
		n = max(n, messages[i].Type)
	}
	return n
}

// Field describes a field of a message.
type Field struct {
	Num      uint64
	Name     string // in the schema
	Kind     Kind
	Repeated bool
	IfSet    bool     // displayed only if it is not empty
	Message  *Message // for KindMessage
}

// Kind is the type of a field, and how it is displayed.
type Kind uint8

// The kinds.
const (
	KindText   Kind = iota // UTF-8
	KindOctets             // opaque; often text
	KindHex                // opaque, shown in hexadecimal
	KindSecret             // opaque, of which only the length is shown
	KindMessage
	KindUint64 // this and the following are varints
	KindUint32
	KindBool
)
