package obs

import "github.com/slimwire/swp/profiles/p1"

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeSet = 1
	TypeGet = 2
	TypeDoc = 3
	TypeErr = 4

	members = TypeErr
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed. Append appends a payload of Size octets and checks
// nothing. Whether a trace context is one is another question, see Check.

// Fields are what Set and Doc have in common.
type Fields struct {
	Traceparent []byte // UTF-8
	Tracestate  []byte // UTF-8
	MsgID       []byte
	TaskID      []byte
	RPCID       []byte
}

func (m *Fields) decode(payload []byte, msgType uint64) error {
	*m = Fields{}
	body, err := p1.Body(payload, msgType, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.Traceparent)
		case 2:
			f.Text(&m.Tracestate)
		case 3:
			f.Bytes(&m.MsgID)
		case 4:
			f.Bytes(&m.TaskID)
		case 5:
			f.Bytes(&m.RPCID)
		}
	}
	return f.Err()
}

func (m *Fields) size() int {
	return p1.SizeBytes(1, m.Traceparent) + p1.SizeBytes(2, m.Tracestate) +
		p1.SizeBytes(3, m.MsgID) + p1.SizeBytes(4, m.TaskID) + p1.SizeBytes(5, m.RPCID)
}

func (m *Fields) append(dst []byte, msgType uint64) []byte {
	dst = p1.AppendHeader(dst, msgType, m.size())
	dst = p1.AppendBytes(dst, 1, m.Traceparent)
	dst = p1.AppendBytes(dst, 2, m.Tracestate)
	dst = p1.AppendBytes(dst, 3, m.MsgID)
	dst = p1.AppendBytes(dst, 4, m.TaskID)
	return p1.AppendBytes(dst, 5, m.RPCID)
}

// Set binds a trace context to the exchanges that its ids name, or without ids
// to the connection.
type Set struct{ Fields }

// Decode reads m from a payload.
func (m *Set) Decode(payload []byte) error { return m.decode(payload, TypeSet) }

// Size returns how many octets Append will add.
func (m *Set) Size() int { return p1.SizeHeader(TypeSet, m.size()) }

// Append appends the payload to dst.
func (m *Set) Append(dst []byte) []byte { return m.append(dst, TypeSet) }

// Doc is the last Set that was read, or empty.
type Doc struct{ Fields }

// Decode reads m from a payload.
func (m *Doc) Decode(payload []byte) error { return m.decode(payload, TypeDoc) }

// Size returns how many octets Append will add.
func (m *Doc) Size() int { return p1.SizeHeader(TypeDoc, m.size()) }

// Append appends the payload to dst.
func (m *Doc) Append(dst []byte) []byte { return m.append(dst, TypeDoc) }

// Get asks for the last Set that was read on the connection.
type Get struct {
	IncludeCurrent bool // without effect
}

// Decode reads m from a payload.
func (m *Get) Decode(payload []byte) error {
	*m = Get{}
	body, err := p1.Body(payload, TypeGet, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Bool(&m.IncludeCurrent)
		}
	}
	return f.Err()
}

func (m *Get) size() int { return p1.SizeBool(1, m.IncludeCurrent) }

// Size returns how many octets Append will add.
func (m *Get) Size() int { return p1.SizeHeader(TypeGet, m.size()) }

// Append appends the payload to dst.
func (m *Get) Append(dst []byte) []byte {
	return p1.AppendBool(p1.AppendHeader(dst, TypeGet, m.size()), 1, m.IncludeCurrent)
}

// Err says why a Set or Get was refused.
type Err struct {
	Code    []byte // required, UTF-8; see the Code constants
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
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.Code) == 0:
		return p1.Missing("code")
	}
	return nil
}

func (m *Err) size() int { return p1.SizeBytes(1, m.Code) + p1.SizeBytes(2, m.Message) }

// Size returns how many octets Append will add.
func (m *Err) Size() int { return p1.SizeHeader(TypeErr, m.size()) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeErr, m.size())
	dst = p1.AppendBytes(dst, 1, m.Code)
	return p1.AppendBytes(dst, 2, m.Message)
}
