package nslip

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func class(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ""
}

func text(code Code, s string) Slot   { return Slot{Code: code, Text: []byte(s)} }
func number(code Code, v uint64) Slot { return Slot{Code: code, Int: v} }

// seed is the example of the specification (A6).
const (
	seed       = `@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#`
	seedBinary = "080310012001" + "28033a0210113a040801102a3a04080a10023a1108141a0d72656661" + "63746f725f61757468"
)

func seedMessage() *Message {
	return &Message{ConvID: 3, Turn: 1, Dst: 1, Act: Request, Frame: Task,
		Slots: []Slot{number(GoalID, 17), number(TaskID, 42), number(Priority, 2), text(Tag, "refactor_auth")}}
}

// same compares messages but for the memory they keep.
func same(a, b *Message) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Message{}))
}

func TestExampleOfTheSpecification(t *testing.T) {
	var m Message
	if err := (Codec{}).Parse(&m, []byte(seed)); err != nil {
		t.Fatal(err)
	}
	if diff := same(seedMessage(), &m); diff != "" {
		t.Error(diff)
	}
	octets, err := Codec{}.AppendBinary(nil, &m)
	if err != nil || hex.EncodeToString(octets) != seedBinary || len(octets) != 43 {
		t.Errorf("%x, %v", octets, err)
	}
	var back Message
	if err := (Codec{}).ParseBinary(&back, octets); err != nil {
		t.Fatal(err)
	}
	if line, err := (Codec{}).Append([]byte("> "), &back); err != nil || string(line) != "> "+seed {
		t.Errorf("%s, %v", line, err)
	}
	if s, ok := back.Slot(TaskID); !ok || s.Int != 42 {
		t.Errorf("%+v, %v", s, ok)
	}
	if s, ok := back.Slot(Status); ok {
		t.Errorf("%+v", s)
	}
}

func TestParseTakesWhatOthersWrite(t *testing.T) {
	head := Message{ConvID: 62, Turn: math.MaxUint64, Src: 61, Dst: 10, Act: Meta, Frame: Control}
	for line, slots := range map[string][]Slot{
		"@aA|f4|c10|Sz|dA|TLygHa16AHYF#":                     nil,
		" \r\n\t@aA|f4|c10|Sz|dA|TLygHa16AHYF# \n":           nil,
		"@||TLygHa16AHYF|dA|Sz|||c10|f4|aA|#":                nil,
		"@a000000000000A|f04|c0010|S0z|d0A|T000LygHa16AHYF#": nil,
		`@r1|aA|f4|c10|Sz|dA|TLygHa16AHYF|p00#`:              {number(ResultID, 1), number(ParentTaskID, 0)},
		`@aA|f4|c10|Sz|dA|TLygHa16AHYF|u"a|b#@\"\\"|t""#`:    {text(Status, `a|b#@"\`), text(Tag, "")},
		"@aA|f4|c10|Sz|dA|TLygHa16AHYF|t\"\t Größe ✓\u0085\"#": {text(Tag,
			"\t Größe ✓\u0085")},
	} {
		want := head
		want.Slots = slots
		var m Message
		if err := (Codec{}).Parse(&m, []byte(line)); err != nil {
			t.Errorf("%q: %v", line, err)
		} else if diff := same(&want, &m); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

// PR-18: a message that readers could understand in different ways is refused.
func TestPR18ParseRefuses(t *testing.T) {
	head := "@a3|f0|c3|S0|d1|T1"
	for line, want := range map[string]Class{
		"": Framing, "@": Framing, "#": Framing, "@#x": Framing, "x@#": Framing, head: Framing,
		"@#": Empty, "@|||#": Empty,
		head + "|x1#": UnknownPrefix, head + "| g1#": UnknownPrefix, "@A3|f0|c3|S0|d1|T1#": UnknownPrefix, head + "|\xff#": UnknownPrefix,
		head + "|g#": BadInteger, head + "|g-1#": BadInteger, head + "|g1 #": BadInteger, head + "|g1.5#": BadInteger,
		"@a|f0|c3|S0|d1|T1#": BadInteger, "@a3|f0|cLygHa16AHYG|S0|d1|T1#": BadInteger, "@a3|f0|c" + strings.Repeat("z", 99) + "|S0|d1|T1#": BadInteger,
		head + `|t"a#`: BadString, head + `|t"#`: BadString, head + `|t"a"b#`: BadString, head + `|t"a\n"#`: BadString, head + `|t"a\#`: BadString,
		head + `|t"a\"#`: BadString, head + "|t\"a\nb\"#": BadString, head + "|t\"a\x7f\"#": BadString, head + "|t\"\x00\"#": BadString,
		head + "|t\"\xff\"#": BadString, head + "|t\"\\\\\xc3\"#": BadString, head + "|t#": BadString, head + "|ta-b#": BadString,
		head + "|t5#": BadType, head + "|uabc#": BadType, head + `|g"1"#`: BadType, `@a"3"|f0|c3|S0|d1|T1#`: BadType,
		head + "|g1|g1#": Duplicate, "@a3|a3|f0|c3|S0|d1|T1#": Duplicate, head + `|t"a"|t"a"#`: Duplicate, head + "|T1#": Duplicate,
		"@a3|f0|c3|S0|d1#": MissingHeader, "@f0|c3|S0|d1|T1#": MissingHeader, "@g1#": MissingHeader,
		"@aB|f0|c3|S0|d1|T1#": BadAct, "@aLygHa16AHYF|f0|c3|S0|d1|T1#": BadAct, "@aB|f5|c3|S0|d1|T1#": BadAct,
		"@a3|f5|c3|S0|d1|T1#": BadFrame,
		// The leftmost fault counts, and those of fields before those of the whole.
		"@x|g|g1#": UnknownPrefix, "@g|x#": BadInteger, "@aB|g1|g2#": Duplicate, "@aB#": MissingHeader, `@g1|g"x"#`: BadType,
	} {
		m := seedMessage()
		if err := (Codec{}).Parse(m, []byte(line)); class(err) != want {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

func TestParseRefusesEveryPrefix(t *testing.T) {
	var m Message
	for n := range len(seed) {
		if err := (Codec{}).Parse(&m, []byte(seed[:n])); class(err) != Framing {
			t.Errorf("%q: %v", seed[:n], err)
		}
	}
}

func TestBoundsOfAMessage(t *testing.T) {
	for extra, ok := range map[int]bool{0: true, 1: false} {
		line := []byte(seed + strings.Repeat(" ", 4096-len(seed)+extra))
		if err := (Codec{}).Parse(new(Message), line); ok != (err == nil) || !ok && class(err) != TooLong {
			t.Errorf("%d octets: %v", len(line), err)
		}
		m := seedMessage()
		m.Slots[3] = text(Tag, strings.Repeat("x", 256+extra))
		for _, write := range []func([]byte, *Message) ([]byte, error){Codec{}.Append, Codec{}.AppendBinary} {
			if dst, err := write([]byte("x"), m); ok != (err == nil) || !ok && (class(err) != TooLong || string(dst) != "x") {
				t.Errorf("a string of %d octets: %v", 256+extra, err)
			}
		}
		c := Codec{MaxMessage: len(seed) - extra}
		if dst, err := c.Append(nil, seedMessage()); ok != (err == nil) || !ok && (class(err) != TooLong || len(dst) > 0) {
			t.Errorf("%d octets: %v", len(seed), err)
		}
		c.MaxMessage = len(seedBinary)/2 - extra
		if dst, err := c.AppendBinary(nil, seedMessage()); ok != (err == nil) || !ok && (class(err) != TooLong || len(dst) > 0) {
			t.Errorf("%d octets: %v", len(seedBinary)/2, err)
		}
		octets, _ := hex.DecodeString(seedBinary)
		if err := c.ParseBinary(new(Message), octets); ok != (err == nil) || !ok && class(err) != TooLong {
			t.Errorf("%d octets: %v", len(octets), err)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Message)
		want   Class
	}{
		"an act of 11":             {func(m *Message) { m.Act = 11 }, BadAct},
		"a frame of 5":             {func(m *Message) { m.Frame = 5 }, BadFrame},
		"a free slot":              {func(m *Message) { m.Slots[0].Code = 4 }, UnknownPrefix},
		"a slot again":             {func(m *Message) { m.Slots[1].Code = GoalID }, Duplicate},
		"a string for an integer":  {func(m *Message) { m.Slots[0] = text(GoalID, "") }, BadType},
		"an integer for a string":  {func(m *Message) { m.Slots[3] = number(Tag, 1) }, BadType},
		"a line break":             {func(m *Message) { m.Slots[3] = text(Tag, "a\nb") }, BadString},
		"octets that are no UTF-8": {func(m *Message) { m.Slots[3] = text(Tag, "\xff") }, BadString},
	} {
		m := seedMessage()
		test.change(m)
		for _, write := range []func([]byte, *Message) ([]byte, error){Codec{}.Append, Codec{}.AppendBinary} {
			if dst, err := write([]byte("x"), m); class(err) != test.want || string(dst) != "x" {
				t.Errorf("%s: %s, %v, want %s", name, dst, err, test.want)
			}
		}
	}
}

func TestNoBarsIsForPeersThatSplitStrings(t *testing.T) {
	m := &Message{Slots: []Slot{text(Tag, "a|b")}}
	if line, err := (Codec{}).Append(nil, m); err != nil || string(line) != `@a0|f0|c0|S0|d0|T0|t"a|b"#` {
		t.Errorf("%s, %v", line, err)
	}
	if line, err := (Codec{NoBars: true}).Append(nil, m); class(err) != BadString || len(line) > 0 {
		t.Errorf("%s, %v", line, err)
	}
	if _, err := (Codec{NoBars: true}).AppendBinary(nil, m); err != nil {
		t.Errorf("binary: %v", err)
	}
}

func TestNamesOfCodes(t *testing.T) {
	for i := range acts {
		if a, ok := ActNamed(Act(i).String()); !ok || int(a) != i {
			t.Errorf("act %d is %v, %v", i, a, ok)
		}
	}
	for i := range frames {
		if f, ok := FrameNamed(Frame(i).String()); !ok || int(f) != i {
			t.Errorf("frame %d is %v, %v", i, f, ok)
		}
	}
	for _, s := range slots {
		if c, ok := CodeNamed(s.code.String()); !ok || c != s.code || !c.Known() || c.IsText() != s.text {
			t.Errorf("slot %d is %v, %v", s.code, c, ok)
		}
	}
	if Act(11).String() != "11" || Frame(5).String() != "5" || Code(4).String() != "4" || Code(4).Known() {
		t.Error("a free code has a name")
	}
	for _, name := range []string{"", "task", "11"} {
		_, act := ActNamed(name)
		_, frame := FrameNamed(name)
		_, code := CodeNamed(name)
		if act || frame || code {
			t.Errorf("%q is a name", name)
		}
	}
}

func TestCloneStaysValid(t *testing.T) {
	line := []byte(`@a3|f0|c3|S0|d1|T1|u"a\"b"|t"tag"#`)
	var m Message
	if err := (Codec{}).Parse(&m, line); err != nil {
		t.Fatal(err)
	}
	kept := m.Clone()
	want := m.Clone()
	clear(line)
	if err := (Codec{}).Parse(&m, []byte(`@a3|f0|c3|S0|d1|T1|u"x\\y"|t"z"#`)); err != nil {
		t.Fatal(err)
	}
	if diff := same(want, kept); diff != "" {
		t.Error(diff)
	}
}

func TestReadingAndWritingDoNotAllocate(t *testing.T) {
	line := []byte(` @a3|f0|c3|S0|d1|T1|gH|kg|q2|u"a \"word\""|t"refactor_auth|x"# `)
	var m Message
	if err := (Codec{}).Parse(&m, line); err != nil {
		t.Fatal(err)
	}
	octets, err := Codec{}.AppendBinary(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 256)
	var fault error
	for name, run := range map[string]func(){
		"Parse":        func() { fault = Codec{}.Parse(&m, line) },
		"ParseBinary":  func() { fault = Codec{}.ParseBinary(&m, octets) },
		"Append":       func() { dst, fault = Codec{}.Append(dst[:0], &m) },
		"AppendBinary": func() { dst, fault = Codec{}.AppendBinary(dst[:0], &m) },
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 || fault != nil {
			t.Errorf("%s: %v allocations, %v", name, n, fault)
		}
	}
}

// What can be read can be written, and its one form is read as the same, as text and
// as binary.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		seed, " @||T1|d1|S0|c3|f0|a3|# ", `@a3|f0|c3|S0|d1|T1|u"a|\"\\#"|t""#`, "@aA|f4|cLygHa16AHYF|S0|d1|T1#", "@a|f#", `@t"`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var m Message
		if err := (Codec{}).Parse(&m, line); err != nil {
			if class(err) == "" {
				t.Fatalf("%q: %v has no class", line, err)
			}
			return
		}
		bothForms(t, &m)
	})
}

func FuzzParseBinary(f *testing.F) {
	octets, _ := hex.DecodeString(seedBinary)
	f.Add(octets)
	f.Add([]byte{})
	f.Add([]byte("\x3a\x04\x08\x0c\x1a\x00\x40\x00\x4a\x01x"))
	f.Fuzz(func(t *testing.T, octets []byte) {
		var m Message
		if err := (Codec{}).ParseBinary(&m, octets); err != nil {
			if class(err) == "" {
				t.Fatalf("%x: %v has no class", octets, err)
			}
			return
		}
		bothForms(t, &m)
	})
}

// bothForms writes m as text and binary and reads them again.
func bothForms(t *testing.T, m *Message) {
	t.Helper()
	c := Codec{MaxMessage: 32 << 10, MaxString: 4 << 10} // escapes make it longer than what was read
	line, err := c.Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	var fromText, fromBinary Message
	if err := c.Parse(&fromText, line); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if diff := same(m, &fromText); diff != "" {
		t.Fatalf("%q: %s", line, diff)
	}
	octets, err := c.AppendBinary(nil, &fromText)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseBinary(&fromBinary, octets); err != nil {
		t.Fatalf("%x: %v", octets, err)
	}
	again, err := c.Append(nil, &fromBinary)
	if err != nil || !bytes.Equal(again, line) {
		t.Fatalf("%q became %q: %v", line, again, err)
	}
	if twice, err := c.AppendBinary(nil, &fromBinary); err != nil || !bytes.Equal(twice, octets) {
		t.Fatalf("%x became %x: %v", octets, twice, err)
	}
}
