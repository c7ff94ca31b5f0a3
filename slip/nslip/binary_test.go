package nslip

import (
	"encoding/hex"
	"strings"
	"testing"
)

// octets reads hexadecimal with blanks.
func octets(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestZerosOfBinary(t *testing.T) {
	for form, want := range map[string]*Message{
		"":                        {},
		"3a 02 10 00":             {Slots: []Slot{number(GoalID, 0)}},
		"3a 04 08 01 10 00":       {Slots: []Slot{number(TaskID, 0)}},
		"3a 04 08 14 1a 00":       {Slots: []Slot{text(Tag, "")}},
		"28 0a 30 04":             {Act: Meta, Frame: Control},
		"18 ffffffffffffffffff01": {Src: 1<<64 - 1},
	} {
		var m Message
		if err := (Codec{}).ParseBinary(&m, octets(t, form)); err != nil {
			t.Errorf("%s: %v", form, err)
		} else if diff := same(want, &m); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
		if back, err := (Codec{}).AppendBinary(nil, want); err != nil || hex.EncodeToString(back) != strings.ReplaceAll(form, " ", "") {
			t.Errorf("%s: %x, %v", form, back, err)
		}
	}
}

func TestParseBinaryTakesAnotherOrderAndUnknownFields(t *testing.T) {
	want := &Message{ConvID: 3, Act: Request, Slots: []Slot{text(Status, "x"), number(GoalID, 1)}}
	for _, form := range []string{
		"28 03 3a 05 1a 01 78 08 0c 3a 04 10 01 08 00 08 03 40 00",
		"08 83 00 28 03 4a 01 ff 51 0000000000000000 5d 00000000 3a 08 08 0c 1a 01 78 4a 01 ff 3a 02 10 01",
	} {
		var m Message
		if err := (Codec{}).ParseBinary(&m, octets(t, form)); err != nil {
			t.Errorf("%s: %v", form, err)
		} else if diff := same(want, &m); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
}

// PR-18: what is no NSlipMessage, or could be read in different ways, is refused.
func TestPR18ParseBinaryRefuses(t *testing.T) {
	for form, want := range map[string]Class{
		"08": Framing, "08 80": Framing, "08 80808080808080808002": Framing, "00 01": Framing, "0a 01 00": Framing, "0b 0c": Framing, "0f": Framing,
		"38 01": Framing, "3a 05 10": Framing, "3a 01 10": Framing, "3a 02 0a 00": Framing, "3a 02 18 01": Framing, "4a ffffffffffffffffff01": Framing,
		"f8ffffff1f 01":     Framing, // field 2^30-1
		"08 01 08 01":       Duplicate,
		"3a 04 10 01 10 01": Duplicate, "3a 02 10 01 3a 02 10 02": Duplicate, "3a 02 10 01 3a 04 08 00 10 02": Duplicate,
		"28 0b": BadAct, "28 ffffffffffffffffff01": BadAct, "30 05": BadFrame, "40 01": BadVersion,
		"3a 04 08 04 10 01": UnknownPrefix, "3a 06 08 15 1a 02 61 62": UnknownPrefix, "3a 08 08 8080808010 10 01": UnknownPrefix,
		"3a 00": BadType, "3a 02 08 01": BadType, "3a 04 08 14 10 01": BadType, "3a 02 1a 00": BadType, "3a 06 08 14 10 00 1a 00": BadType,
		"3a 05 08 14 1a 01 ff": BadString, "3a 05 08 14 1a 01 0a": BadString,
	} {
		m := seedMessage()
		if err := (Codec{}).ParseBinary(m, octets(t, form)); class(err) != want {
			t.Errorf("%s: %+v, %v, want %s", form, m, err, want)
		}
	}
}

func TestParseBinaryOfEveryPrefixIsFieldsOrFraming(t *testing.T) {
	good := octets(t, seedBinary)
	read := 0
	for n := range good {
		var m Message
		if err := (Codec{}).ParseBinary(&m, good[:n]); err == nil {
			read++
		} else if class(err) != Framing {
			t.Errorf("%x: %v", good[:n], err)
		}
	}
	if read != 8 { // after each of the fields but the last, and nothing at all
		t.Errorf("%d prefixes were read, want 8", read)
	}
}
