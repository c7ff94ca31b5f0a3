package state

import (
	"encoding/hex"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// read says what a message for a partner is about. A state_id is a digest, which leads
// nowhere: states of a partner are those of a target.
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
