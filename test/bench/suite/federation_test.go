package suite

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestFederationIsMeasuredThroughOneSWPDAndTwo(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Parts: []string{PartFederation}, Rounds: 1, SWPD: program(t),
		Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Artifact: 3<<20 + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	cells := 0
	for _, w := range Crossings() {
		cells += len(w.Cells)
	}
	if len(report.Federation.Work) != cells || len(report.Federation.Artifact) != 2 {
		t.Fatalf("%d loads and %d directions, want %d and 2", len(report.Federation.Work), len(report.Federation.Artifact), cells)
	}
	for _, c := range report.Federation.Work {
		for i, row := range c.Rows {
			if row.PerSecond == nil || (row.Ratio == nil) != (i == 0) {
				t.Errorf("%s, %s: %s: rate %v, ratio %v", c.Work, c, row.System, row.PerSecond, row.Ratio)
			}
		}
	}
	for _, m := range report.Federation.Artifact {
		for i, row := range m.Rows {
			if row.Rate == nil || row.ServerPeak == nil || (row.Ratio == nil) != (i == 0) {
				t.Errorf("%s: %s: rate %v, ratio %v", m.Direction, row.System, row.Rate, row.Ratio)
			}
		}
	}
	if measured, _ := report.Promises(); measured != 0 {
		t.Errorf("%d promises, want none", measured)
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(table.String(), oneSWPD+" ÷ it"); got != cells+2 {
		t.Errorf("%d of %d tables say what is divided:\n%s", got, cells+2, table.String())
	}
}
