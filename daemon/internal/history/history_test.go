package history

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// metrics feeds testCharts.
type metrics struct {
	*prometheus.Registry
	messages *prometheus.CounterVec
	waiting  prometheus.Gauge
	seconds  *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{
		Registry: prometheus.NewRegistry(),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "messages_total"}, []string{"profile", "type"}),
		waiting:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "waiting"}),
		seconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seconds", Buckets: []float64{1, 2, 4}}, []string{"server"}),
	}
	m.MustRegister(m.messages, m.waiting, m.seconds)
	return m
}

var testCharts = []Chart{
	{Name: "messages", Unit: PerSecond, Metric: "messages_total", Of: Rate, Label: "profile"},
	{Name: "waiting", Metric: "waiting", Of: Level},
	{Name: "latency", Unit: Seconds, Metric: "seconds", Of: Quantiles},
	{Name: "servers", Unit: Seconds, Metric: "seconds", Of: Slowest, Label: "server"},
}

// drawn returns the last points of each series as text.
func drawn(t *testing.T, r *Recorder, last time.Duration) map[string]string {
	t.Helper()
	v := r.View(time.Now().Add(-last), 100)
	text := make(map[string]string)
	for _, c := range v.Charts {
		for _, s := range c.Series {
			octets, err := json.Marshal(s.Points)
			if err != nil {
				t.Fatal(err)
			}
			text[strings.TrimRight(c.Name+" "+s.Label, " ")] = string(octets)
		}
	}
	return text
}

// serve runs a Recorder from the begin of a minute until end is called.
func serve(t *testing.T, r *Recorder) (end func()) {
	t.Helper()
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Serve(ctx)
	}()
	return func() {
		cancel()
		<-done
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pass lets minutes pass.
func pass(n int) {
	time.Sleep(time.Duration(n) * time.Minute)
	synctest.Wait()
}

func TestEachMinuteHasAPointOfWhatCameInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		m.messages.WithLabelValues("mcp", "1").Add(1e6) // before the start
		r := New(m, testCharts, "", zap.NewNop())
		defer serve(t, r)()
		m.messages.WithLabelValues("mcp", "1").Add(60)
		m.messages.WithLabelValues("mcp", "2").Add(60)
		m.waiting.Set(7)
		pass(1)
		m.messages.WithLabelValues("rpc", "1").Add(600)
		for range 100 {
			m.seconds.WithLabelValues("files").Observe(1.5)
		}
		pass(1)
		want := map[string]string{
			"messages mcp": "[2,0]", "messages rpc": "[null,10]", "waiting": "[7,7]",
			"latency p50": "[null,1.5]", "latency p95": "[null,1.95]", "latency p99": "[null,1.99]", "servers files": "[null,1.95]",
		}
		if diff := cmp.Diff(want, drawn(t, r, 2*time.Minute)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHistoryIsKeptOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "history.json")
		m := newMetrics()
		end := serve(t, New(m, testCharts, file, zap.NewNop()))
		m.waiting.Set(3)
		pass(2)
		end()
		pass(2) // nothing runs
		r := New(newMetrics(), testCharts, file, zap.NewNop())
		end = serve(t, r)
		pass(1)
		if got, want := drawn(t, r, 5*time.Minute)["waiting"], "[3,3,null,null,0]"; got != want {
			t.Errorf("points %s, want %s", got, want)
		}
		end()
		pass(int(points))
		r = New(newMetrics(), testCharts, file, zap.NewNop())
		defer serve(t, r)()
		if got := strings.Trim(drawn(t, r, 25*time.Hour)["waiting"], "[]nul,"); got != "" {
			t.Errorf("after more than 24 hours there is %s", got)
		}
	})
}

// The file is written every five minutes, too: a process may be killed.
func TestAKilledProcessLosesFiveMinutesAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "history.json")
		m := newMetrics()
		defer serve(t, New(m, testCharts, file, zap.NewNop()))()
		m.waiting.Set(3)
		pass(9)
		r := New(newMetrics(), testCharts, file, zap.NewNop())
		defer serve(t, r)()
		if got, want := drawn(t, r, 9*time.Minute)["waiting"], "[3,3,3,3,3,null,null,null,null]"; got != want {
			t.Errorf("points %s, want %s", got, want)
		}
	})
}

func TestPointsOfOneDayAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		r := New(m, testCharts, "", zap.NewNop())
		defer serve(t, r)()
		m.waiting.Set(1)
		pass(1)
		m.waiting.Set(2)
		pass(int(points) - 1)
		got := drawn(t, r, 48*time.Hour)["waiting"]
		if n := strings.Count(got, ",") + 1; n != int(points) || !strings.HasPrefix(got, "[1,2,2") {
			t.Errorf("%d points, %.20s", n, got)
		}
		pass(1)
		if got := drawn(t, r, 48*time.Hour)["waiting"]; strings.Count(got, ",")+1 != int(points) || !strings.HasPrefix(got, "[2,2,2") {
			t.Errorf("a minute later: %.20s", got)
		}
	})
}

// Names come from peers. Those with the most have series, others are summed up.
func TestSeriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		r := New(m, testCharts, "", zap.NewNop())
		defer serve(t, r)()
		most := MaxSeries / len(testCharts)
		for i := range 2 * most {
			m.messages.WithLabelValues(fmt.Sprint("p", i), "1").Add(60 * float64(i+1))
		}
		pass(1)
		view := func(most int) (rows int, total, rest float64) {
			for _, s := range r.View(time.Now().Add(-time.Minute), most).Charts[0].Series {
				rows++
				total += float64(s.Points[0])
				if s.Label == Other {
					rest = float64(s.Points[0])
				}
			}
			return rows, total, rest
		}
		want := float64(2*most) * float64(2*most+1) / 2
		if rows, total, _ := view(MaxSeries); rows != most || math.Abs(total-want) > 1 {
			t.Errorf("%d series with a sum of %v, want %d and %v", rows, total, most, want)
		}
		if rows, total, rest := view(2); rows != 3 || math.Abs(total-want) > 1 || rest != want-float64(4*most-1) {
			t.Errorf("of 2: %d series with a sum of %v, of others %v", rows, total, rest)
		}
		m.messages.WithLabelValues("late", "1").Add(6e6)
		pass(1)
		first := r.View(time.Now().Add(-time.Minute), 1).Charts[0].Series[0]
		if first.Label != "late" || first.Points[0] != 1e5 {
			t.Errorf("the largest is %s with %v", first.Label, first.Points)
		}
		if rows, _, _ := view(MaxSeries); rows != most {
			t.Errorf("%d series", rows)
		}
	})
}

func TestACounterThatBeginsAnewIsNotNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		r := New(m, testCharts, "", zap.NewNop())
		defer serve(t, r)()
		m.messages.WithLabelValues("mcp", "1").Add(600)
		pass(1)
		m.messages.Reset()
		m.messages.WithLabelValues("mcp", "1").Add(120)
		pass(1)
		if got, want := drawn(t, r, 2*time.Minute)["messages mcp"], "[10,2]"; got != want {
			t.Errorf("points %s, want %s", got, want)
		}
	})
}

func TestAFileThatCannotBeReadIsSaidAndReplaced(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":  "{",
		"version":  `{"version":2}`,
		"too much": `{"version":1,"series":[` + strings.Repeat("{},", MaxSeries) + `{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "history.json")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				core, logs := observer.New(zap.WarnLevel)
				end := serve(t, New(newMetrics(), testCharts, file, zap.New(core)))
				if logs.Len() != 1 {
					t.Errorf("log %v", logs.All())
				}
				end()
				defer serve(t, New(newMetrics(), testCharts, file, zap.New(core)))()
				if logs.Len() != 1 {
					t.Errorf("after it was replaced: log %v", logs.All())
				}
			})
		})
	}
}

// Points of a file with odd lengths and times are dropped, and nothing else.
func TestPointsOfAFileAreTakenAsFarAsTheyMakeSense(t *testing.T) {
	s := restored([]byte{1, 0, 0, 128, 63, 0, 0, 0, 64}, 101, 100)
	if s.ring[100] != 1 || !math.IsNaN(float64(s.ring[101])) || !math.IsNaN(float64(s.ring[99])) {
		t.Errorf("points %v", s.ring[98:103])
	}
}

func TestQuantilesAreInterpolatedAndBounded(t *testing.T) {
	r := reading{count: 10, buckets: []bucket{{1, 0}, {2, 10}, {math.Inf(1), 10}}}
	if got := r.quantile(.5); got != 1.5 {
		t.Errorf("median %v, want 1.5", got)
	}
	r = reading{count: 10, buckets: []bucket{{1, 5}, {2, 5}, {math.Inf(1), 10}}}
	if got := r.quantile(.99); got != 2 {
		t.Errorf("above the last bound: %v, want 2", got)
	}
	if got := (reading{}).quantile(.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
