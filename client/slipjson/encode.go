package slipjson

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strconv"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Encode writes the message of a JSON object: an object of Decode, or one with "ok": true
// and that object as the member message. A message that was refused on reading is refused
// again, with the same error. Auto detects the language by the members.
//
// A Fallback whose text is in several tokens, or only in the member fallback_text, is
// written with the one quoted token of the strict form.
//
// A message of A2A is made from its member wire. It gets a random messageId if it has none.
// Attachments cannot be written.
func (c *Codec) Encode(format Format, object []byte) ([]byte, error) {
	var in struct {
		OK      *bool
		Error   string
		Message json.RawMessage

		SLIP   *bool
		Anchor json.RawMessage
	}
	if err := unmarshal(object, &in); err != nil {
		return nil, err
	}
	if in.OK != nil {
		if !*in.OK {
			return nil, fault(in.Error, "it was not read either")
		}
		if in.Message == nil {
			return nil, fault(BadJSON, "want a member message")
		}
		object = in.Message
		in.SLIP, in.Anchor = nil, nil
		if err := unmarshal(object, &in); err != nil {
			return nil, err
		}
	}
	switch {
	case format == A2A, format == Auto && in.SLIP != nil:
		return c.toA2A(object)
	case format == SLIPv1, format == Auto && in.Anchor != nil:
		return c.toSLIP(object)
	}
	m, err := toNSLIP(object)
	if err != nil {
		return nil, err
	}
	return c.nslip.Append(nil, m)
}

func toNSLIP(object []byte) (*nslip.Message, error) {
	var in struct {
		ConvID    json.RawMessage `json:"conv_id"`
		Turn      json.RawMessage `json:"turn"`
		Src       json.RawMessage `json:"src"`
		Dst       json.RawMessage `json:"dst"`
		Act       *string         `json:"act"`
		ActCode   json.RawMessage `json:"act_code"`
		Frame     *string         `json:"frame"`
		FrameCode json.RawMessage `json:"frame_code"`
		Slots     []struct {
			Slot  *string         `json:"slot"`
			Code  json.RawMessage `json:"code"`
			Value json.RawMessage `json:"value"`
		} `json:"slots"`
	}
	if err := unmarshal(object, &in); err != nil {
		return nil, err
	}
	m := new(nslip.Message)
	for _, header := range []struct {
		name string
		from json.RawMessage
		to   *uint64
	}{{"conv_id", in.ConvID, &m.ConvID}, {"src", in.Src, &m.Src}, {"dst", in.Dst, &m.Dst}, {"turn", in.Turn, &m.Turn}} {
		if header.from == nil {
			return nil, fault(string(nslip.MissingHeader), "%s", header.name)
		}
		var err error
		if *header.to, err = integer(header.name, header.from); err != nil {
			return nil, err
		}
	}
	act, err := coded("act", in.Act, in.ActCode, nslip.ActNamed, nslip.MissingHeader, nslip.BadAct)
	if err != nil {
		return nil, err
	}
	frame, err := coded("frame", in.Frame, in.FrameCode, nslip.FrameNamed, nslip.MissingHeader, nslip.BadFrame)
	if err != nil {
		return nil, err
	}
	m.Act, m.Frame = act, frame
	for _, s := range in.Slots {
		code, err := coded("slot", s.Slot, s.Code, nslip.CodeNamed, nslip.UnknownPrefix, nslip.UnknownPrefix)
		if err != nil {
			return nil, err
		}
		slot := nslip.Slot{Code: code}
		if bytes.HasPrefix(s.Value, []byte(`"`)) {
			var text string
			err = json.Unmarshal(s.Value, &text)
			slot.Text = append([]byte{}, text...)
		} else {
			slot.Int, err = integer(code.String(), s.Value)
		}
		switch {
		case err != nil:
			return nil, err
		case code.IsText() == (slot.Text == nil):
			return nil, fault(string(nslip.BadType), "slot %s", code)
		}
		m.Slots = append(m.Slots, slot)
	}
	return m, nil
}

// integer reads a number that is exact from 0 to 2^64-1.
func integer(name string, from json.RawMessage) (uint64, error) {
	if len(from) == 0 || from[0] != '-' && (from[0] < '0' || from[0] > '9') {
		return 0, fault(string(nslip.BadType), "%s: want an integer", name)
	}
	v, err := strconv.ParseUint(string(from), 10, 64)
	if err != nil {
		return 0, fault(string(nslip.BadInteger), "%s: %.40s, want an integer from 0 to 2^64-1", name, from)
	}
	return v, nil
}

// coded reads a value that has a name and a number: either of them, or both if they agree.
func coded[T ~uint8 | ~uint32](what string, name *string, number json.RawMessage, named func(string) (T, bool), missing, bad nslip.Class) (T, error) {
	var code T
	if number != nil {
		v, err := integer(what, number)
		if err != nil {
			return 0, err
		}
		if code = T(v); uint64(code) != v {
			return 0, fault(string(bad), "%s %d", what, v)
		}
	}
	if name != nil {
		found, ok := named(*name)
		if !ok || number != nil && found != code {
			return 0, fault(string(bad), "%s %.40q", what, *name)
		}
		code = found
	}
	if name == nil && number == nil {
		return 0, fault(string(missing), "%s", what)
	}
	return code, nil
}

func (c *Codec) toSLIP(object []byte) ([]byte, error) {
	var in slipJSON
	if err := unmarshal(object, &in); err != nil {
		return nil, err
	}
	if in.Version != "" && in.Version != "v1" {
		return nil, fault(string(slipstream.BadVersion), "%.40q, want v1", in.Version)
	}
	m := &slipstream.Message{Src: in.Src, Dst: in.Dst, Anchor: ucr.Anchor{Mnemonic: in.Anchor.Mnemonic}}
	if in.Thread != nil {
		if *in.Thread == "" {
			return nil, fault(string(slipstream.BadToken), "a thread without digits")
		}
		m.Thread = *in.Thread
	}
	for _, t := range in.Payload {
		m.Payload = append(m.Payload, slipstream.Token(t))
	}
	if len(m.Payload) == 0 && in.Fallback != nil {
		m.Payload = []slipstream.Token{{Text: *in.Fallback}}
	}
	quoteFallback(m)
	return c.slip.Append(nil, m)
}

// quoteFallback makes the text of a Fallback one quoted token.
func quoteFallback(m *slipstream.Message) {
	if m.Anchor.Mnemonic == slipstream.Fallback && len(m.Payload) > 0 {
		m.Payload = []slipstream.Token{{Text: m.Text(), Quoted: true}}
	}
}

func (c *Codec) toA2A(object []byte) ([]byte, error) {
	var in struct {
		a2aJSON
		MessageID  string   `json:"messageId"`
		Confidence *float64 `json:"confidence"`
	}
	if err := unmarshal(object, &in); err != nil {
		return nil, err
	}
	switch {
	case !in.SLIP:
		return nil, fault(NotSLIP, "the message is not marked")
	case in.Attachments != 0:
		return nil, fault(string(slipa2a.BadMessage), "%d attachments, which are not here", in.Attachments)
	}
	m, err := c.slip.Parse(in.Wire)
	if err != nil {
		return nil, err
	}
	quoteFallback(m)
	if in.MessageID == "" {
		in.MessageID = rand.Text()
	}
	return c.a2a.Encode(slipa2a.Outgoing{MessageID: in.MessageID, SLIP: m, Confidence: in.Confidence})
}
