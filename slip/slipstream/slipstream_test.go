package slipstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slimwire/swp/slip/ucr"
	"github.com/slimwire/swp/vectors/datatest"
)

func anchor(t *testing.T, mnemonic string) ucr.Anchor {
	t.Helper()
	a, ok := ucr.CoreNamed(mnemonic)
	if !ok {
		t.Fatalf("no anchor %s", mnemonic)
	}
	return a
}

func class(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ""
}

func TestParse(t *testing.T) {
	review := anchor(t, "RequestReview")
	for line, want := range map[string]Message{
		"SLIP v1 a b RequestReview":            {Src: "a", Dst: "b", Anchor: review},
		" \r\n\tSLIP v1 a b RequestReview\n":   {Src: "a", Dst: "b", Anchor: review},
		"SLIP  v1 a-1 b_2.c RequestReview   x": {Src: "a-1", Dst: "b_2.c", Anchor: review, Payload: []Token{{"x", false}}},
		`SLIP v1 a b RequestReview thread007 thread8 ""`: {Src: "a", Dst: "b", Anchor: review, Thread: "007",
			Payload: []Token{{"thread8", false}, {"", true}}},
		`SLIP v1 a b RequestReview "thread7" threading_bug thread`: {Src: "a", Dst: "b", Anchor: review,
			Payload: []Token{{"thread7", true}, {"threading_bug", false}, {"thread", false}}},
		`SLIP v1 a b RequestReview {x}=[@#|] back\slash`: {Src: "a", Dst: "b", Anchor: review,
			Payload: []Token{{"{x}=[@#|]", false}, {`back\slash`, false}}},
		`SLIP v1 a b RequestReview "two  blanks" "Größe ✓"`: {Src: "a", Dst: "b", Anchor: review,
			Payload: []Token{{"two  blanks", true}, {"Größe ✓", true}}},
	} {
		m, err := Codec{}.Parse(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if diff := cmp.Diff(&want, m, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

// PR-18: what hides an index, a second line or another quoting is refused.
func TestPR18ParseRefuses(t *testing.T) {
	for line, want := range map[string]Class{
		"":                                TooFewTokens,
		"   ":                             TooFewTokens,
		"SLIP v1 a b":                     TooFewTokens,
		"SLIP\tv1 a b RequestReview":      BadDelimiter,
		"SLIP v1 a b RequestReview\nx":    BadDelimiter,
		"SLIP v1 a b RequestReview \x00x": BadDelimiter,
		"SLIP v1 a b RequestReview \x7f":  BadDelimiter,
		"SLIP v1 a b RequestReview \xff":  BadDelimiter,
		"SLIP v1 a b Fallback \"a\nb\"":   BadDelimiter,
		`SLIP v1 a b Fallback "a`:         BadQuote,
		`SLIP v1 a b Fallback "a"b`:       BadQuote,
		`SLIP v1 a b Fallback a"b`:        BadQuote,
		`SLIP v1 a b Fallback "a""b"`:     BadQuote,
		`SLIP v1 a b Fallback "a\"b"`:     BadQuote,
		`SLIP v1 a b Fallback "a\\"`:      BadQuote,
		`SLIP "`:                          BadQuote,
		"slip v1 a b RequestReview":       BadMarker,
		`"SLIP" v1 a b RequestReview`:     BadMarker,
		"SLIP v2 a b RequestReview":       BadVersion,
		`SLIP "v1" a b RequestReview`:     BadVersion,
		"SLIP v01 a b RequestReview":      BadVersion,
		"SLIP v1 a@x b RequestReview":     BadAgentID,
		"SLIP v1 a b/c RequestReview":     BadAgentID,
		"SLIP v1 a ä RequestReview":       BadAgentID,
		`SLIP v1 a "b" RequestReview`:     BadAgentID,
		"SLIP v1 a b 0x0032":              HexAnchor,
		"SLIP v1 a b 0XFF":                HexAnchor,
		"SLIP v1 a b Request-Review":      BadAnchor,
		`SLIP v1 a b "RequestReview"`:     BadAnchor,
		"SLIP v1 a b requestreview":       UnknownAnchor,
		"SLIP v1 a b LaunchRocket":        UnknownAnchor,
	} {
		m, err := Codec{}.Parse(line)
		if class(err) != want {
			t.Errorf("%q: %+v, %v, want %s", line, m, err, want)
		}
	}
}

func TestBoundsOfALine(t *testing.T) {
	c := Codec{MaxText: 40, MaxTokens: 3}
	head := "SLIP v1 a b RequestReview"
	for line, ok := range map[string]bool{
		head + " 1 2 3":                                true,
		head + " thread1 1 2 3":                        true,
		head + " 1 2 3 4":                              false,
		head + " thread1 1 2 3 4":                      false,
		head + " thread1 1 2 3 4 5":                    false,
		head + strings.Repeat(" ", 40-len(head)):       true,
		head + strings.Repeat(" ", 41-len(head)):       false,
		head + " " + strings.Repeat("x", 39-len(head)): true,
	} {
		m, err := c.Parse(line)
		if ok != (err == nil) || !ok && class(err) != TooLong {
			t.Errorf("%q: %v", line, err)
		}
		if ok {
			if _, err := c.Append(nil, m); err != nil {
				t.Errorf("%q cannot be written: %v", line, err)
			}
		}
	}
	long := Say("a", "b", "RequestReview", strings.Repeat("x", 39-len(head)))
	if line, err := c.Append(nil, long); err != nil || len(line) != 40 {
		t.Errorf("%d octets, %v", len(line), err)
	}
	long.Payload[0].Text += "x"
	if dst, err := c.Append([]byte("kept"), long); class(err) != TooLong || string(dst) != "kept" {
		t.Errorf("%s, %v", dst, err)
	}
	if _, err := c.Append(nil, Say("a", "b", "RequestReview", "1", "2", "3", "4")); class(err) != TooLong {
		t.Error(err)
	}
}

func TestAppend(t *testing.T) {
	for want, m := range map[string]*Message{
		"SLIP v1 planner reviewer RequestReview auth_module": Say("planner", "reviewer", "RequestReview", "auth_module"),
		`SLIP v1 a b InformStatus "thread7" "two words" ""`:  Say("a", "b", "InformStatus", "thread7", "two words", ""),
		"SLIP v1 a b InformStatus thread7 thread8":           {Src: "a", Dst: "b", Anchor: ucr.Anchor{Mnemonic: "InformStatus"}, Thread: "7", Payload: []Token{{"thread8", false}}},
		`SLIP v1 devops sre Fallback "check the pod logs"`:   Plain("devops", "sre", "check the pod logs"),
	} {
		line, err := Codec{}.Append(nil, m)
		if err != nil || string(line) != want {
			t.Errorf("%s, %v, want %s", line, err, want)
			continue
		}
		if back, err := (Codec{}).Parse(want); err != nil {
			t.Errorf("%s: %v", want, err)
		} else if diff := cmp.Diff(m, back, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(ucr.Anchor{}, "Index", "Canonical", "Coords")); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Message)
		want   Class
	}{
		"an agent with a blank":     {func(m *Message) { m.Src = "a b" }, BadAgentID},
		"no agent":                  {func(m *Message) { m.Dst = "" }, BadAgentID},
		"an index":                  {func(m *Message) { m.Anchor.Mnemonic = "0x0032" }, HexAnchor},
		"an unknown anchor":         {func(m *Message) { m.Anchor.Mnemonic = "Ping" }, UnknownAnchor},
		"no anchor":                 {func(m *Message) { m.Anchor = ucr.Anchor{} }, BadAnchor},
		"a thread of letters":       {func(m *Message) { m.Thread = "x" }, BadToken},
		"a lenient token":           {func(m *Message) { m.Payload = []Token{{"a:b", false}} }, BadToken},
		"an empty token":            {func(m *Message) { m.Payload = []Token{{"", false}} }, BadToken},
		"a token like a thread":     {func(m *Message) { m.Payload = []Token{{"thread1", false}} }, BadToken},
		"a quote":                   {func(m *Message) { m.Payload = []Token{{`"`, true}} }, BadToken},
		"a backslash":               {func(m *Message) { m.Payload = []Token{{`\`, true}} }, BadToken},
		"a line break":              {func(m *Message) { m.Payload = []Token{{"a\nb", true}} }, BadToken},
		"octets that are no UTF-8":  {func(m *Message) { m.Payload = []Token{{"\xff", true}} }, BadToken},
		"a Fallback without a text": {func(m *Message) { m.Anchor.Mnemonic, m.Payload = Fallback, nil }, BadToken},
		"a Fallback of two":         {func(m *Message) { m.Anchor.Mnemonic, m.Payload = Fallback, []Token{{"a", true}, {"b", true}} }, BadToken},
		"a Fallback without quotes": {func(m *Message) { m.Anchor.Mnemonic, m.Payload = Fallback, []Token{{"a", false}} }, BadToken},
	} {
		m := Say("a", "b", "RequestReview", "x")
		test.change(m)
		if line, err := (Codec{}).Append(nil, m); class(err) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, line, err, test.want)
		}
	}
}

func TestAnchorsOfAnInstallation(t *testing.T) {
	table, err := ucr.NewTable(ucr.Anchor{Index: 0x8000, Mnemonic: "ScaleCluster", Canonical: "Scale it"})
	if err != nil {
		t.Fatal(err)
	}
	c := Codec{Table: table}
	line, err := c.Append(nil, Say("a", "b", "ScaleCluster", "3"))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.Parse(string(line)); err != nil || m.Anchor.Index != 0x8000 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := (Codec{}).Parse(string(line)); class(err) != UnknownAnchor {
		t.Error(err)
	}
}

func TestParseIntoDoesNotAllocate(t *testing.T) {
	long := `SLIP v1 planner reviewer RequestReview thread7 auth_module {x}:1 "two words" 2 3`
	m := new(Message)
	if err := (Codec{}).ParseInto(m, long); err != nil {
		t.Fatal(err)
	}
	var fault error
	if n := testing.AllocsPerRun(100, func() { fault = Codec{}.ParseInto(m, long) }); n != 0 || fault != nil {
		t.Errorf("%v allocations, %v", n, fault)
	}
}

func TestParseIntoForgetsWhatWasThere(t *testing.T) {
	m := new(Message)
	for _, line := range []string{"SLIP v1 a b MetaAck thread7 x y z", "SLIP v1 c d Accept", "SLIP v1 a b Fallback \"x\""} {
		want, err := Codec{}.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := (Codec{}).ParseInto(m, line); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

// What can be read can be written again, but for what is lenient; what was written is
// read as the same.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"SLIP v1 a b RequestReview x", `SLIP v1 a b Fallback "a b"`, "SLIP v1 a b MetaAck thread1 thread2", ` SLIP  v1 a b Accept "" {x}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, err := Codec{}.Parse(line)
		if err != nil {
			if class(err) == "" {
				t.Fatalf("%q: %v has no class", line, err)
			}
			return
		}
		written, err := Codec{}.Append(nil, m)
		if err != nil {
			if class(err) != BadToken {
				t.Fatalf("%q: %v", line, err)
			}
			return
		}
		again, err := Codec{}.Parse(string(written))
		if err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		if diff := cmp.Diff(m, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q: %s", written, diff)
		}
	})
}

func TestLinesOfTheSharedData(t *testing.T) {
	type line struct {
		ID, Wire, Profile string
		Decoded           struct {
			Src, Dst string
			Anchor   struct {
				Index               uint16
				Mnemonic, Canonical string
				Coords              ucr.Coords
			}
			Thread  *string
			Payload []Token
		}
	}
	n, written := 0, 0
	datatest.Rows(t, "slip/slip-v1.jsonl", func(row line) {
		n++
		d := row.Decoded
		want := &Message{Src: d.Src, Dst: d.Dst, Anchor: ucr.Anchor(d.Anchor), Payload: d.Payload}
		if d.Thread != nil {
			want.Thread = *d.Thread
		}
		m, err := Codec{}.Parse(row.Wire)
		if err != nil {
			t.Errorf("%s: %v", row.ID, err)
			return
		}
		if diff := cmp.Diff(want, m, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", row.ID, diff)
		}
		back, err := Codec{}.Append(nil, m)
		unquoted := m.Anchor.Mnemonic == Fallback && (len(m.Payload) != 1 || !m.Payload[0].Quoted)
		switch {
		case row.Profile == "strict" && !unquoted:
			written++
			if err != nil || string(back) != row.Wire {
				t.Errorf("%s: %s, %v", row.ID, back, err)
			}
		case unquoted && class(err) != BadToken:
			t.Errorf("%s: a Fallback in pieces was written: %v", row.ID, err)
		}
	})
	if n != 205 || written == 0 {
		t.Errorf("%d rows, want 205; %d written again", n, written)
	}
	t.Logf("%d rows read, %d written again", n, written)
}

func TestMalformedLinesOfTheSharedData(t *testing.T) {
	n := 0
	datatest.Rows(t, "slip/malformed.jsonl", func(row struct {
		ID, Format, Input, Error string
		ErrorAny                 []string `json:"error_any"`
	}) {
		if row.Format != "slip-v1" {
			return
		}
		n++
		_, err := Codec{}.Parse(row.Input)
		for _, want := range append(row.ErrorAny, row.Error) {
			if string(class(err)) == want {
				return
			}
		}
		t.Errorf("%s: %v, want %s", row.ID, err, row.Error)
	})
	if n != 17 {
		t.Errorf("%d rows, want 17", n)
	}
}
