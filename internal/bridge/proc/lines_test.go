package proc

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all reads lines to the end of input.
func all(l *Lines) (lines []string, err error) {
	for {
		line, err := l.Next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

func TestLinesAreTheSameHoweverTheyArrive(t *testing.T) {
	text := "one\r\n\n" + strings.Repeat("x", 3*smallLine) + "\ntwo\rthree\r\r\n" + strings.Repeat("short\n", 1000) + "rest\r"
	want := append([]string{"one", "", strings.Repeat("x", 3*smallLine), "two\rthree\r"}, slices.Repeat([]string{"short"}, 1000)...)
	for name, split := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "octets": iotest.OneByteReader, "halves": iotest.HalfReader, "with the error": iotest.DataErrReader,
	} {
		l := &Lines{R: split(strings.NewReader(text)), Limit: 1 << 20}
		lines, err := all(l)
		if !errors.Is(err, io.EOF) || !slices.Equal(lines, want) {
			t.Errorf("%s: %d lines, want %d; error %v", name, len(lines), len(want), err)
		}
		if got := string(l.Rest()); got != "rest\r" {
			t.Errorf("%s: rest %q", name, got)
		}
	}
}

func TestLinesAboveTheLimitAreAnError(t *testing.T) {
	const limit = 40_000 // not a size of the buffer
	for n, want := range map[int]error{limit: io.EOF, limit + 1: ErrLineTooLong} {
		for _, end := range []string{"\n", ""} {
			l := &Lines{R: strings.NewReader("first\n" + strings.Repeat("x", n) + end), Limit: limit}
			lines, err := all(l)
			if !errors.Is(err, want) || lines[0] != "first" {
				t.Errorf("%d octets and %q: %d lines, error %v, want %v", n, end, len(lines), err, want)
			}
		}
	}
}

func TestLinesDoNotKeepALargeBuffer(t *testing.T) {
	l := &Lines{R: strings.NewReader(strings.Repeat("x", 1<<20) + "\n"), Limit: 1 << 21}
	if _, err := all(l); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if cap(l.buf) != smallLine {
		t.Errorf("a buffer of %d octets is kept", cap(l.buf))
	}
}

func TestErrorLinesAreCut(t *testing.T) {
	text := "one\r\n\n" + strings.Repeat("y", MaxErrorLine) + "\n" + strings.Repeat("z", MaxErrorLine+1) + "\nlast"
	want := []string{"one", "", strings.Repeat("y", MaxErrorLine), strings.Repeat("z", MaxErrorLine), "last"}
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		var got []string
		e := Errors{Line: func(line string) { got = append(got, line) }}
		e.Drain(r)
		if !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
	}
}

// The last lines say why a process ended, also one that writes more than is logged.
func TestTheLastLinesOfStandardErrorAreKeptAndMasked(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "line %d of many\n\n", i)
	}
	text.WriteString("API_KEY=hunter2\n-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\nFATAL: no more\n")
	passed, over := 0, 0
	e := Errors{Line: func(string) { passed++ }, Over: func() { over++ }}
	e.Drain(strings.NewReader(text.String()))
	want := []string{"line 995 of many", "line 996 of many", "line 997 of many", "line 998 of many", "line 999 of many", "API_KEY=[masked]", "[masked]", "[masked]", "[masked]", "FATAL: no more"}
	if got := e.Last(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if passed < paceLines || over == 0 || passed+over != 2005 {
		t.Errorf("%d lines were passed on, %d were not", passed, over)
	}
	long := Errors{Line: func(string) {}}
	long.Drain(strings.NewReader(strings.Repeat(strings.Repeat("x", 900)+"\n", 5)))
	if got := long.Last(); len(got) != 2 {
		t.Errorf("%d lines of 900 octets are kept, want 2", len(got))
	}
	if got := new(Errors).Last(); len(got) != 0 {
		t.Errorf("%q is kept of nothing", got)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("one\r\ntwo\n\nrest", uint8(3))
	f.Add(strings.Repeat("x", 100)+"\n", uint8(1))
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		l := &Lines{R: &steps{text, int(step)}, Limit: 64}
		lines, err := all(l)
		whole := strings.Split(text, "\n")
		i := slices.IndexFunc(whole, func(line string) bool { return len(line) > 64 })
		if i < 0 {
			i = len(whole) - 1
			if !errors.Is(err, io.EOF) || string(l.Rest()) != whole[i] {
				t.Fatalf("rest %q, want %q; error %v", l.Rest(), whole[i], err)
			}
		} else if !errors.Is(err, ErrLineTooLong) {
			t.Fatalf("error %v", err)
		}
		for k := range whole[:i] {
			whole[k] = strings.TrimSuffix(whole[k], "\r")
		}
		if !slices.Equal(lines, whole[:i]) {
			t.Fatalf("lines %q, want %q", lines, whole[:i])
		}
	})
}

// steps reads a text a few octets at a time.
type steps struct {
	text string
	step int
}

func (s *steps) Read(b []byte) (int, error) {
	if s.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.step+1)], s.text)
	s.text = s.text[n:]
	return n, nil
}

func TestRS15ALongLineIsPaidForBeforeItIsRead(t *testing.T) {
	const limit = 1 << 20
	errNone := errors.New("no room")
	for _, size := range []int{100, 64 << 10, limit} {
		for _, room := range []int{3 * limit, size / 2} {
			paid, most := 0, 0
			lines := Lines{R: strings.NewReader(strings.Repeat("x", size) + "\nshort\n"), Limit: limit, Pay: func(n int) error {
				if n > 0 && paid+n > room {
					return errNone
				}
				paid += n
				most = max(most, paid)
				return nil
			}}
			line, err := lines.Next()
			fits := size <= 16<<10 || room > size
			switch {
			case !fits && err != errNone: //nolint:errorlint // as it is
				t.Errorf("%d octets with room for %d: %v", size, room, err)
			case fits && (err != nil || len(line) != size):
				t.Errorf("%d octets with room for %d: %d octets, %v", size, room, len(line), err)
			case fits && size > 16<<10 && paid < size:
				t.Errorf("%d octets are read, and %d paid for", size, paid)
			}
			if fits {
				if line, err = lines.Next(); err != nil || string(line) != "short" {
					t.Errorf("then %q, %v", line, err)
				}
				if _, err = lines.Next(); err != io.EOF || paid != 0 {
					t.Errorf("%d octets are paid for after a short line: %v", paid, err)
				}
			}
			if lines.Close(); paid != 0 {
				t.Errorf("%d octets are paid for after the end", paid)
			}
		}
	}
}
