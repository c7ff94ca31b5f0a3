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
		if ours := through && row.System != "mcp-url-proxies"; (row.Added != nil) != through || (row.Promise != nil) != ours {
			t.Errorf("%s: compared with %q: added %v, promise %v", row.System, row.Direct, row.Added, row.Promise)
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
		met             bool
	}{
		// The machine slows down tenfold in the second round, and the third lacks one side.
		{[]measurement{µs(150), µs(1500), µs(9)}, []measurement{µs(100), µs(1000), {}}, &Spread{275, 50, 500}, true},
		{[]measurement{µs(600)}, []measurement{µs(100)}, &Spread{500, 500, 500}, true},
		{[]measurement{µs(601)}, []measurement{µs(100)}, &Spread{501, 501, 501}, false},
		{[]measurement{{}}, []measurement{µs(100)}, nil, false},
	} {
		r := callReport(1, paths, [][]measurement{row.direct, row.through}).Rows[1]
		if diff := cmp.Diff(row.want, r.Added); diff != "" {
			t.Errorf("added (-want +got):\n%s", diff)
		}
		if (r.Promise != nil) != (row.want != nil) || r.Promise != nil && r.Promise.Met != row.met {
			t.Errorf("%v: promise %v, want met %v", row.through, r.Promise, row.met)
		}
	}
}
