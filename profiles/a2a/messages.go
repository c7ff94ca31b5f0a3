package a2a

import (
	"bytes"
	"unicode"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeHandshake = 1
	TypeTask      = 2
	TypeEvent     = 3
	TypeResult    = 4

	members = TypeResult
)

// MaxCapabilities is how many kinds one Handshake may name.
const MaxCapabilities = 256

// The bodies below are views. Decode reads a payload, wrapper included, and the
// slices alias it; the error is an *profiles.Error of InvalidProfilePayload for
// what is malformed and for a required field that is absent. Append appends a
// payload of Size octets and checks nothing.

// HandshakeBody says which agent is here, and what it can do.
type HandshakeBody struct {
	AgentID      []byte   // required, UTF-8, not blank
	Capabilities [][]byte // UTF-8, at most MaxCapabilities
}

// Decode reads m from a payload.
func (m *HandshakeBody) Decode(payload []byte) error {
	*m = HandshakeBody{}
	body, err := p1.Body(payload, TypeHandshake, members)
	if err != nil {
		return err
	}
	// Counted before the first element is looked at, so that a flood of empty
	// ones costs no memory.
	if err := p1.Check(body, p1.Limit{Field: 2, Max: MaxCapabilities}); err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.AgentID)
		case 2:
			var kind []byte
			f.Text(&kind)
			m.Capabilities = append(m.Capabilities, kind)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case blank(m.AgentID):
		return p1.Missing("agent_id")
	}
	for _, kind := range m.Capabilities {
		if len(kind) > MaxText {
			return tooLong("capability", len(kind))
		}
	}
	if len(m.AgentID) > MaxText {
		return tooLong("agent_id", len(m.AgentID))
	}
	return nil
}

func (m *HandshakeBody) size() int {
	n := p1.SizeBytes(1, m.AgentID)
	for _, kind := range m.Capabilities {
		n += p1.SizeHeader(2, len(kind))
	}
	return n
}

// Size returns how many octets Append will add.
func (m *HandshakeBody) Size() int { return p1.SizeHeader(TypeHandshake, m.size()) }

// Append appends the payload to dst.
func (m *HandshakeBody) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeHandshake, m.size())
	dst = p1.AppendBytes(dst, 1, m.AgentID)
	for _, kind := range m.Capabilities {
		dst = append(p1.AppendHeader(dst, 2, len(kind)), kind...)
	}
	return dst
}

// TaskBody opens a lifecycle.
type TaskBody struct {
	TaskID []byte // required
	Kind   []byte // required, UTF-8, not blank
	Input  []byte
}

// Decode reads m from a payload.
func (m *TaskBody) Decode(payload []byte) error {
	*m = TaskBody{}
	body, err := p1.Body(payload, TypeTask, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.TaskID)
		case 2:
			f.Text(&m.Kind)
		case 3:
			f.Bytes(&m.Input)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.TaskID) == 0:
		return p1.Missing("task_id")
	case blank(m.Kind):
		return p1.Missing("kind")
	case len(m.Kind) > MaxText:
		return tooLong("kind", len(m.Kind))
	}
	return idWithin(m.TaskID)
}

func (m *TaskBody) size() int {
	return p1.SizeBytes(1, m.TaskID) + p1.SizeBytes(2, m.Kind) + p1.SizeBytes(3, m.Input)
}

// Size returns how many octets Append will add.
func (m *TaskBody) Size() int { return p1.SizeHeader(TypeTask, m.size()) }

// Append appends the payload to dst.
func (m *TaskBody) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeTask, m.size())
	dst = p1.AppendBytes(dst, 1, m.TaskID)
	dst = p1.AppendBytes(dst, 2, m.Kind)
	return p1.AppendBytes(dst, 3, m.Input)
}

// EventBody reports progress.
type EventBody struct {
	TaskID  []byte // required
	Message []byte // UTF-8; this or Payload is required
	Payload []byte
}

// Decode reads m from a payload.
func (m *EventBody) Decode(payload []byte) error {
	*m = EventBody{}
	body, err := p1.Body(payload, TypeEvent, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.TaskID)
		case 2:
			f.Text(&m.Message)
		case 3:
			f.Bytes(&m.Payload)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.TaskID) == 0:
		return p1.Missing("task_id")
	case len(m.Message) == 0 && len(m.Payload) == 0:
		return p1.Missing("message or event_payload")
	}
	return idWithin(m.TaskID)
}

func (m *EventBody) size() int {
	return p1.SizeBytes(1, m.TaskID) + p1.SizeBytes(2, m.Message) + p1.SizeBytes(3, m.Payload)
}

// Size returns how many octets Append will add.
func (m *EventBody) Size() int { return p1.SizeHeader(TypeEvent, m.size()) }

// Append appends the payload to dst.
func (m *EventBody) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeEvent, m.size())
	dst = p1.AppendBytes(dst, 1, m.TaskID)
	dst = p1.AppendBytes(dst, 2, m.Message)
	return p1.AppendBytes(dst, 3, m.Payload)
}

// ResultBody ends a lifecycle.
type ResultBody struct {
	TaskID       []byte // required
	OK           bool
	Output       []byte
	ErrorMessage []byte // UTF-8; required when not OK
}

// Decode reads m from a payload.
func (m *ResultBody) Decode(payload []byte) error {
	*m = ResultBody{}
	body, err := p1.Body(payload, TypeResult, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.TaskID)
		case 2:
			f.Bool(&m.OK)
		case 3:
			f.Bytes(&m.Output)
		case 4:
			f.Text(&m.ErrorMessage)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.TaskID) == 0:
		return p1.Missing("task_id")
	case !m.OK && len(m.ErrorMessage) == 0:
		return p1.Missing("error_message")
	}
	return idWithin(m.TaskID)
}

func (m *ResultBody) size() int {
	return p1.SizeBytes(1, m.TaskID) + p1.SizeBool(2, m.OK) + p1.SizeBytes(3, m.Output) + p1.SizeBytes(4, m.ErrorMessage)
}

// Size returns how many octets Append will add.
func (m *ResultBody) Size() int { return p1.SizeHeader(TypeResult, m.size()) }

// Append appends the payload to dst.
func (m *ResultBody) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeResult, m.size())
	dst = p1.AppendBytes(dst, 1, m.TaskID)
	dst = p1.AppendBool(dst, 2, m.OK)
	dst = p1.AppendBytes(dst, 3, m.Output)
	return p1.AppendBytes(dst, 4, m.ErrorMessage)
}

// blank reports whether a text has nothing to read in it.
func blank(text []byte) bool { return len(bytes.TrimFunc(text, unicode.IsSpace)) == 0 }

func idWithin(id []byte) error {
	if len(id) > MaxText {
		return tooLong("task_id", len(id))
	}
	return nil
}

func tooLong(field string, n int) error {
	err := profiles.Errorf(profiles.InvalidProfilePayload, "a2a: %s: %d octets, want %d at most", field, n, MaxText)
	err.Detail = "too_long"
	return err
}
