package suite

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// program builds swpd.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "swpd")
	build := exec.Command("go", "build", "-o", path, "./cmd/swpd")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestGatewayIsMeasuredOnEveryPath(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Parts: []string{PartGateway}, Rounds: 1, SWPD: program(t), Warmup: time.Millisecond, Duration: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	if len(report.Gateway.Rows) != len(CallPaths()) {
		t.Fatalf("%d rows, want %d", len(report.Gateway.Rows), len(CallPaths()))
	}
	for _, row := range report.Gateway.Rows {
		if row.PerSecond == nil || row.P50 == nil || row.P99 == nil {
			t.Errorf("%s: not measured", row.System)
		}
		through := row.Direct != ""
		if (row.Added != nil) != through {
			t.Errorf("%s: added to %q: %v", row.System, row.Direct, row.Added)
		}
		// In windows this short the proxies may add nothing, and then there is no ratio.
		if promised := row.Against != ""; promised && row.AddedRatio == nil {
			t.Logf("%s: no ratio to %s", row.System, row.Against)
		} else if (row.AddedRatio != nil) != promised {
			t.Errorf("%s: compared with %q: %v", row.System, row.Against, row.AddedRatio)
		}
	}
}

func TestGatewaysNeedTheProgram(t *testing.T) {
	for _, part := range []string{PartGateway, PartFederation} {
		report, err := Run(t.Context(), Options{Parts: []string{part}})
		if err != nil || len(report.Failures) != 1 {
			t.Errorf("%s: failures %v, %v", part, report, err)
		}
	}
}

func TestCallReportSubtractsWithinRounds(t *testing.T) {
	paths := []CallPath{{ID: "direct"}, {ID: "through", Direct: "direct", Transport: "tls"}}
	µs := func(n int) measurement { return result(1, time.Duration(n)*time.Microsecond) }
	for _, row := range []struct {
		through, direct []measurement
		want            *Spread
	}{
		// The machine slows down tenfold in the second round, and the third lacks one side.
		{[]measurement{µs(150), µs(1500), µs(9)}, []measurement{µs(100), µs(1000), {}}, &Spread{275, 50, 500}},
		{[]measurement{{}}, []measurement{µs(100)}, nil},
	} {
		r := callReport(1, paths, [][]measurement{row.direct, row.through}).Rows[1]
		if diff := cmp.Diff(row.want, r.Added); diff != "" {
			t.Errorf("added (-want +got):\n%s", diff)
		}
	}
}

func TestWhatAPathAddsIsDividedWithinRounds(t *testing.T) {
	paths := []CallPath{
		{ID: "direct"}, {ID: "proxies", Direct: "direct"}, {ID: "echo"},
		{ID: "ours", Direct: "direct", Against: "proxies", Added: 0.7, CPU: 0.6}, {ID: "swp", Direct: "direct", Against: "echo", Added: 1.4},
	}
	µs := func(p50, cpu int) measurement {
		m := result(1, time.Duration(p50)*time.Microsecond)
		m.ServerCPU = time.Duration(cpu) * time.Microsecond
		return m
	}
	// In the second round the machine slows down tenfold, in the third the proxies add nothing.
	direct := []measurement{µs(100, 0), µs(1000, 0), µs(100, 0)}
	proxies := []measurement{µs(200, 100), µs(2000, 1000), µs(90, 100)}
	echo := []measurement{µs(50, 10), µs(500, 100), µs(50, 10)}
	for _, row := range []struct {
		ours      []measurement
		added     *Spread
		cpu       *Spread
		met, fast bool
	}{
		{[]measurement{µs(170, 60), µs(1700, 600), µs(999, 60)}, &Spread{0.7, 0.7, 0.7}, &Spread{0.6, 0.6, 0.6}, true, true},
		{[]measurement{µs(171, 61), µs(1710, 610), {}}, &Spread{0.71, 0.71, 0.71}, &Spread{0.61, 0.61, 0.61}, false, false},
	} {
		rows := callReport(3, paths, [][]measurement{direct, proxies, echo, row.ours, row.ours}).Rows
		ours, swp := rows[3], rows[4]
		if diff := cmp.Diff(row.added, &ours.AddedRatio.Spread); diff != "" {
			t.Errorf("added (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(row.cpu, &ours.CPURatio.Spread); diff != "" {
			t.Errorf("CPU (-want +got):\n%s", diff)
		}
		if ours.AddedRatio.Promise.Met != row.met || ours.CPURatio.Promise.Met != row.met {
			t.Errorf("%v: met %v %v, want %v", row.ours, ours.AddedRatio.Promise.Met, ours.CPURatio.Promise.Met, row.met)
		}
		if swp.AddedRatio == nil || swp.CPURatio != nil || swp.AddedRatio.Promise.Met != row.fast {
			t.Errorf("%v: SWP against an echo: %v, CPU %v", row.ours, swp.AddedRatio, swp.CPURatio)
		}
	}
}
