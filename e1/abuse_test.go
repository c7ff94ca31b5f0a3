//go:build abuse

package e1_test

import (
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
)

func TestAbuseEN08ManyEntriesCostNoTime(t *testing.T) {
	const bound = 50 * time.Microsecond
	env := message()
	for range 2048 {
		env.Extensions = e1.AppendExtension(env.Extensions, 20, nil)
	}
	body := env.Append(nil)
	best := time.Hour
	for range 30 {
		start := time.Now()
		if err := env.Decode(body, &defaults); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	if best > bound {
		t.Errorf("2,048 entries in %v, want %v at most", best, bound)
	}
	t.Logf("2,048 entries in %v", best)
}
