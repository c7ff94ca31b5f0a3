package p1

import (
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
)

// Show returns a profiles.Profile.Show for the messages of a profile: it decodes a payload
// by the names of the schema, and returns nil for an unknown or malformed message. Of a
// secret it shows only the length.
func Show(messages []Message) func(env *e1.Envelope) any {
	return func(env *e1.Envelope) any {
		m := find(messages, env.MsgType)
		if m == nil || m.Decode(env.Payload) != nil {
			return nil
		}
		body, err := Body(env.Payload, env.MsgType, highest(messages))
		if err != nil {
			return nil
		}
		return shown(m, body)
	}
}

// shown returns the fields of a message that Decode has accepted.
func shown(m *Message, message []byte) map[string]any {
	read := make([]struct {
		number uint64
		octets []byte
		list   [][]byte
	}, len(m.Fields))
	for f := Read(message); f.Next(); {
		i := slices.IndexFunc(m.Fields, func(d Field) bool { return d.Num == f.Num() })
		if i < 0 {
			continue
		}
		switch v := &read[i]; {
		case m.Fields[i].Repeated:
			var element []byte
			f.Bytes(&element)
			v.list = append(v.list, element)
		case m.Fields[i].Kind == KindMessage:
			f.Message(&v.octets)
		case m.Fields[i].Kind >= KindUint64: // varints
			f.Uint64(&v.number)
		default:
			f.Bytes(&v.octets)
		}
	}
	fields := make(map[string]any)
	for i := range m.Fields {
		d, v := &m.Fields[i], &read[i]
		switch {
		case d.IfSet && v.number == 0 && len(v.octets) == 0 && len(v.list) == 0:
		case d.Repeated:
			list := make([]any, len(v.list))
			for i, element := range v.list {
				list[i] = value(d, 0, element)
			}
			fields[d.Name] = list
		case d.Kind == KindSecret:
			fields[d.Name+"_octets"] = len(v.octets)
		default:
			fields[d.Name] = value(d, v.number, v.octets)
		}
	}
	return fields
}

// value returns one value of a field for display.
func value(d *Field, number uint64, b []byte) any {
	switch d.Kind {
	case KindText:
		return string(b)
	case KindHex:
		return hex.EncodeToString(b)
	case KindUint64:
		return number
	case KindUint32:
		return uint32(number)
	case KindBool:
		return number != 0
	case KindMessage:
		return shown(d.Message, b)
	}
	return octets(b)
}

// octets displays opaque octets: text unchanged, anything else as hex:….
func octets(b []byte) string {
	if Readable(b) {
		return string(b)
	}
	return "hex:" + hex.EncodeToString(b)
}

// Readable reports whether b is text that needs no escapes.
func Readable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !strconv.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}
