package relay

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypePublish = 1
	TypeAck     = 2
	TypeNack    = 3
	TypeStatus  = 4
	TypeErr     = 5

	members = TypeErr
)

// Bounds of fields, in octets. Payloads are bounded by the frame.
const (
	MaxDeliveryID = 256
	MaxTopic      = 256
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed and for a field that is absent or too long. Append
// appends a payload of Size octets and checks nothing.

// Publish hands a delivery over: from a publisher to a relay, or from a relay to
// a consumer.
type Publish struct {
	DeliveryID []byte // required, unique per publisher
	Topic      []byte // required, UTF-8, literal text
	Payload    []byte // opaque
	TTL        uint64 // ttl_ms, counted from custody; 0: as the relay has it
}

// Decode reads m from a payload.
func (m *Publish) Decode(payload []byte) error {
	*m = Publish{}
	body, err := p1.Body(payload, TypePublish, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.DeliveryID)
		case 2:
			f.Text(&m.Topic)
		case 3:
			f.Bytes(&m.Payload)
		case 4:
			f.Uint64(&m.TTL)
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	if err := checkID(m.DeliveryID); err != nil {
		return err
	}
	return checkTopic(m.Topic)
}

func (m *Publish) size() int {
	return p1.SizeBytes(1, m.DeliveryID) + p1.SizeBytes(2, m.Topic) + p1.SizeBytes(3, m.Payload) + p1.SizeUint(4, m.TTL)
}

// Size returns how many octets Append will add.
func (m *Publish) Size() int { return p1.SizeHeader(TypePublish, m.size()) }

// Append appends the payload to dst.
func (m *Publish) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypePublish, m.size())
	dst = p1.AppendBytes(dst, 1, m.DeliveryID)
	dst = p1.AppendBytes(dst, 2, m.Topic)
	dst = p1.AppendBytes(dst, 3, m.Payload)
	return p1.AppendUint(dst, 4, m.TTL)
}

// Ack says that custody of a delivery was taken, or that a consumer has
// processed it.
type Ack struct {
	DeliveryID []byte // required
}

// Decode reads m from a payload.
func (m *Ack) Decode(payload []byte) error {
	*m = Ack{}
	body, err := p1.Body(payload, TypeAck, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Bytes(&m.DeliveryID)
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	return checkID(m.DeliveryID)
}

// Size returns how many octets Append will add.
func (m *Ack) Size() int { return p1.SizeHeader(TypeAck, p1.SizeBytes(1, m.DeliveryID)) }

// Append appends the payload to dst.
func (m *Ack) Append(dst []byte) []byte {
	return p1.AppendBytes(p1.AppendHeader(dst, TypeAck, p1.SizeBytes(1, m.DeliveryID)), 1, m.DeliveryID)
}

// Nack says that a consumer has not processed a delivery, or from a relay to the
// publisher that it is dead.
type Nack struct {
	DeliveryID []byte // required
	Retryable  bool   // another attempt is worth it
	Reason     []byte // reason_code, UTF-8
}

// Decode reads m from a payload.
func (m *Nack) Decode(payload []byte) error {
	*m = Nack{}
	body, err := p1.Body(payload, TypeNack, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.DeliveryID)
		case 2:
			f.Bool(&m.Retryable)
		case 3:
			f.Text(&m.Reason)
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	return checkID(m.DeliveryID)
}

func (m *Nack) size() int {
	return p1.SizeBytes(1, m.DeliveryID) + p1.SizeBool(2, m.Retryable) + p1.SizeBytes(3, m.Reason)
}

// Size returns how many octets Append will add.
func (m *Nack) Size() int { return p1.SizeHeader(TypeNack, m.size()) }

// Append appends the payload to dst.
func (m *Nack) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeNack, m.size())
	dst = p1.AppendBytes(dst, 1, m.DeliveryID)
	dst = p1.AppendBool(dst, 2, m.Retryable)
	return p1.AppendBytes(dst, 3, m.Reason)
}

// Status says how a delivery stands, or with DeliveryID alone asks for it.
type Status struct {
	DeliveryID []byte // required
	State      []byte // required in answers, UTF-8; see State
	Attempts   uint32 // attempt_count; required in answers
}

// Decode reads m from a payload.
func (m *Status) Decode(payload []byte) error {
	*m = Status{}
	body, err := p1.Body(payload, TypeStatus, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.DeliveryID)
		case 2:
			f.Text(&m.State)
		case 3:
			f.Uint32(&m.Attempts)
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	return checkID(m.DeliveryID)
}

func (m *Status) size() int {
	return p1.SizeBytes(1, m.DeliveryID) + p1.SizeBytes(2, m.State) + p1.SizeUint(3, uint64(m.Attempts))
}

// Size returns how many octets Append will add.
func (m *Status) Size() int { return p1.SizeHeader(TypeStatus, m.size()) }

// Append appends the payload to dst.
func (m *Status) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeStatus, m.size())
	dst = p1.AppendBytes(dst, 1, m.DeliveryID)
	dst = p1.AppendBytes(dst, 2, m.State)
	return p1.AppendUint(dst, 3, uint64(m.Attempts))
}

// Err refuses a message.
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

func checkID(id []byte) error {
	switch {
	case len(id) == 0:
		return p1.Missing("delivery_id")
	case len(id) > MaxDeliveryID:
		return invalid(DetailSize, "delivery_id: %d octets, want at most %d", len(id), MaxDeliveryID)
	}
	return nil
}

func checkTopic(topic []byte) error {
	switch {
	case len(topic) == 0:
		return p1.Missing("topic")
	case len(topic) > MaxTopic:
		return invalid(DetailSize, "topic: %d octets, want at most %d", len(topic), MaxTopic)
	}
	return nil
}

// check says whether an answer is well formed.
func check(msgType uint64, payload []byte) error {
	switch msgType {
	case TypeAck:
		return new(Ack).Decode(payload)
	case TypeNack:
		return new(Nack).Decode(payload)
	case TypeErr:
		return new(Err).Decode(payload)
	case TypeStatus:
		var m Status
		if err := m.Decode(payload); err != nil {
			return err
		}
		if len(m.State) == 0 {
			return p1.Missing("state")
		}
		return nil
	}
	return profiles.Errorf(profiles.InvalidProfilePayload, "relay: msg_type %d is no answer", msgType)
}
