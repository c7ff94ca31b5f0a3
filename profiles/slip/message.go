package slip

import (
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
)

// Message is a message that was read.
type Message struct {
	Type    uint64 // TypeNSLIP, TypeSLIP or TypeBinary
	Payload []byte // as it came

	NSLIP nslip.Message      // of TypeNSLIP and TypeBinary
	SLIP  slipstream.Message // of TypeSLIP

	// Handles are what slots of NSLIP stand for, as far as the sender or an endpoint
	// on the way has said.
	Handles []Meaning
}

// read reads a payload into m, replacing its contents. The error is one of the
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

// write returns m in another form of its language. A message in that form is
// returned unchanged.
func (c *codec) write(m *Message, msgType uint64) ([]byte, error) {
	switch msgType {
	case m.Type:
		return m.Payload, nil
	case TypeBinary:
		return c.nslip.AppendBinary(nil, &m.NSLIP)
	}
	return c.nslip.Append(nil, &m.NSLIP)
}

// form returns the type in which an agent wants m.
func (w *words) form(m *Message, agent string) uint64 {
	if form := w.forms[agent]; form != 0 && m.Type != TypeSLIP {
		return form
	}
	return m.Type
}

// text returns the type of m as text.
func (m *Message) text() uint64 {
	if m.Type == TypeBinary {
		return TypeNSLIP
	}
	return m.Type
}

// agents returns the sender and the receiver.
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
