package language

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/test/bench/language/nslippb"
)

// The names of the cases of SLIP.
const (
	NSLIPText       = "nSLIP text: decode"
	NSLIPTextJSON   = "encoding/json, into a struct"
	NSLIPBinary     = "nSLIP binary: decode"
	NSLIPBinaryPB   = "protobuf, same octets, fresh"
	NSLIPBinaryPBRe = "protobuf, same octets, reused"
	SLIPv1          = "SLIP v1: decode"
	SLIPv1JSON      = "encoding/json, the same content"
)

const (
	numbers = `@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#`
	words   = `SLIP v1 planner reviewer RequestReview thread7 auth_module "two words" 2 3`
)

// slipCases reads a message of each form into memory that is used again, and the
// same content as JSON and as protobuf.
func slipCases() ([]Case, error) {
	var m nslip.Message
	if err := (nslip.Codec{}).Parse(&m, []byte(numbers)); err != nil {
		return nil, err
	}
	binary, err := nslip.Codec{}.AppendBinary(nil, &m)
	if err != nil {
		return nil, err
	}
	numbersJSON, err := json.Marshal(numeric(&m))
	if err != nil {
		return nil, err
	}
	line, err := slipstream.Codec{}.Parse(words)
	if err != nil {
		return nil, err
	}
	wordsJSON, err := json.Marshal(spoken{line.Src, line.Dst, line.Anchor.Mnemonic, line.Thread, texts(line)})
	if err != nil {
		return nil, err
	}
	text, reused := []byte(numbers), new(nslippb.NSlipMessage)
	const fast = 0 // the default
	return []Case{
		each(NSLIPText, "", fast, func() error { return nslip.Codec{}.Parse(&m, text) }),
		each(NSLIPTextJSON, NSLIPText, fast, func() error { return json.Unmarshal(numbersJSON, new(numericJSON)) }),
		each(NSLIPBinary, "", fast, func() error { return nslip.Codec{}.ParseBinary(&m, binary) }),
		each(NSLIPBinaryPB, NSLIPBinary, fast, func() error { return proto.Unmarshal(binary, new(nslippb.NSlipMessage)) }),
		each(NSLIPBinaryPBRe, NSLIPBinary, fast, func() error { return proto.Unmarshal(binary, reused) }),
		each(SLIPv1, "", fast, func() error { return slipstream.Codec{}.ParseInto(line, words) }),
		each(SLIPv1JSON, SLIPv1, fast, func() error { return json.Unmarshal(wordsJSON, new(spoken)) }),
	}, nil
}

// numericJSON is a message of nSLIP as JSON.
type numericJSON struct {
	ConvID uint64        `json:"conv_id"`
	Turn   uint64        `json:"turn"`
	Src    uint64        `json:"src"`
	Dst    uint64        `json:"dst"`
	Act    uint8         `json:"act"`
	Frame  uint8         `json:"frame"`
	Slots  []numericSlot `json:"slots"`
}

type numericSlot struct {
	Code uint32 `json:"code"`
	Int  uint64 `json:"int,omitempty"`
	Text string `json:"text,omitempty"`
}

func numeric(m *nslip.Message) numericJSON {
	v := numericJSON{ConvID: m.ConvID, Turn: m.Turn, Src: m.Src, Dst: m.Dst, Act: uint8(m.Act), Frame: uint8(m.Frame)}
	for _, s := range m.Slots {
		v.Slots = append(v.Slots, numericSlot{uint32(s.Code), s.Int, string(s.Text)})
	}
	return v
}

// spoken is a line of SLIP v1 as JSON.
type spoken struct {
	Src     string   `json:"src"`
	Dst     string   `json:"dst"`
	Anchor  string   `json:"anchor"`
	Thread  string   `json:"thread"`
	Payload []string `json:"payload"`
}

func texts(m *slipstream.Message) []string {
	var all []string
	for _, t := range m.Payload {
		all = append(all, t.Text)
	}
	return all
}
