package suite

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/test/bench/load"
)

func TestRunMeasuresEverySystemInProcessesOfTheirOwn(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Parts: []string{PartEcho, PartConns, PartDurable, PartArtifact, PartIdle}, Cells: []string{"64B/64x1", "64B/1x1"}, Rounds: 2,
		Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Idle: 20, Silence: time.Millisecond, Artifact: 3<<20 + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	if len(report.Echo) != 2 || len(report.Idle.Rows) != 2 {
		t.Fatalf("%d loads and %d idle rows, want 2 and 2", len(report.Echo), len(report.Idle.Rows))
	}
	for _, c := range report.Echo {
		for _, row := range c.Rows {
			if row.PerSecond == nil || row.PerSecond.Median <= 0 {
				t.Errorf("%s: %s: not measured", c, row.System)
			}
			if (row.Subject != "") != (row.Ratio != nil) {
				t.Errorf("%s: %s: compared with %q, ratio %v", c, row.System, row.Subject, row.Ratio)
			}
		}
	}
	for _, c := range slices.Concat(report.Connections, report.Durable) {
		for _, row := range c.Rows {
			if row.PerSecond == nil || row.PerSecond.Median <= 0 {
				t.Errorf("%s, %s: %s: not measured", c.Work, c, row.System)
			}
		}
	}
	for _, m := range report.Artifact {
		for i, row := range m.Rows {
			if row.Rate == nil || row.ClientPeak == nil || row.ServerPeak == nil || (row.Ratio == nil) != (i == 0) {
				t.Errorf("artifact %s: %s: not measured", m.Direction, row.System)
			}
		}
	}
	if len(report.Artifact) != 2 {
		t.Errorf("artifacts are moved %d ways, want 2", len(report.Artifact))
	}
	if measured, _ := report.Promises(); measured != 20 {
		t.Errorf("%d promises measured, want 7 of the two loads, 3 of connections, 6 of durable work and 4 of artifacts", measured)
	}
}

func result(exchanges int64, p50 time.Duration) measurement {
	return measurement{Result: load.Result{Exchanges: exchanges, Total: exchanges, Elapsed: time.Second, P50: p50, P99: 2 * p50}}
}

func TestCellReportDividesWithinRounds(t *testing.T) {
	ours, _ := find(Systems(), "swpd-tls")
	raw, _ := find(Systems(), "raw-tls")
	// The machine slows down tenfold in the second round, and the third lacks
	// one side: the ratio stays what it was.
	ourResults := []measurement{result(600, 0), result(61, 0), result(7, 0)}
	rawResults := []measurement{result(1000, 0), result(100, 0), {}}
	c := cellReport(Cell{64, 64, 1}, 3, []System{ours, raw}, [][]measurement{ourResults, rawResults})
	want := &Ratio{Of: "rate", Spread: Spread{Median: 0.605, Min: 0.6, Max: 0.61}, Promise: &Verdict{Bound: 0.6, Met: true}}
	if diff := cmp.Diff(want, c.Rows[1].Ratio); diff != "" {
		t.Errorf("ratio (-want +got):\n%s", diff)
	}
}

func TestPromisesAreKeptAtTheBoundAndMissedBeyond(t *testing.T) {
	ours, _ := find(Systems(), "swpd-tls")
	raw, _ := find(Systems(), "raw-tls")
	for _, row := range []struct {
		cell Cell
		ours measurement
		met  bool
	}{
		{Cell{64, 64, 1}, result(600, 0), true},
		{Cell{64, 64, 1}, result(599, 0), false},
		{Cell{64, 1, 1}, result(1, 1250*time.Microsecond), true},
		{Cell{64, 1, 1}, result(1, 1251*time.Microsecond), false},
	} {
		c := cellReport(row.cell, 1, []System{ours, raw}, [][]measurement{{row.ours}, {result(1000, time.Millisecond)}})
		if got := c.Rows[1].Ratio.Promise.Met; got != row.met {
			t.Errorf("%s: ratio %v: met %v, want %v", row.cell, c.Rows[1].Ratio.Median, got, row.met)
		}
	}
}

func TestSpreadIsTheMedian(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{4, 1}, Spread{2.5, 1, 4}},
		{[]float64{9, 1, 2}, Spread{2, 1, 9}},
	} {
		if got := spread(row.values); got != row.want {
			t.Errorf("%v: %v, want %v", row.values, got, row.want)
		}
	}
}

// TestEveryPromiseHasARow finds a promise that names a load or a system that is
// never run.
func TestEveryPromiseHasARow(t *testing.T) {
	works := append(Works(), Work{Systems: Systems(), Cells: Cells()})
	for _, p := range Promises() {
		if !slices.ContainsFunc(works, func(w Work) bool {
			return slices.Contains(w.Cells, p.Cell) && slices.ContainsFunc(w.Systems, func(s System) bool { return s.ID == p.Peer && s.Subject == p.Subject })
		}) {
			t.Errorf("%+v is never measured", p)
		}
	}
}

func TestConnectionsAreComparedWithOne(t *testing.T) {
	cell := func(ratio float64) CellReport {
		return CellReport{Rows: []RowReport{{}, {Ratio: &Ratio{Spread: Spread{Median: ratio}}}}}
	}
	cells := []CellReport{cell(0.6), cell(0.5), cell(0.49), {Rows: make([]RowReport, 2)}}
	judgeConnections(cells)
	for i, want := range []*Verdict{nil, {Bound: 0.5, Met: true}, {Bound: 0.5}, nil} {
		if diff := cmp.Diff(want, cells[i].Rows[1].Ratio.promise()); diff != "" {
			t.Errorf("load %d: %s", i, diff)
		}
	}
}

func TestTableSaysWhatWasMissedAndWhatCouldNotBeMeasured(t *testing.T) {
	r := Report{
		Echo: []CellReport{{Cell: Cell{64, 64, 1}, Rounds: 1, Rows: []RowReport{
			{Name: "ours", PerSecond: &Spread{Median: 500}},
			{Name: "theirs", PerSecond: &Spread{Median: 1000}, Ratio: &Ratio{Spread: Spread{0.5, 0.5, 0.5}, Promise: atLeast(0.5, 0.6)}},
			{Name: "gone"},
		}}},
		Failures: []string{"gone: no answer"},
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MISSED", "≥ 0.6", "not measured", "gone: no answer", "1 promises measured, 0 met, 1 missed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestOptionsRefuseWhatIsNotThere(t *testing.T) {
	for _, o := range []Options{
		{Parts: []string{"lunch"}}, {Systems: []string{"carrier-pigeon"}}, {Cells: []string{"65B/1x1"}}, {Rounds: -1},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestSlowPartsAreLeftOutOfAQuickRunUnlessTheyAreNamed(t *testing.T) {
	for _, row := range []struct {
		opts Options
		want []string
	}{
		{Options{}, []string{PartCodec, PartLanguage, PartStart, PartEcho, PartConns, PartDurable, PartStream, PartArtifact, PartGateway, PartFederation, PartAudit, PartIdle}},
		{Options{Quick: true}, []string{PartCodec, PartLanguage, PartStart, PartEcho, PartConns, PartDurable, PartStream, PartArtifact, PartGateway, PartIdle}},
		{Options{Quick: true, Parts: []string{PartAudit}}, []string{PartAudit}},
	} {
		if diff := cmp.Diff(row.want, row.opts.withDefaults().Parts); diff != "" {
			t.Errorf("quick %v, parts %v: %s", row.opts.Quick, row.opts.Parts, diff)
		}
	}
}
