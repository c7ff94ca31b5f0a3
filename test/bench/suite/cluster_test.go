package suite

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/pgtest"
)

func TestNodesOnPostgreSQLAreMeasuredBesideTheEmbeddedStore(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Parts: []string{PartCluster}, Rounds: 1, SWPD: program(t), Warmup: time.Millisecond, Duration: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(report.Failures, func(f string) bool { return strings.Contains(f, pgtest.ErrMissing.Error()) }) {
		t.Skip(pgtest.ErrMissing)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	if len(report.Cluster) != 4 {
		t.Fatalf("%d loads", len(report.Cluster))
	}
	for _, c := range report.Cluster {
		for i, row := range c.Rows {
			if row.PerSecond == nil || (row.Ratio == nil) != (i == 0) {
				t.Errorf("%s, %s: %s: rate %v, ratio %v", c.Work, c, row.System, row.PerSecond, row.Ratio)
			}
		}
	}
}
