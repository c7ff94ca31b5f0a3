package slip

import (
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
)

// Message is a decoded message.
type Message struct {
	Type    uint64 // TypeNSLIP, TypeSLIP or TypeBinary
	Payload []byte // as it came

	NSLIP nslip.Message      // for TypeNSLIP and TypeBinary
	SLIP  slipstream.Message // of TypeSLIP

	// Handles are the meanings of slots of NSLIP that the sender or a forwarding endpoint
	// has given.
	Handles []Meaning
}

// read decodes a payload into m and replaces its content. The error is one of the
// languages.
func (c *codec) read(m *Message, msgType uint64, payload []byte) error {
	m.Type, m.Payload, m.Handles = msgType, payload, m.Handles[:0]
	switch msgType {
	case TypeNSLIP:
		return c.nslip.Parse(&m.NSLIP, payload)
	case TypeBinary:
		return c.nslip.ParseBinary(&m.NSLIP, payload)
	}
	return c.slip.ParseInto(&m.SLIP, string(payload))
}

// known returns the error of read for an anchor that read has accepted for transit only.
func (c *codec) known(m *Message) error {
	if m.Type != TypeSLIP || !c.slip.Transit {
		return nil
	}
	return c.slip.Known(&m.SLIP)
}

// write encodes m in another form of its language. If the form is the same, it returns the
// message unchanged.
func (c *codec) write(m *Message, msgType uint64) ([]byte, error) {
	switch msgType {
	case m.Type:
		return m.Payload, nil
	case TypeBinary:
		return c.nslip.AppendBinary(nil, &m.NSLIP)
	}
	return c.nslip.Append(nil, &m.NSLIP)
}

// form returns the message type that an agent prefers for m.
func (w *words) form(m *Message, agent string) uint64 {
	if form := w.forms[agent]; form != 0 && m.Type != TypeSLIP {
		return form
	}
	return m.Type
}

// text returns the message type of the text form of m.
func (m *Message) text() uint64 {
	if m.Type == TypeBinary {
		return TypeNSLIP
	}
	return m.Type
}

// agents returns sender and receiver.
func (w *words) agents(m *Message) (src, dst string, err error) {
	if m.Type == TypeSLIP {
		return m.SLIP.Src, m.SLIP.Dst, nil
	}
	src, ok := w.numbers[m.NSLIP.Src]
	if !ok {
		return "", "", unmapped(m.NSLIP.Src)
	}
	if dst, ok = w.numbers[m.NSLIP.Dst]; !ok {
		return "", "", unmapped(m.NSLIP.Dst)
	}
	return src, dst, nil
}
