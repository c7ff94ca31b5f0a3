package boundlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/internal/effort"
)

// TestErrorsAreWrittenWithoutNamesOfPackages logs an error that came through packages.
func TestErrorsAreWrittenWithoutNamesOfPackages(t *testing.T) {
	var out bytes.Buffer
	log, stop := New(Options{Level: zapcore.DebugLevel, Output: zapcore.AddSync(&out)})
	log.Warn("it failed", zap.Error(errors.New("sqlstore: relay: no room")), zap.String("name", "relay: x"))
	stop()
	if got := out.String(); !strings.Contains(got, `"error":"no room"`) || !strings.Contains(got, `"name":"relay: x"`) {
		t.Errorf("%s", got)
	}
}

func lines(t *testing.T, out []byte) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range bytes.Lines(out) {
		if len(line) > 8<<10 {
			t.Errorf("line of %d octets", len(line))
		}
		for _, r := range string(bytes.TrimSuffix(line, []byte("\n"))) {
			if unicode.IsControl(r) {
				t.Errorf("raw control character %U", r)
			}
		}
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, object)
	}
	return list
}

var nasty = []string{
	"plain", "", "a\r\nb", "\x1b[31mred\x1b[0m", "\x00", `quotes " and \ backslashes`, "\x9b31m", "\u009b31m", "\u2028\u2029",
	"\u202eright to left", "\xff\xfe", "é", "\ufffd", "<script>&", strings.Repeat("x", 1<<20), strings.Repeat("\x01", 1<<20),
	strings.Repeat(`"`, 1<<20), strings.Repeat("é", 200), strings.Repeat("<", 300), strings.Repeat("\xff", 300), strings.Repeat("a", MaxValue), strings.Repeat("a", MaxValue+1),
}

func TestOP01EveryLineIsOneBoundedObjectWithoutControlBytes(t *testing.T) {
	effort.Unwatched(t)
	for _, s := range nasty {
		var out bytes.Buffer
		log, stop := New(Options{Output: &out})
		var many []zap.Field
		for range 40 {
			many = append(many, zap.String("key_of_usual_length", s))
		}
		log.Named(Reject).Warn(s, zap.String("a", s), zap.ByteString("b", []byte(s)), zap.Error(errors.New(s)), zap.Any("c", map[string]string{"k": s}),
			zap.Strings("d", []string{s, s}), zap.Binary("e", []byte(s)))
		log.With(zap.String("peer", s)).Info("many", many...)
		stop()
		got := lines(t, out.Bytes())
		if len(got) != 2 {
			t.Fatalf("%d lines, want 2", len(got))
		}
		for line := range bytes.Lines(out.Bytes()) {
			var values map[string]json.RawMessage
			if err := json.Unmarshal(line, &values); err != nil {
				t.Fatal(err)
			}
			for key, raw := range values {
				if len(raw) > MaxValue+2 { // and its quotes
					t.Errorf("%.20q: %s has %d octets", s, key, len(raw))
				}
			}
		}
	}
}

func TestTheFormOfLinesChangesForTheNextOne(t *testing.T) {
	var out bytes.Buffer
	text := new(atomic.Bool)
	log, stop := New(Options{Output: &out, Text: text})
	defer stop()
	for _, people := range []bool{false, true, false} {
		text.Store(people)
		out.Reset()
		log.Named(MCP).With(zap.Int("n", 1)).Info("said")
		if json.Valid(out.Bytes()) == people || !strings.Contains(out.String(), "said") {
			t.Errorf("text %v: %q", people, out.String())
		}
	}
}

func TestTextHasOneLineAnEntry(t *testing.T) {
	for _, s := range nasty {
		var out bytes.Buffer
		text := new(atomic.Bool)
		text.Store(true)
		log, stop := New(Options{Output: &out, Text: text})
		log.Warn(s, zap.String("a", s), zap.Error(errors.New(s)))
		stop()
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 || out.Len() > 8<<10 {
			t.Errorf("%.20q: %d lines, %d octets", s, n, out.Len())
		}
		for _, r := range strings.TrimSuffix(out.String(), "\n") {
			if unicode.IsControl(r) || r == utf8.RuneError && !strings.Contains(s, "\ufffd") {
				t.Errorf("%.20q: raw %U", s, r)
			}
		}
	}
}

func TestCleanKeepsWhatFits(t *testing.T) {
	for _, s := range []string{"", "plain", "é", "\ufffd", strings.Repeat("a", MaxValue), `a "b" c`} {
		if got := Clean(s); got != s {
			t.Errorf("Clean(%q) = %q", s, got)
		}
	}
}

func TestOP01AFloodLeavesAtMostAHundredLinesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, stop := New(Options{Output: &out})
		var flood sync.WaitGroup
		const seconds, perSecond = 3, 500
		for _, name := range []string{Reject, Security, Session, MCP, ""} {
			flood.Go(func() {
				l := log.Named(name)
				for range seconds * perSecond {
					l.Warn("flood")
					time.Sleep(time.Second / perSecond)
				}
			})
		}
		flood.Wait()
		stop()
		var times []time.Time
		var written, left float64
		for _, line := range lines(t, out.Bytes()) {
			ts, err := time.Parse(time.RFC3339Nano, line["ts"].(string))
			if err != nil {
				t.Fatal(err)
			}
			times = append(times, ts)
			if line["msg"] == "flood" {
				written++
				continue
			}
			for _, name := range []string{Reject, Security, Session, MCP, "other"} {
				n, _ := line[name].(float64)
				left += n
			}
		}
		for i, ts := range times {
			n := 0
			for _, later := range times[i:] {
				if later.Sub(ts) < time.Second {
					n++
				}
			}
			if n > 100 {
				t.Fatalf("%d lines in the second after %v", n, ts)
			}
		}
		if total := written + left; total != 5*seconds*perSecond {
			t.Errorf("%v lines written and %v counted, want %v together", written, left, 5*seconds*perSecond)
		}
	})
}

func TestOneClassDoesNotSilenceAnother(t *testing.T) {
	var out bytes.Buffer
	log, stop := New(Options{Output: &out})
	for range 1000 {
		log.Named(Reject).Warn("flood")
	}
	log.Named(Security).Warn("event")
	stop()
	if !strings.Contains(out.String(), `"msg":"event"`) {
		t.Error("the security event is missing")
	}
}

func TestLevel(t *testing.T) {
	var out bytes.Buffer
	log, stop := New(Options{Output: &out, Level: zapcore.WarnLevel})
	log.Info("no")
	log.Warn("yes")
	stop()
	if got := lines(t, out.Bytes()); len(got) != 1 || got[0]["msg"] != "yes" {
		t.Errorf("lines %v", got)
	}
}
