package policyhint

import (
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeSet       = 1
	TypeAck       = 2
	TypeViolation = 3
	TypeErr       = 4

	members = TypeErr
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed. Append appends a payload of Size octets and checks
// nothing.

// MaxConstraints is how many constraints a Set has at most.
const MaxConstraints = 256

// Constraint is an element of a Set.
type Constraint struct {
	Key   []byte // required, UTF-8
	Value []byte // required, UTF-8
	Mode  []byte // required, UTF-8
	Scope []byte // scope_ref, UTF-8
}

func (c *Constraint) decode(message []byte) error {
	f := p1.Read(message)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&c.Key)
		case 2:
			f.Text(&c.Value)
		case 3:
			f.Text(&c.Mode)
		case 4:
			f.Text(&c.Scope)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(c.Key) == 0:
		return p1.Missing("key")
	case len(c.Value) == 0:
		return p1.Missing("value")
	case len(c.Mode) == 0:
		return p1.Missing("mode")
	}
	return nil
}

func (c *Constraint) size() int {
	return p1.SizeBytes(1, c.Key) + p1.SizeBytes(2, c.Value) + p1.SizeBytes(3, c.Mode) + p1.SizeBytes(4, c.Scope)
}

// Set sets constraints, all of them or none.
type Set struct {
	Constraints []Constraint
}

// Decode reads m from a payload. The constraints are counted before anything is
// made of them.
func (m *Set) Decode(payload []byte) error {
	*m = Set{Constraints: m.Constraints[:0]}
	body, err := p1.Body(payload, TypeSet, members)
	if err != nil {
		return err
	}
	if err := p1.Check(body, p1.Limit{Field: 1, Max: MaxConstraints}); err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		if f.Num() != 1 {
			continue
		}
		var message []byte
		var c Constraint
		if f.Bytes(&message); f.Err() != nil {
			break
		}
		if err := c.decode(message); err != nil {
			return err
		}
		m.Constraints = append(m.Constraints, c)
	}
	return f.Err()
}

func (m *Set) size() (n int) {
	for i := range m.Constraints {
		n += p1.SizeHeader(1, m.Constraints[i].size())
	}
	return n
}

// Size returns how many octets Append will add.
func (m *Set) Size() int { return p1.SizeHeader(TypeSet, m.size()) }

// Append appends the payload to dst.
func (m *Set) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeSet, m.size())
	for i := range m.Constraints {
		c := &m.Constraints[i]
		dst = p1.AppendHeader(dst, 1, c.size())
		dst = p1.AppendBytes(dst, 1, c.Key)
		dst = p1.AppendBytes(dst, 2, c.Value)
		dst = p1.AppendBytes(dst, 3, c.Mode)
		dst = p1.AppendBytes(dst, 4, c.Scope)
	}
	return dst
}

// Ack says that a Set is in force.
type Ack struct {
	AckID []byte // required; ours is the msg_id of the Set in lower-case hexadecimal
}

// Decode reads m from a payload. Some write octets into ack_id that are not
// UTF-8.
func (m *Ack) Decode(payload []byte) error {
	*m = Ack{}
	body, err := p1.Body(payload, TypeAck, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Bytes(&m.AckID)
		}
	}
	if f.Err() == nil && len(m.AckID) == 0 {
		return p1.Missing("ack_id")
	}
	return f.Err()
}

func (m *Ack) size() int { return p1.SizeBytes(1, m.AckID) }

// Size returns how many octets Append will add.
func (m *Ack) Size() int { return p1.SizeHeader(TypeAck, m.size()) }

// Append appends the payload to dst.
func (m *Ack) Append(dst []byte) []byte {
	return p1.AppendBytes(p1.AppendHeader(dst, TypeAck, m.size()), 1, m.AckID)
}

// Violation says that a constraint can not be set, or that it has stopped
// something.
type Violation struct {
	Key    []byte // required, UTF-8
	Scope  []byte // scope_ref; required, UTF-8
	Reason []byte // reason_code; required, UTF-8
}

// Decode reads m from a payload.
func (m *Violation) Decode(payload []byte) error {
	*m = Violation{}
	body, err := p1.Body(payload, TypeViolation, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.Key)
		case 2:
			f.Text(&m.Scope)
		case 3:
			f.Text(&m.Reason)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.Key) == 0:
		return p1.Missing("key")
	case len(m.Scope) == 0:
		return p1.Missing("scope_ref")
	case len(m.Reason) == 0:
		return p1.Missing("reason_code")
	}
	return nil
}

func (m *Violation) size() int {
	return p1.SizeBytes(1, m.Key) + p1.SizeBytes(2, m.Scope) + p1.SizeBytes(3, m.Reason)
}

// Size returns how many octets Append will add.
func (m *Violation) Size() int { return p1.SizeHeader(TypeViolation, m.size()) }

// Append appends the payload to dst.
func (m *Violation) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeViolation, m.size())
	dst = p1.AppendBytes(dst, 1, m.Key)
	dst = p1.AppendBytes(dst, 2, m.Scope)
	return p1.AppendBytes(dst, 3, m.Reason)
}

// Err says why a Set was refused.
type Err struct {
	Code    []byte // required, UTF-8; see CodeInvalidScope
	Message []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Err) Decode(payload []byte) error {
	*m = Err{}
	body, err := p1.Body(payload, TypeErr, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.Code)
		case 2:
			f.Text(&m.Message)
		}
	}
	if f.Err() == nil && len(m.Code) == 0 {
		return p1.Missing("code")
	}
	return f.Err()
}

func (m *Err) size() int { return p1.SizeBytes(1, m.Code) + p1.SizeBytes(2, m.Message) }

// Size returns how many octets Append will add.
func (m *Err) Size() int { return p1.SizeHeader(TypeErr, m.size()) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeErr, m.size())
	return p1.AppendBytes(p1.AppendBytes(dst, 1, m.Code), 2, m.Message)
}
