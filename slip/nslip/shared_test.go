package nslip

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/vectors/datatest"
)

// decoded is a message as the shared data write it.
type decoded struct {
	ConvID    uint64 `json:"conv_id"`
	Turn      uint64
	Src       uint64
	Dst       uint64
	Act       string
	ActCode   Act `json:"act_code"`
	Frame     string
	FrameCode Frame `json:"frame_code"`
	Slots     []struct {
		Slot  string
		Code  Code
		Value json.RawMessage
	}
}

func (d *decoded) message(t *testing.T) *Message {
	t.Helper()
	m := &Message{ConvID: d.ConvID, Turn: d.Turn, Src: d.Src, Dst: d.Dst, Act: d.ActCode, Frame: d.FrameCode}
	if m.Act.String() != d.Act || m.Frame.String() != d.Frame {
		t.Errorf("%v %v, want %s %s", m.Act, m.Frame, d.Act, d.Frame)
	}
	for _, s := range d.Slots {
		slot := Slot{Code: s.Code}
		var err error
		if strings.HasPrefix(string(s.Value), `"`) {
			var value string
			err = json.Unmarshal(s.Value, &value)
			slot.Text = []byte(value)
		} else {
			err = json.Unmarshal(s.Value, &slot.Int)
		}
		if err != nil || s.Code.String() != s.Slot {
			t.Errorf("slot %s: %v", s.Slot, err)
		}
		m.Slots = append(m.Slots, slot)
	}
	return m
}

func TestMessagesOfTheSharedData(t *testing.T) {
	n := 0
	var m, again Message
	datatest.Rows(t, "slip/nslip.jsonl", func(row struct {
		ID, Wire, Canonical string
		Decoded             decoded
	}) {
		n++
		if err := (Codec{}).Parse(&m, []byte(row.Wire)); err != nil {
			t.Errorf("%s: %v", row.ID, err)
			return
		}
		if diff := same(row.Decoded.message(t), &m); diff != "" {
			t.Errorf("%s: %s", row.ID, diff)
		}
		if row.Canonical == "" {
			row.Canonical = row.Wire
		}
		octets, err := Codec{}.AppendBinary(nil, &m)
		if err != nil {
			t.Errorf("%s: %v", row.ID, err)
		}
		if err := (Codec{}).ParseBinary(&again, octets); err != nil {
			t.Errorf("%s: %x: %v", row.ID, octets, err)
		}
		for _, m := range []*Message{&m, &again} {
			if line, err := (Codec{}).Append(nil, m); err != nil || string(line) != row.Canonical {
				t.Errorf("%s: %s, %v, want %s", row.ID, line, err, row.Canonical)
			}
		}
	})
	if n != 165 {
		t.Errorf("%d rows, want 165", n)
	}
}

func TestMalformedMessagesOfTheSharedData(t *testing.T) {
	n := 0
	datatest.Rows(t, "slip/malformed.jsonl", func(row struct {
		ID, Format, Input, Error string
		ErrorAny                 []string `json:"error_any"`
	}) {
		if row.Format != "nslip" {
			return
		}
		n++
		err := Codec{}.Parse(new(Message), []byte(row.Input))
		if got := string(class(err)); got != row.Error && !slices.Contains(row.ErrorAny, got) {
			t.Errorf("%s: %v, want %s", row.ID, err, row.Error)
		}
	})
	if n != 25 {
		t.Errorf("%d rows, want 25", n)
	}
}
