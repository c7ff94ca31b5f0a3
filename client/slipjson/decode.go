package slipjson

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

type nslipJSON struct {
	ConvID    uint64     `json:"conv_id"`
	Turn      uint64     `json:"turn"`
	Src       uint64     `json:"src"`
	Dst       uint64     `json:"dst"`
	Act       string     `json:"act"`
	ActCode   uint8      `json:"act_code"`
	Frame     string     `json:"frame"`
	FrameCode uint8      `json:"frame_code"`
	Slots     []slotJSON `json:"slots"`
}

type slotJSON struct {
	Slot  string `json:"slot"`
	Code  uint32 `json:"code"`
	Value any    `json:"value"` // uint64 or string
}

type slipJSON struct {
	Version string      `json:"version"`
	Src     string      `json:"src"`
	Dst     string      `json:"dst"`
	Anchor  anchorJSON  `json:"anchor"`
	Thread  *string     `json:"thread"`
	Payload []tokenJSON `json:"payload"`

	Fallback *string `json:"fallback_text,omitempty"`
}

type anchorJSON struct {
	Index     uint16   `json:"index"`
	Mnemonic  string   `json:"mnemonic"`
	Canonical string   `json:"canonical"`
	Coords    []uint16 `json:"coords"` // octets would be base64
}

type tokenJSON struct {
	Text   string `json:"text"`
	Quoted bool   `json:"quoted"`
}

type a2aJSON struct {
	SLIP        bool    `json:"slip"`
	Wire        string  `json:"wire,omitempty"`
	Mnemonic    string  `json:"mnemonic,omitempty"`
	UCR         string  `json:"ucr,omitempty"`
	Fallback    *string `json:"fallback_text,omitempty"`
	Attachments int     `json:"attachments,omitempty"`
}

// Decode reads a message and returns it as a JSON object. For a refused message, ClassOf
// returns the class of the error.
func (c *Codec) Decode(format Format, wire []byte) ([]byte, error) {
	if format == Auto {
		format = detect(wire)
	}
	switch format {
	case NSLIP:
		if err := c.nslip.Parse(&c.message, wire); err != nil {
			return nil, err
		}
		return marshal(ofNSLIP(&c.message))
	case A2A:
		r, err := c.a2a.Decode(wire)
		if err != nil {
			return nil, err
		}
		return marshal(ofA2A(r))
	default:
		m, err := c.slip.Parse(string(wire))
		if err != nil {
			return nil, err
		}
		return marshal(ofSLIP(m))
	}
}

func ofNSLIP(m *nslip.Message) nslipJSON {
	out := nslipJSON{m.ConvID, m.Turn, m.Src, m.Dst, m.Act.String(), uint8(m.Act), m.Frame.String(), uint8(m.Frame), make([]slotJSON, len(m.Slots))}
	for i, s := range m.Slots {
		out.Slots[i] = slotJSON{s.Code.String(), uint32(s.Code), s.Int}
		if s.Code.IsText() {
			out.Slots[i].Value = string(s.Text)
		}
	}
	return out
}

func ofSLIP(m *slipstream.Message) slipJSON {
	out := slipJSON{Version: "v1", Src: m.Src, Dst: m.Dst, Anchor: ofAnchor(m.Anchor), Payload: make([]tokenJSON, len(m.Payload))}
	if m.Thread != "" {
		out.Thread = &m.Thread
	}
	for i, t := range m.Payload {
		out.Payload[i] = tokenJSON(t)
	}
	out.Fallback = fallback(m)
	return out
}

// fallback is the text of a Fallback, nil for another anchor.
func fallback(m *slipstream.Message) *string {
	if m.Anchor.Mnemonic != slipstream.Fallback {
		return nil
	}
	text := m.Text()
	return &text
}

func ofAnchor(a ucr.Anchor) anchorJSON {
	coords := make([]uint16, len(a.Coords))
	for i, c := range a.Coords {
		coords[i] = uint16(c)
	}
	return anchorJSON{a.Index, a.Mnemonic, a.Canonical, coords}
}

func ofA2A(r *slipa2a.Received) a2aJSON {
	if r.Kind != slipa2a.SLIP {
		return a2aJSON{}
	}
	return a2aJSON{true, strings.Trim(r.Text, " \t\r\n"), r.Message.Anchor.Mnemonic, string(r.UCR), fallback(r.Message), len(r.Attachments)}
}

// DecodeRow reads the message in a JSON object. The message is in the first member present
// of wire, input and message, as a string; for A2A it may also be an object there, and with
// the format A2A the whole row. With
// Auto a member format, if it names a language, selects it. Names of members are
// case-sensitive; null counts as absent.
func (c *Codec) DecodeRow(format Format, row []byte) ([]byte, error) {
	var in map[string]json.RawMessage
	if err := unmarshal(row, &in); err != nil {
		return nil, err
	}
	var value json.RawMessage
	for _, name := range []string{"message", "input", "wire"} {
		if v := in[name]; v != nil && string(v) != "null" {
			value = v
		}
	}
	if value == nil && format == A2A {
		return c.Decode(A2A, row)
	}
	if value == nil {
		return nil, fault(BadJSON, "want a member wire, input or message")
	}
	if format == Auto {
		for _, named := range Formats() {
			if string(in["format"]) == strconv.Quote(string(named)) {
				format = named
			}
		}
	}
	if value[0] == '{' {
		if format != Auto && format != A2A {
			return nil, fault(BadJSON, "an object, want a string")
		}
		return c.Decode(A2A, value)
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return nil, fault(BadJSON, "want a string")
	}
	return c.Decode(format, []byte(text))
}
