package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/vectors/datatest"
)

// run runs the command line with an input and returns the lines of its output.
func run(t *testing.T, input []byte, want int, args ...string) []string {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := Main("test", args, bytes.NewReader(input), &out, &errOut); code != want {
		t.Fatalf("%v: exit code %d, want %d\n%s", args, code, want, errOut.Bytes())
	}
	return slices.Collect(strings.Lines(out.String()))
}

// slipRow is a row of any of the files.
type slipRow struct {
	ID, Wire, Format, Input, Error, Canonical, Profile string

	ErrorAny          []string `json:"error_any"`
	Decoded, Expected json.RawMessage
}

func rowsOf(t *testing.T, octets []byte) (rows []slipRow) {
	t.Helper()
	for line := range bytes.Lines(octets) {
		var r slipRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// exact reads JSON with its numbers as they are written.
func exact(t *testing.T, octets string) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(octets))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", octets, err)
	}
	return v
}

func TestDecodeEveryRowOfTheSharedData(t *testing.T) {
	total := 0
	for name, n := range map[string]int{"nslip.jsonl": 165, "slip-v1.jsonl": 205, "malformed.jsonl": 42, "slip-a2a.jsonl": 20} {
		octets := datatest.Read(t, "slip/"+name)
		rows := rowsOf(t, octets)
		lines := run(t, octets, cli.ExitOK, "slip", "decode", "--jsonl")
		if len(rows) != n || len(lines) != n {
			t.Errorf("%s: %d lines for %d rows, want %d", name, len(lines), len(rows), n)
			continue
		}
		for i, r := range rows {
			var expected struct{ Error string }
			if r.Expected != nil {
				if err := json.Unmarshal(r.Expected, &expected); err != nil {
					t.Fatal(err)
				}
				r.Decoded, r.Error = r.Expected, expected.Error
			}
			if r.Error == "" {
				want := `{"ok":true,"message":` + string(r.Decoded) + `}`
				if diff := cmp.Diff(exact(t, want), exact(t, lines[i])); diff != "" {
					t.Errorf("%s: %s", r.ID, diff)
				}
			} else if !slices.ContainsFunc(append(r.ErrorAny, r.Error), func(class string) bool {
				return lines[i] == `{"ok":false,"error":"`+class+"\"}\n"
			}) {
				t.Errorf("%s: %s, want %s", r.ID, lines[i], r.Error)
			}
			total++
		}
	}
	t.Logf("%d rows", total)
}

// What has no line break is the same as lines of text.
func TestDecodeTheSharedDataAsLines(t *testing.T) {
	for name, format := range map[string]string{"nslip.jsonl": "nslip", "slip-v1.jsonl": "slip-v1", "malformed.jsonl": "nslip"} {
		octets := datatest.Read(t, "slip/"+name)
		want := run(t, octets, cli.ExitOK, "slip", "decode", "--jsonl")
		var text bytes.Buffer
		var kept []string
		for i, r := range rowsOf(t, octets) {
			wire := r.Wire + r.Input
			if strings.Contains(wire, "\n") || r.Format != "" && r.Format != format {
				continue
			}
			text.WriteString(wire + "\n")
			kept = append(kept, want[i])
		}
		if diff := cmp.Diff(kept, run(t, text.Bytes(), cli.ExitOK, "slip", "decode", "--format", format)); diff != "" || len(kept) < 25 {
			t.Errorf("%s: %d lines: %s", name, len(kept), diff)
		}
	}
}

func TestEncodeTheSharedData(t *testing.T) {
	for name, test := range map[string]struct{ same, other, code int }{"nslip.jsonl": {165, 0, cli.ExitOK}, "slip-v1.jsonl": {139, 66, cli.ExitFailed}} {
		octets := datatest.Read(t, "slip/"+name)
		decoded := strings.Join(run(t, octets, cli.ExitOK, "slip", "decode", "--jsonl"), "")
		lines := run(t, []byte(decoded), test.code, "slip", "encode", "--jsonl")
		same, other := 0, 0
		for i, r := range rowsOf(t, octets) {
			var got struct {
				OK          bool
				Wire, Error string
			}
			if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
				t.Fatal(err)
			}
			if r.Canonical != "" {
				r.Wire = r.Canonical
			}
			switch {
			case got.Wire == r.Wire:
				same++
			case r.Profile == "" || r.Profile == "strict" && !strings.Contains(r.Wire, " Fallback "):
				t.Errorf("%s: %s, want %s", r.ID, lines[i], r.Wire)
			default: // a Fallback in pieces, runs of blanks, or tokens that are not written
				other++
			}
		}
		if same != test.same || other != test.other {
			t.Errorf("%s: %d the same, %d others, want %+v", name, same, other, test)
		}
	}
}

func TestUCRHashesOfTheSharedData(t *testing.T) {
	for _, name := range []string{"ucrhash.jsonl", "ucr-1.0.0.json"} {
		var want []string
		octets := datatest.Read(t, "slip/"+name)
		for dec := json.NewDecoder(bytes.NewReader(octets)); ; {
			var r struct{ UCRHash string }
			if dec.Decode(&r) != nil {
				break
			}
			want = append(want, r.UCRHash+"\n")
		}
		if diff := cmp.Diff(want, run(t, octets, cli.ExitOK, "slip", "ucr", "-")); diff != "" || len(want) == 0 {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDecodeBoundsLines(t *testing.T) {
	long := bytes.Repeat([]byte("x"), maxSLIPLine-1)
	input := slices.Concat(long, []byte("\n"), long, []byte("xx\n\nSLIP v1 a b MetaAck"))
	lines := run(t, input, cli.ExitOK, "slip", "decode", "--format", "nslip")
	want := []string{refused("too_long"), refused("too_long"), refused("framing"), refused("framing")}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	lines = run(t, input, cli.ExitOK, "slip", "decode", "--jsonl")
	want = []string{refused("bad_json"), refused("too_long"), refused("bad_json"), refused("bad_json")}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func refused(class string) string { return `{"ok":false,"error":"` + class + "\"}\n" }
