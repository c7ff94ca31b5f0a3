package events

import (
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypePublish     = 1
	TypeSubscribe   = 2
	TypeUnsubscribe = 3
	TypeBatch       = 4
	TypeErr         = 5

	members = TypeErr
)

// MaxBatch is how many records an EVT_BATCH may have.
const MaxBatch = 1024

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed, for a required field that is absent and for a record
// that breaks a rule. Append appends a payload of Size octets and checks
// nothing.

// Publish makes an event known.
type Publish struct {
	Event Record // required
}

// Decode reads m from a payload.
func (m *Publish) Decode(payload []byte) error {
	body, err := p1.Body(payload, TypePublish, members)
	if err != nil {
		return err
	}
	var event []byte
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Message(&event)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case event == nil:
		return p1.Missing("event")
	}
	return m.Event.decode(event)
}

func (m *Publish) size() int { return p1.SizeHeader(1, m.Event.size()) }

// Size returns how many octets Append will add.
func (m *Publish) Size() int { return p1.SizeHeader(TypePublish, m.size()) }

// Append appends the payload to dst.
func (m *Publish) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypePublish, m.size())
	dst = p1.AppendHeader(dst, 1, m.Event.size())
	return m.Event.append(dst)
}

// Subscribe asks for the events that match a filter.
type Subscribe struct {
	Filter []byte // UTF-8; see ParseFilter
}

// Decode reads m from a payload.
func (m *Subscribe) Decode(payload []byte) error {
	*m = Subscribe{}
	return decodeText(payload, TypeSubscribe, &m.Filter, nil)
}

// Size returns how many octets Append will add.
func (m *Subscribe) Size() int { return p1.SizeHeader(TypeSubscribe, p1.SizeBytes(1, m.Filter)) }

// Append appends the payload to dst.
func (m *Subscribe) Append(dst []byte) []byte {
	return p1.AppendBytes(p1.AppendHeader(dst, TypeSubscribe, p1.SizeBytes(1, m.Filter)), 1, m.Filter)
}

// Unsubscribe ends a subscription of this connection.
type Unsubscribe struct {
	SubscriptionID []byte // required, UTF-8: see SubscriptionID
}

// Decode reads m from a payload.
func (m *Unsubscribe) Decode(payload []byte) error {
	*m = Unsubscribe{}
	if err := decodeText(payload, TypeUnsubscribe, &m.SubscriptionID, nil); err != nil {
		return err
	}
	if len(m.SubscriptionID) == 0 {
		return p1.Missing("subscription_id")
	}
	return nil
}

// Size returns how many octets Append will add.
func (m *Unsubscribe) Size() int {
	return p1.SizeHeader(TypeUnsubscribe, p1.SizeBytes(1, m.SubscriptionID))
}

// Append appends the payload to dst.
func (m *Unsubscribe) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeUnsubscribe, p1.SizeBytes(1, m.SubscriptionID))
	return p1.AppendBytes(dst, 1, m.SubscriptionID)
}

// Err refuses a message, or ends a subscription.
type Err struct {
	Code    []byte // required, UTF-8; see the Code constants
	Message []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Err) Decode(payload []byte) error {
	*m = Err{}
	if err := decodeText(payload, TypeErr, &m.Code, &m.Message); err != nil {
		return err
	}
	if len(m.Code) == 0 {
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

// decodeText reads a message that consists of one or two strings.
func decodeText(payload []byte, msgType uint64, first, second *[]byte) error {
	body, err := p1.Body(payload, msgType, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch {
		case f.Num() == 1:
			f.Text(first)
		case f.Num() == 2 && second != nil:
			f.Text(second)
		}
	}
	return f.Err()
}

// Batch is events in order.
type Batch struct {
	Events []Record // at most MaxBatch
}

// Decode reads m from a payload. It uses the memory of m.Events again.
func (m *Batch) Decode(payload []byte) error {
	m.Events = m.Events[:0]
	return eachRecord(payload, func(r *Record) error {
		m.Events = append(m.Events, *r)
		return nil
	})
}

// eachRecord calls yield with the records of an EVT_BATCH, in order, up to the
// first that breaks a rule. They are counted before any is decoded.
func eachRecord(payload []byte, yield func(*Record) error) error {
	body, err := p1.Body(payload, TypeBatch, members)
	if err != nil {
		return err
	}
	if err := p1.Check(body, p1.Limit{Field: 1, Max: MaxBatch}); err != nil {
		return err
	}
	var r Record
	f := p1.Read(body)
	for f.Next() {
		if f.Num() != 1 {
			continue
		}
		var event []byte
		f.Bytes(&event)
		if f.Err() != nil {
			break
		}
		if err := r.decode(event); err != nil {
			return err
		}
		if err := yield(&r); err != nil {
			return err
		}
	}
	return f.Err()
}

func (m *Batch) size() int {
	n := 0
	for i := range m.Events {
		n += p1.SizeHeader(1, m.Events[i].size())
	}
	return n
}

// Size returns how many octets Append will add.
func (m *Batch) Size() int { return p1.SizeHeader(TypeBatch, m.size()) }

// Append appends the payload to dst.
func (m *Batch) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeBatch, m.size())
	for i := range m.Events {
		dst = p1.AppendHeader(dst, 1, m.Events[i].size())
		dst = m.Events[i].append(dst)
	}
	return dst
}

// check says whether an answer is well formed.
func check(msgType uint64, payload []byte) error {
	if msgType == TypeErr {
		return new(Err).Decode(payload)
	}
	return eachRecord(payload, func(*Record) error { return nil })
}
