package client

import (
	"encoding/hex"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// described are the messages of the profiles that have schemas.
var described = map[uint64][]p1.Message{
	a2a.ProfileID:        a2a.Messages,
	agdisc.ProfileID:     agdisc.Messages,
	artifact.ProfileID:   artifact.Messages,
	cred.ProfileID:       cred.Messages,
	events.ProfileID:     events.Messages,
	obs.ProfileID:        obs.Messages,
	policyhint.ProfileID: policyhint.Messages,
	relay.ProfileID:      relay.Messages,
	rpc.ProfileID:        rpc.Messages,
	state.ProfileID:      state.Messages,
	tooldisc.ProfileID:   tooldisc.Messages,
}

// decodePayload returns the message in a payload by the names of its schema, or
// nil if it is not known here or malformed.
func decodePayload(env *e1.Envelope) any {
	messages := described[env.ProfileID]
	i := slices.IndexFunc(messages, func(m p1.Message) bool { return m.Type == env.MsgType })
	if i < 0 || messages[i].Decode(env.Payload) != nil {
		return nil
	}
	body, err := p1.Body(env.Payload, env.MsgType, uint64(len(messages)))
	if err != nil {
		return nil
	}
	return shown(&messages[i], body)
}

// shown returns the fields of a message that Decode has accepted.
func shown(m *p1.Message, message []byte) map[string]any {
	read := make([]struct {
		number uint64
		octets []byte
		list   [][]byte
	}, len(m.Fields))
	for f := p1.Read(message); f.Next(); {
		i := slices.IndexFunc(m.Fields, func(d p1.Field) bool { return d.Num == f.Num() })
		if i < 0 {
			continue
		}
		switch v := &read[i]; {
		case m.Fields[i].Repeated:
			var element []byte
			f.Bytes(&element)
			v.list = append(v.list, element)
		case m.Fields[i].Kind == p1.KindMessage:
			f.Message(&v.octets)
		case m.Fields[i].Kind >= p1.KindUint64: // varints
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
		case d.Kind == p1.KindSecret:
			fields[d.Name+"_octets"] = len(v.octets)
		default:
			fields[d.Name] = value(d, v.number, v.octets)
		}
	}
	return fields
}

// value formats one value of a field.
func value(d *p1.Field, number uint64, b []byte) any {
	switch d.Kind {
	case p1.KindText:
		return string(b)
	case p1.KindHex:
		return hex.EncodeToString(b)
	case p1.KindUint64:
		return number
	case p1.KindUint32:
		return uint32(number)
	case p1.KindBool:
		return number != 0
	case p1.KindMessage:
		return shown(d.Message, b)
	}
	return octets(b)
}

// octets formats opaque octets: text unchanged, anything else as hex:….
func octets(b []byte) string {
	if readable(b) {
		return string(b)
	}
	return "hex:" + hex.EncodeToString(b)
}
