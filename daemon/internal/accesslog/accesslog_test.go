package accesslog

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gathered is an output that may be closed for a while.
type gathered struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	closed chan struct{} // Write waits for it; nil: it does not
}

func (g *gathered) Write(p []byte) (int, error) {
	if g.closed != nil {
		<-g.closed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

// lines returns what was written, an object a line.
func (g *gathered) lines(t *testing.T) (list []map[string]any) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for line := range bytes.Lines(g.buf.Bytes()) {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, object)
	}
	return list
}

func line(identity string, denied bool) *Line {
	l := &Line{Time: time.Now(), Identity: identity, Profile: "rpc", Operation: "call", Name: "m", Outcome: "ok", Denied: denied, In: 1, Out: 2, Took: time.Millisecond}
	if denied {
		l.Outcome = "denied"
	}
	return l
}

func TestOffWritesNothing(t *testing.T) {
	var out gathered
	l := New(Options{Output: &out})
	l.Write(line("a", true))
	l.Close()
	if got := out.lines(t); len(got) > 0 || l.Wants(true) {
		t.Errorf("lines %v", got)
	}
}

func TestDeniedIsBoundedForEachIdentityAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out gathered
		l := New(Options{Output: &out})
		l.Use(Denied)
		for range DeniedRate + 1 {
			l.Write(line("loud", true))
			l.Write(line("loud", false)) // not denied: no line, and nothing left out
		}
		l.Write(line("quiet", true))
		time.Sleep(told)
		l.Write(line("loud", true)) // a second later there is room again
		synctest.Wait()
		l.Close()
		count := make(map[any]int)
		var left float64
		for _, object := range out.lines(t) {
			count[object["peer"]]++
			if n, ok := object["rate"].(float64); ok {
				left += n
			}
		}
		if count["loud"] != DeniedRate+1 || count["quiet"] != 1 || left != 1 {
			t.Errorf("lines by peer %v, %v said to be left out", count, left)
		}
		if got := l.Left(); got != (Left{Rate: 1}) || l.Lines() != DeniedRate+2 {
			t.Errorf("%d lines, left out %+v", l.Lines(), got)
		}
	})
}

func TestManyIdentitiesShareWhatIsLeft(t *testing.T) {
	var r rates
	now := time.Unix(1, 0)
	for i := range maxRates {
		if !r.pass(strings.Repeat("x", i+1), now) {
			t.Fatal("an identity of its own has no line")
		}
	}
	passed := 0
	for i := range 2 * DeniedRate {
		if r.pass(strings.Repeat("y", i+1), now) {
			passed++
		}
	}
	if passed != DeniedRate || len(r.used) > maxRates+1 {
		t.Errorf("%d lines beyond the bound, %d identities", passed, len(r.used))
	}
	if !r.pass("y", now.Add(time.Second)) || len(r.used) != 1 {
		t.Errorf("a new second begins with %d identities", len(r.used))
	}
}

func TestAStalledWriterHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := gathered{closed: make(chan struct{})}
		l := New(Options{Output: &out})
		l.Use(All)
		l.Write(line("first", false))
		synctest.Wait() // the writer has it, and stands still
		const many = 20_000
		for range many {
			l.Write(line("peer", false)) // in virtual time a wait would be a deadlock
		}
		l.mu.Lock()
		held := len(l.buf)
		l.mu.Unlock()
		if held > BufferSize || held < BufferSize*9/10 {
			t.Errorf("%d octets wait, want nearly %d", held, BufferSize)
		}
		left := l.Left()
		if left.Buffer == 0 || l.Lines()+left.Buffer != many+1 {
			t.Errorf("%d lines, left out %+v, of %d", l.Lines(), left, many+1)
		}
		close(out.closed)
		time.Sleep(told)
		synctest.Wait()
		l.Close()
		written, said := uint64(0), 0.0
		for _, object := range out.lines(t) {
			if n, ok := object["buffer"].(float64); ok {
				said += n
			} else {
				written++
			}
		}
		if written != l.Lines() || said != float64(left.Buffer) {
			t.Errorf("%d lines written of %d, %v said to be left out of %d", written, l.Lines(), said, left.Buffer)
		}
	})
}

func TestOP01LinesAreBoundedAndHaveNoControlCharacters(t *testing.T) {
	nasty := "a\r\n\x1b[31m\x00\u202e\"\\\xff" + strings.Repeat("x", 1<<16)
	for _, people := range []bool{false, true} {
		var out gathered
		text := new(atomic.Bool)
		l := New(Options{Output: &out, Text: text})
		text.Store(people)
		l.Use(All)
		l.Write(&Line{Time: time.Now(), Identity: nasty, Profile: nasty, Operation: nasty, Name: nasty, Partner: nasty, Outcome: "ok", Trace: nasty, Transport: nasty})
		l.Close()
		got := out.buf.String()
		if len(got) > 4<<10 || strings.Count(got, "\n") != 1 {
			t.Errorf("%d octets, %d lines", len(got), strings.Count(got, "\n"))
		}
		for _, r := range strings.TrimSuffix(got, "\n") {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("raw %U", r)
			}
		}
	}
}

func TestAFileThatWasMovedAwayIsOpenedAnew(t *testing.T) {
	var out gathered
	l := New(Options{Output: &out})
	defer l.Close()
	l.Use(All)
	name := filepath.Join(t.TempDir(), "access.log")
	for _, peer := range []string{"first", "second"} {
		if err := l.Reopen(name); err != nil {
			t.Fatal(err)
		}
		l.Write(line(peer, false))
		awaitText(t, name, peer)
		if err := os.Rename(name, name+"."+peer); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Reopen(filepath.Join(name, "no", "such", "place")); err == nil {
		t.Error("a file that cannot be opened is taken")
	}
	l.Write(line("third", false))
	awaitText(t, name+".second", "third") // lines go on to where they went
	if got := out.lines(t); len(got) > 0 {
		t.Errorf("beside the file: %v", got)
	}
}

func awaitText(t *testing.T, file, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(got), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s, %v; want %q", file, got, err, text)
		}
	}
}
