package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines is a log for tests.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// said returns the lines since the last call.
func (l *lines) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}

// logged returns a log and its lines.
func logged(t *testing.T) (*zap.Logger, *lines) {
	l := new(lines)
	log, stop := boundlog.New(boundlog.Options{Output: l})
	t.Cleanup(stop)
	return log, l
}

// one returns the only record.
func one(t *testing.T, r *Records) Record {
	t.Helper()
	list := r.List()
	if len(list) != 1 {
		t.Fatalf("%d records: %+v", len(list), list)
	}
	return list[0]
}

func TestAThingIsFailingUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logged(t)
		r := New("", log)
		r.Set(Server, "files")
		began := time.Now()
		if got := one(t, r); got.State != Untried || !got.Since.Equal(began) || !got.LastSuccess.IsZero() || got.LastError != nil || got.Remedy != "" {
			t.Errorf("at first %+v", got)
		}
		e := r.Of(Server, "files")
		time.Sleep(time.Minute)
		e.Failed(ServerEnded, errors.New("mcpstdio: exit status 1"), []string{"token=[masked]", "FATAL: API_KEY is not set"})
		failed := time.Now()
		time.Sleep(2 * time.Hour)
		got := one(t, r)
		if got.State != Failing || !got.Since.Equal(failed) || got.Failures != 1 || got.LastError == nil || !strings.Contains(got.Remedy, "mcp.servers.files") {
			t.Fatalf("after a failure %+v", got)
		}
		if want := "its process ended: exit status 1"; got.LastError.Text != want || !got.LastError.At.Equal(failed) || len(got.LastError.Output) != 2 {
			t.Errorf("%+v, want %s", got.LastError, want)
		}
		if said := out.said(); !strings.Contains(said, `"level":"warn"`) || !strings.Contains(said, "mcp server is failing") || !strings.Contains(said, "FATAL: API_KEY is not set") || !strings.Contains(said, `"do":`) || strings.Count(said, "\n") != 1 {
			t.Errorf("the log says %s", said)
		}
		var h part.Health
		r.Look(&h)
		if want := "mcp server files: its process ended: exit status 1: FATAL: API_KEY is not set"; !slices.Equal(h.Warnings, []string{want}) {
			t.Errorf("warnings %q, want %q", h.Warnings, want)
		}
		if want := "mcp server files: its process ended"; !slices.Equal(h.Open(), []string{want}) {
			t.Errorf("for everybody %q, want %q", h.Open(), want)
		}
		e.Failed(ServerEnded, errors.New("exit status 2"), nil)
		if said := out.said(); said != "" {
			t.Errorf("the same state is logged again: %s", said)
		}
		e.Worked()
		got = one(t, r)
		if got.State != OK || !got.LastSuccess.Equal(time.Now().Truncate(time.Second)) || got.LastError == nil || got.Failures != 2 || got.Remedy != "" {
			t.Errorf("after a success %+v", got)
		}
		if said := out.said(); !strings.Contains(said, `"level":"info"`) || !strings.Contains(said, "mcp server works again") {
			t.Errorf("the log says %s", said)
		}
		h = part.Health{}
		if r.Look(&h); len(h.Warnings) > 0 {
			t.Errorf("warnings %q", h.Warnings)
		}
		time.Sleep(25 * time.Hour)
		if got := one(t, r); got.State != OK || got.Failures != 0 {
			t.Errorf("a day later %+v", got)
		}
	})
}

func TestASuccessOfWhatWorksAllocatesNothing(t *testing.T) {
	log, _ := logged(t)
	r := New("", log)
	r.Set(Server, "files")
	r.Of(Server, "files").Worked()
	if n := testing.AllocsPerRun(100, func() { r.Of(Server, "files").Worked() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWorked(b *testing.B) {
	r := New("", zap.NewNop())
	r.Set(Server, "files")
	r.Of(Server, "files").Worked()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Of(Server, "files").Worked()
		}
	})
}

func TestTextsOfErrorsAreMaskedEscapedAndCut(t *testing.T) {
	log, out := logged(t)
	r := New("", log)
	r.Set(Server, "files")
	r.Of(Server, "files").Failed(ServerRequest, errors.New("get https://user:hunter2@example.com/\x1b[31m "+strings.Repeat("long ", 1000)), []string{"\x00" + strings.Repeat("long ", 1000)})
	got := one(t, r)
	for _, text := range append(got.LastError.Output, got.LastError.Text, out.said()) {
		if strings.Contains(text, "hunter2") || strings.ContainsAny(text, "\x00\x1b") || len(text) > 2*maxText+500 {
			t.Errorf("%q", text)
		}
	}
}

func TestTheReasonForNoConnectionIsInWords(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	dial := func(err error) error {
		return fmt.Errorf("upstream: not reached: %w", &url.Error{Op: "Post", URL: "http://x/", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: err}})
	}
	for _, row := range []struct {
		err  error
		want string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "nothing listens on 192.0.2.1:80"},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "there is no route to 192.0.2.1:80"},
		{dial(os.ErrDeadlineExceeded), "no connection to 192.0.2.1:80 in time"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "crm.example"}}, "no address is found for the host crm.example"},
		{&net.OpError{Op: "read", Net: "tcp", Addr: at, Err: errors.New("reset")}, "read tcp 192.0.2.1:80: reset"},
		{errors.New("mcphttp: HTTP status 401"), "HTTP status 401"},
	} {
		if got := words(row.err); got != row.want {
			t.Errorf("%v: %q, want %q", row.err, got, row.want)
		}
	}
}

func TestThingsThatLeaveTheConfigurationLeaveTheRecords(t *testing.T) {
	log, _ := logged(t)
	r := New("", log)
	r.Set(Server, "a", "b")
	r.Set(Worker, "a")
	gone := r.Of(Server, "a")
	gone.Failed(ServerEnded, nil, nil)
	r.Set(Server, "b", "c")
	gone.Failed(ServerEnded, nil, nil)
	var names []string
	for _, one := range r.List() {
		names = append(names, string(one.Kind)+" "+one.Name)
	}
	if want := []string{"server b", "server c", "worker a"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	r.Of(Server, "a").Worked() // which is nil
	r.Of(Server, "b").Failed(ServerEnded, nil, nil)
	r.Of(Server, "b").Changed()
	if got := r.List()[0]; got.State != Untried {
		t.Errorf("a changed entry is %s", got.State)
	}
	var none *Records
	none.Set(Server, "a")
	none.Of(Server, "a").Failed(ServerEnded, nil, nil)
	none.Of(Server, "a").Worked()
}

func TestAConnectionClearsOnlyWhatIsAboutConnections(t *testing.T) {
	log, _ := logged(t)
	r := New("", log)
	r.Set(Backend, "desk")
	e := r.Of(Backend, "desk")
	for _, step := range []struct {
		does func()
		want State
	}{
		{e.Reached, OK},
		{func() { e.Failed(BackendUnreached, errors.New("refused"), nil) }, Failing},
		{e.Reached, OK},
		{func() { e.Failed(BackendCall, errors.New("status 500"), nil) }, Failing},
		{e.Reached, Failing},
		{e.Worked, OK},
	} {
		if step.does(); one(t, r).State != step.want {
			t.Errorf("%s, want %s", one(t, r).State, step.want)
		}
	}
}

// serve runs Serve until the function that it returns is called.
func serve(t *testing.T, r *Records) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Serve(ctx)
	}()
	return func() {
		r.Retire()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	}
}

func TestRecordsAreKeptOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "health.json")
		log, out := logged(t)
		links := func() []Seen {
			return []Seen{{Name: "acme", State: Away, Fault: PartnerRefuses, Why: "no", Remedy: "ask them"}}
		}
		r := New(file, log)
		r.Set(Server, "bad", "good", "idle", "gone")
		r.Watch(Partner, links)
		stop := serve(t, r)
		r.Of(Server, "bad").Failed(ServerEnded, errors.New("exit status 1"), []string{"why"})
		r.Of(Server, "gone").Failed(ServerEnded, nil, nil)
		r.Of(Server, "good").Worked()
		time.Sleep(20 * time.Second)
		before := r.List()
		if octets, err := os.ReadFile(file); err != nil || !bytes.Contains(octets, []byte("exit status 1")) {
			t.Errorf("while it runs: %s, %v", octets, err)
		}
		stop()
		time.Sleep(time.Hour)

		out.said()
		r = New(file, log)
		r.Set(Server, "bad", "good", "idle")
		r.Watch(Partner, links)
		stop = serve(t, r)
		synctest.Wait()
		after := r.List()
		stop()
		for _, got := range after {
			i := slices.IndexFunc(before, func(b Record) bool { return b.Kind == got.Kind && b.Name == got.Name })
			x, _ := json.Marshal(before[i])
			y, _ := json.Marshal(got)
			if !bytes.Equal(x, y) {
				t.Errorf("before %s, after %s", x, y)
			}
		}
		if len(after) != 4 {
			t.Errorf("%d records", len(after))
		}
		if said := out.said(); said != "" {
			t.Errorf("what was known is logged: %s", said)
		}
		if octets, err := os.ReadFile(file); err != nil || bytes.Contains(octets, []byte(`"gone"`)) {
			t.Errorf("a server that is not in the configuration is kept, %v", err)
		}
	})
}

func TestAFileThatCannotBeReadIsAWarning(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "{", "a later version": `{"version":2}`, "nothing": ""} {
		file := filepath.Join(t.TempDir(), "health.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log, out := logged(t)
		r := New(file, log)
		r.Set(Server, "files")
		if got := one(t, r); got.State != Untried {
			t.Errorf("%s: %+v", name, got)
		}
		if said := out.said(); !strings.Contains(said, `"level":"warn"`) || !strings.Contains(said, "health.json") {
			t.Errorf("%s: the log says %s", name, said)
		}
	}
	log, out := logged(t)
	if New(filepath.Join(t.TempDir(), "none"), log); out.said() != "" {
		t.Error("a first start warns")
	}
}

// The file is the operator's to edit.
func TestWhatMakesNoSenseInTheFileIsLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health.json")
	text := `{"version":1,"records":[{"kind":"server","name":"a","state":"odd"},{"kind":"server","name":"b","state":"failing","since":"2999-01-01T00:00:00Z"},
		{"kind":"server","name":"c","state":"failing","since":"2020-01-01T00:00:00Z","last_error":{"fault":"partner_away","text":"x"},"hours":{"hour":99999999}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, _ := logged(t)
	r := New(file, log)
	r.Set(Server, "a", "b", "c")
	list := r.List()
	for i, want := range []State{Untried, Untried, Failing} {
		if got := list[i]; got.State != want || got.LastError != nil || got.Failures != 0 {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

func TestAFileThatCannotBeWrittenIsAWarningOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logged(t)
		r := New(filepath.Join(t.TempDir(), "missing", "health.json"), log)
		r.Set(Server, "files")
		stop := serve(t, r)
		time.Sleep(time.Minute)
		stop()
		if said := out.said(); strings.Count(said, "is not kept") != 1 {
			t.Errorf("the log says %s", said)
		}
	})
}

func TestThingsAreAskedAtTheStartWhenIdleAndWhileTheyFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged(t)
		r := New("", log)
		r.Set(Server, "files", "never")
		began := time.Now()
		var mu sync.Mutex
		var asked []time.Duration
		var fails atomic.Bool
		r.Probe(Server, func(name string) func(context.Context, *Entry) {
			if name == "never" {
				return nil
			}
			return func(_ context.Context, e *Entry) {
				mu.Lock()
				asked = append(asked, time.Since(began))
				mu.Unlock()
				if fails.Load() {
					e.Failed(ServerRequest, errors.New("no"), nil)
				} else {
					e.Worked()
				}
			}
		})
		stop := serve(t, r)
		defer stop()
		expect := func(what string, want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(asked, want) {
				t.Errorf("%s: asked at %v, want %v", what, asked, want)
			}
			asked = nil
		}
		expect("at the start", 0)
		time.Sleep(5*time.Minute + time.Second) // 301
		expect("idle", 5*time.Minute)
		for range 100 { // 801
			r.Of(Server, "files").Worked()
			time.Sleep(5 * time.Second)
		}
		expect("in use")
		fails.Store(true)
		time.Sleep(6 * time.Minute) // 1161
		expect("idle again", 1100*time.Second, 1105*time.Second, 1115*time.Second, 1135*time.Second)
		fails.Store(false)
		time.Sleep(time.Minute) // 1221
		expect("the first that works", 1175*time.Second)
		time.Sleep(5 * time.Minute) // 1521
		expect("idle after a failure", 1475*time.Second)
	})
}

func TestAtMostEightThingsAreAskedAtOnceAndEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged(t)
		r := New("", log)
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint(i))
		}
		r.Set(Server, names...)
		var mu sync.Mutex
		now, most, all := 0, 0, 0
		r.Probe(Server, func(string) func(context.Context, *Entry) {
			return func(ctx context.Context, e *Entry) {
				mu.Lock()
				now++
				all++
				most = max(most, now)
				mu.Unlock()
				<-ctx.Done() // until probeFor
				mu.Lock()
				now--
				mu.Unlock()
				e.Worked()
			}
		})
		stop := serve(t, r)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		if most != maxProbes || all != len(names) {
			t.Errorf("%d at once of %d, want %d of %d", most, all, maxProbes, len(names))
		}
	})
}

func TestThingsThatAreKnownElsewhereAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logged(t)
		r := New("", log)
		var now atomic.Pointer[[]Seen]
		now.Store(&[]Seen{{Name: "acme", State: Starting}})
		r.Watch(Partner, func() []Seen { return *now.Load() })
		r.Watch(Certificate, func() []Seen {
			return []Seen{{Name: "ca.crt", State: OK}, {Name: "ca.crt", State: Expiring, Fault: CertificateEnds, Why: "ends at noon"}, {Name: "ca.crt", State: OK}}
		})
		stop := serve(t, r)
		synctest.Wait()
		if said := out.said(); !strings.Contains(said, "certificate is expiring") || strings.Count(said, "\n") != 1 {
			t.Errorf("the log says %s", said)
		}
		since := time.Now().Add(-time.Hour)
		for _, step := range []struct {
			seen     Seen
			state    State
			remedy   string
			failures int
			said     string
		}{
			{Seen{Name: "acme", State: OK}, OK, "", 0, ""},
			{Seen{Name: "acme", State: Away, Since: since, Fault: PartnerAway, Why: "refused"}, Away, PartnerAway.remedy("acme"), 1, "partner is away"},
			{Seen{Name: "acme", State: Away, Since: since, Fault: PartnerAway, Why: "refused"}, Away, PartnerAway.remedy("acme"), 1, ""},
			{Seen{Name: "acme", State: Away, Since: since, Fault: PartnerRefuses, Why: "no", Remedy: "ask"}, Away, "ask", 1, ""},
			{Seen{Name: "acme", State: Suspended, Fault: PartnerBarred, Why: "is suspended"}, Suspended, PartnerBarred.remedy("acme"), 1, "partner is suspended"},
			{Seen{Name: "acme", State: OK}, OK, "", 1, "partner works again"},
		} {
			now.Store(&[]Seen{step.seen})
			time.Sleep(tick)
			synctest.Wait()
			got := r.List()[0]
			if got.State != step.state || got.Remedy != step.remedy || got.Failures != step.failures || step.state == Away && !got.Since.Equal(since) {
				t.Errorf("%+v became %+v", step, got)
			}
			if said := out.said(); (step.said == "") != (said == "") || !strings.Contains(said, step.said) {
				t.Errorf("the log says %s, want %s", said, step.said)
			}
		}
		if got := r.List(); len(got) != 2 || got[1].State != Expiring {
			t.Errorf("%+v", got)
		}
		r.Retire()
		now.Store(new([]Seen))
		time.Sleep(2 * tick)
		if len(r.List()) != 2 {
			t.Error("the end of the links at a stop is news")
		}
		stop()
	})
}

func TestMetricsHaveTheStateOfEachThing(t *testing.T) {
	log, _ := logged(t)
	r := New("", log)
	r.Set(Server, "files")
	r.Of(Server, "files").Failed(ServerEnded, errors.New("secret reason"), []string{"secret line"})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			got[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"swpd_behind_failures_total server files": 1}
	for _, state := range States() {
		want["swpd_behind server files "+string(state)] = 0
	}
	want["swpd_behind server files failing"] = 1
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestEachFaultHasItsTexts(t *testing.T) {
	seen := make(map[Fault]bool)
	for _, row := range faults {
		remedy := row.fault.remedy("NAME")
		if seen[row.fault] || row.kind.row().noun == "" || row.what == "" || remedy == "" || strings.Contains(remedy, "%") || !strings.HasPrefix(string(row.fault), "trail_") && !strings.HasPrefix(string(row.fault), string(row.kind)+"_") {
			t.Errorf("%+v: %q", row, remedy)
		}
		seen[row.fault] = true
	}
	for _, row := range kinds {
		if !slices.ContainsFunc(faults, func(f faultRow) bool { return f.kind == row.kind }) {
			t.Errorf("nothing can be wrong with a %s", row.noun)
		}
	}
}

func TestAReportAtTheSameTimeAsAnotherIsSafe(t *testing.T) {
	log, _ := logged(t)
	r := New("", log)
	r.Set(Server, "files")
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for range 200 {
				switch e := r.Of(Server, "files"); i {
				case 0:
					e.Worked()
				case 1:
					e.Failed(ServerEnded, nil, nil)
				case 2:
					r.Set(Server, "files", "other")
				default:
					r.List()
				}
			}
		})
	}
	work.Wait()
	e := r.Of(Server, "files")
	e.Worked()
	if one := e.Record(); one.State != OK {
		t.Errorf("%+v", one)
	}
}
