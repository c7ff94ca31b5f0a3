package p1

import (
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Names says which field of a profile's messages is the name for access rules and partners,
// for profiles.Crossing. It must not change while in use, and is then safe for concurrent
// use.
type Names struct {
	Messages []Message
	Field    string // in the schema
}

// Read returns the names in a message, in the order of the wire. It fails if the profile
// would refuse the message.
func (n *Names) Read(env *e1.Envelope) (names []string, err error) {
	m := find(n.Messages, env.MsgType)
	if m == nil {
		return nil, nil
	}
	if err := m.Decode(env.Payload); err != nil {
		return nil, err
	}
	_, err = n.rewrite(nil, m, env, func(name []byte) []byte {
		names = append(names, string(name))
		return nil
	})
	return names, err
}

// Rename implements profiles.Crossing. Octets of other fields, known or not, are not
// changed.
func (n *Names) Rename(env *e1.Envelope, f func(name []byte) []byte) ([]byte, error) {
	m := find(n.Messages, env.MsgType)
	if m == nil {
		return env.Payload, nil
	}
	body, err := n.rewrite(make([]byte, 0, len(env.Payload)+64), m, env, f)
	if err != nil {
		return nil, err
	}
	return append(AppendHeader(make([]byte, 0, SizeHeader(env.MsgType, len(body))), env.MsgType, len(body)), body...), nil
}

// Fits is that of profiles.Crossing: an answer to a message that names something is about
// that.
func (n *Names) Fits(asked, answer *e1.Envelope) error {
	about, err := n.Read(asked)
	if err != nil || len(about) == 0 {
		return err
	}
	names, err := n.Read(answer)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(about, name) {
			return profiles.Errorf(profiles.InvalidProfilePayload, "%s %.80q, want %.80q", n.Field, name, about[0])
		}
	}
	return nil
}

func (n *Names) rewrite(dst []byte, m *Message, env *e1.Envelope, f func(name []byte) []byte) ([]byte, error) {
	body, err := Body(env.Payload, env.MsgType, highest(n.Messages))
	if err != nil {
		return nil, err
	}
	return n.appendRenamed(dst, m, body, f)
}

// appendRenamed appends a message with its names changed.
func (n *Names) appendRenamed(dst []byte, m *Message, message []byte, change func(name []byte) []byte) ([]byte, error) {
	f := Read(message)
	for f.Next() {
		i := slices.IndexFunc(m.Fields, func(d Field) bool { return d.Num == f.Num() })
		switch {
		case i >= 0 && m.Fields[i].Name == n.Field:
			var name []byte
			f.Text(&name)
			dst = AppendBytes(dst, f.Num(), change(name))
		case i >= 0 && m.Fields[i].Kind == KindMessage:
			var part []byte
			if f.Bytes(&part); f.Err() != nil {
				return nil, f.Err()
			}
			renamed, err := n.appendRenamed(make([]byte, 0, len(part)+64), m.Fields[i].Message, part, change)
			if err != nil {
				return nil, err
			}
			dst = append(AppendHeader(dst, f.Num(), len(renamed)), renamed...)
		default:
			dst = append(dst, f.Raw()...)
		}
	}
	return dst, f.Err()
}

// Crossing returns the Crossing of a profile with these names: errands has the Errand of
// each initiating message without its Names.
func (n *Names) Crossing(refusals *Refusals, errands map[uint64]profiles.Errand) *profiles.Crossing {
	return &profiles.Crossing{
		Read: func(env *e1.Envelope) (e profiles.Errand, err error) {
			e = errands[env.MsgType]
			e.Names, err = n.Read(env)
			return e, err
		},
		Rename:  n.Rename,
		Fits:    n.Fits,
		Refused: refusals.Refused,
		Refuse:  refusals.Refuse,
	}
}
