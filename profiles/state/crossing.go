package state

import (
	"bytes"
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
		e.Operation, e.Answers, e.By, id = "get", profiles.Once, []uint64{TypePut}, m.StateID
	}
	e.Names = []string{hex.EncodeToString(id)}
	return e, err
}

// fits is that of profiles.Crossing: a GET is answered with the state that it names.
func fits(asked, answer *e1.Envelope) error {
	if answer.MsgType != TypePut {
		return nil
	}
	var m Get
	if err := m.Decode(asked.Payload); err != nil {
		return err
	}
	var s Put
	if err := s.Decode(answer.Payload); err != nil {
		return err
	}
	if !bytes.Equal(s.StateID, m.StateID) {
		return invalid("", "another state than was asked for")
	}
	return s.Check()
}
