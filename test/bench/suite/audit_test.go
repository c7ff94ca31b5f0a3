package suite

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/test/bench/swpd"
)

func TestAuditTrailsAreMeasuredBesideNone(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Parts: []string{PartAudit}, Rounds: 1, SWPD: program(t), Warmup: time.Millisecond, Duration: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	cells := 0
	for _, w := range Audits() {
		cells += len(w.Cells)
	}
	if len(report.Audit) != cells {
		t.Fatalf("%d loads, want %d", len(report.Audit), cells)
	}
	for _, c := range report.Audit {
		if len(c.Rows) != len(swpd.Audits) {
			t.Errorf("%s: %d rows, want %d", c.Work, len(c.Rows), len(swpd.Audits))
		}
		for i, row := range c.Rows {
			if row.PerSecond == nil || (row.Ratio == nil) != (i == 0) {
				t.Errorf("%s, %s: %s: rate %v, ratio %v", c.Work, c, row.System, row.PerSecond, row.Ratio)
			}
		}
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(table.String(), noAudit+" ÷ it"); got != cells {
		t.Errorf("%d of %d tables say what is divided:\n%s", got, cells, table.String())
	}
}

// What is measured as receipts are receipts: both ends keep some of the calls.
func TestReceiptsAreExchangedWhileTheyAreMeasured(t *testing.T) {
	o := Options{SWPD: program(t), Warmup: time.Millisecond, Duration: 2500 * time.Millisecond}
	o = o.withDefaults()
	f, err := newFleet(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range Audits()[0].Systems {
		if _, err := f.measure(s, Cell{64, 1, 1}); err != nil {
			t.Fatal(err)
		}
		trails := 0
		dirs, err := filepath.Glob(filepath.Join(f.dir, "swpd-*", "data", "audit", "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range dirs {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(`"event.action":"receipt"`)) {
				trails++
			}
		}
		if want := map[bool]int{true: 2}[strings.HasSuffix(s.ID, "receipts")]; trails != want {
			t.Errorf("%s: %d trails have receipts, want %d", s.ID, trails, want)
		}
	}
}
