package upstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// decoded is what a stream was taken for.
type decoded struct {
	Events []string // "kind|data"
	ID     string
	Retry  time.Duration
	Err    error
}

func noClock() func() { return func() {} }

func decodeAll(r io.Reader, limit int) (d decoded) {
	var at Position
	stream := newEvents(r, limit, &at, noClock)
	for {
		ev, err := stream.Next()
		if err != nil {
			d.ID, d.Retry, d.Err = at.ID, at.Retry, err
			return d
		}
		d.Events = append(d.Events, ev.Kind+"|"+string(ev.Data))
	}
}

func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	long := strings.Repeat("x", maxEventID)
	for name, tt := range map[string]struct {
		stream string
		want   decoded
	}{
		"one":                    {"data: {}\n\n", decoded{Events: []string{"|{}"}}},
		"no space":               {"data:{}\n\n", decoded{Events: []string{"|{}"}}},
		"one space is taken off": {"data:   {} \n\n", decoded{Events: []string{"|  {} "}}},
		"lines are joined":       {"data: {\ndata\ndata:  \"a\":1}\n\n", decoded{Events: []string{"|{\n\n \"a\":1}"}}},
		"CRLF":                   {"data: a\r\ndata: b\r\n\r\n", decoded{Events: []string{"|a\nb"}}},
		"CR":                     {"data: a\rdata: b\r\r", decoded{Events: []string{"|a\nb"}}},
		"mixed":                  {"data: a\rdata: b\n\r\ndata: c\n\n", decoded{Events: []string{"|a\nb", "|c"}}},
		"byte order mark":        {"\xef\xbb\xbfdata: a\n\ndata: \xef\xbb\xbfb\n\n", decoded{Events: []string{"|a", "|\xef\xbb\xbfb"}}},
		"half a mark":            {"\xef\xbbdata: a\n\ndata: b\n\n", decoded{Events: []string{"|b"}}},
		"kind":                   {"event: message\ndata: a\n\ndata: b\n\n", decoded{Events: []string{"message|a", "|b"}}},
		"comments":               {": ping\n\n:\ndata: a\n: between\ndata: b\n\n", decoded{Events: []string{"|a\nb"}}},
		"unknown fields":         {"foo: bar\ndata: a\nbar\n\n", decoded{Events: []string{"|a"}}},
		"cut off":                {"data: a\n\ndata: b\n", decoded{Events: []string{"|a"}}},
		"cut off with its id":    {"id: 1\ndata: a\n\nid: 2\ndata: b\n", decoded{Events: []string{"|a"}, ID: "1"}},
		"id without data":        {"id: 7\n\n", decoded{ID: "7"}},
		"priming event":          {"id: 7\ndata:\n\n", decoded{Events: []string{"|"}, ID: "7"}},
		"id stays":               {"id: 7\n\ndata: a\n\n", decoded{Events: []string{"|a"}, ID: "7"}},
		"id taken back":          {"id: 7\n\nid\ndata: a\n\n", decoded{Events: []string{"|a"}}},
		"id with NUL":            {"id: 7\n\nid: a\x00b\n\n", decoded{ID: "7"}},
		"longest id":             {"id: " + long + "\n\n", decoded{ID: long}},
		"longer id":              {"id: " + long + "x\n\n", decoded{}},
		"id for no header":       {"id: a\x01b\n\n", decoded{}},
		"retry":                  {"retry: 250\n\n", decoded{Retry: 250 * time.Millisecond}},
		"retry of other signs":   {"retry: -1\nretry: 1s\nretry: 99999999999999999999\n\n", decoded{}},
		"empty":                  {"", decoded{}},
		"empty lines":            {"\n\n\r\n\r\r", decoded{}},
	} {
		tt.want.Err = io.EOF
		for kind, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.stream), "octet by octet": iotest.OneByteReader(strings.NewReader(tt.stream)),
		} {
			if diff := cmp.Diff(tt.want, decodeAll(r, 1<<20), cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
				t.Errorf("%s, %s: %s", name, kind, diff)
			}
		}
	}
}

func TestSizeOfAnEventIsBounded(t *testing.T) {
	const limit = 1 << 16
	fits := "data: " + strings.Repeat("x", limit-len("data: ")) + "\n\n"
	for name, tt := range map[string]struct {
		stream string
		want   error
	}{
		"at the limit":            {fits + fits, io.EOF},
		"above the limit":         {"x" + fits, ErrTooLarge},
		"many lines":              {strings.Repeat("data: \n", limit/6+1) + "\n", ErrTooLarge},
		"a line without end":      {strings.Repeat("x", limit+1), ErrTooLarge},
		"a comment without end":   {":" + strings.Repeat("x", limit), ErrTooLarge},
		"comments in an event":    {"data: x\n" + strings.Repeat(": ping\n", limit/6+1), ErrTooLarge},
		"comments between events": {strings.Repeat(": ping\n", limit), io.EOF},
		"empty lines":             {strings.Repeat("\r\n", limit), io.EOF},
		"events without data":     {strings.Repeat("id: 1\n\n", limit), io.EOF},
	} {
		if d := decodeAll(strings.NewReader(tt.stream), limit); !errors.Is(d.Err, tt.want) {
			t.Errorf("%s: %v, want %v", name, d.Err, tt.want)
		}
	}
}

func TestACommentIsASignOfLifeAndHalfAnEventIsNot(t *testing.T) {
	started := 0
	stream := newEvents(strings.NewReader(": a\n: b\nid: 1\ndata: x\n\ndata: y\n\n"), 1<<10, &Position{}, func() func() {
		started++
		return func() {}
	})
	for _, want := range []int{3, 4} { // one for each comment, one for each event
		if _, err := stream.Next(); err != nil || started != want {
			t.Errorf("the clock was started %d times, want %d; error %v", started, want, err)
		}
	}
}

func FuzzSplitReadsDoNotChangeEvents(f *testing.F) {
	f.Add("\xef\xbb\xbfid: 1\r\nevent: message\rdata: {}\n\n: c\n\nretry: 5\ndata\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole := decodeAll(strings.NewReader(stream), 1<<10)
		halves := decodeAll(iotest.HalfReader(strings.NewReader(stream)), 1<<10)
		octets := decodeAll(iotest.OneByteReader(strings.NewReader(stream)), 1<<10)
		same := cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })
		if diff := cmp.Diff(whole, halves, same) + cmp.Diff(whole, octets, same); diff != "" {
			t.Error(diff)
		}
	})
}
