package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
)

// bodyField is a field of a body of encoding P1. The value of an integer is the
// octets of its varint.
type bodyField struct {
	number uint64
	typ    uint64 // wire type
	value  string
}

// append writes the field unchanged.
func (f bodyField) append(dst []byte) []byte {
	dst = e1.AppendUvarint(dst, f.number<<3|f.typ)
	if f.typ == 2 {
		dst = e1.AppendUvarint(dst, uint64(len(f.value)))
	}
	return append(dst, f.value...)
}

// fieldsOfBody returns the fields of the one body in a payload, in order. It is
// separate code for the runner: the endpoint's output must not be read by the
// code that wrote it.
func fieldsOfBody(payload []byte, msgType uint64) ([]bodyField, error) {
	body, rest, ok := delimited(payload, msgType)
	if !ok || len(rest) > 0 {
		return nil, fmt.Errorf("payload %q is not the one body of msg_type %d", payload, msgType)
	}
	var fields []bodyField
	for len(body) > 0 {
		key, n, err := e1.Uvarint(body)
		if err != nil {
			return nil, fmt.Errorf("body %q: %w", body, err)
		}
		f := bodyField{number: key >> 3, typ: key & 7}
		switch key & 7 {
		case 0:
			_, size, err := e1.Uvarint(body[n:])
			if err != nil {
				return nil, fmt.Errorf("body %q: %w", body, err)
			}
			f.value, body = string(body[n:n+size]), body[n+size:]
		case 2:
			value, rest, ok := delimited(body, f.number)
			if !ok {
				return nil, fmt.Errorf("body %q: field %d is cut short", body, f.number)
			}
			f.value, body = string(value), rest
		default:
			return nil, fmt.Errorf("body %q: field %d has wire type %d", body, f.number, key&7)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// firstField reads field 1 of a body, which is the key of the lifecycle in the
// profiles that have one.
func firstField(env *e1.Envelope) ([]byte, error) {
	fields, err := fieldsOfBody(env.Payload, env.MsgType)
	if err != nil || len(fields) == 0 || fields[0].number != 1 {
		return nil, errors.Join(err, fmt.Errorf("no field 1 in %q", env.Payload))
	}
	return []byte(fields[0].value), nil
}

// gathered is the frames that one step takes: the first, and if more are wanted
// one frame in their place that holds the bodies of all, one after the other.
type gathered struct {
	frame  []byte
	env    e1.Envelope // of the first
	body   []byte
	fields int // in body
}

// add takes the next frame. It returns false if no other can go with it: then
// it is all that counts.
func (g *gathered) add(next []byte) bool {
	env, err := decode(next)
	if err != nil {
		g.frame = next
		return false
	}
	fields, err := fieldsOfBody(env.Payload, env.MsgType)
	first := g.frame == nil
	if err != nil || !first && (env.MsgType != g.env.MsgType || !bytes.Equal(env.MsgID, g.env.MsgID)) {
		g.frame = next
		return false
	}
	body, _, _ := delimited(env.Payload, env.MsgType)
	g.body = append(g.body, body...)
	g.fields += len(fields)
	if first {
		g.frame, g.env = next, *env
		return true
	}
	env.Payload = e1.AppendUvarint(e1.AppendUvarint(nil, env.MsgType<<3|2), uint64(len(g.body)))
	env.Payload = append(env.Payload, g.body...)
	g.frame = frame.Append(nil, env.Append(nil))
	return true
}
