package state

import (
	"encoding/hex"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// read returns the subject of a message for a partner. A state_id is a digest and contains
// no partner, so states of a partner need a target.
func read(env *e1.Envelope) (profiles.Errand, error) {
	var id []byte
	e := profiles.Errand{Answers: profiles.Refusal}
	var err error
	switch env.MsgType {
	case TypePut:
		var m Put
		err = m.Decode(env.Payload)
		e.Operation, id = "put", m.StateID
	case TypeDelta:
		var m Delta
		err = m.Decode(env.Payload)
		e.Operation, id = "delta", m.StateID
	default:
		var m Get
		err = m.Decode(env.Payload)
		e.Operation, e.Answers, id = "get", profiles.Once, m.StateID
	}
	e.Names = []string{hex.EncodeToString(id)}
	return e, err
}
