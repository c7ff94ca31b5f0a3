package conformance_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/conformance"
)

// TestVerdictsDoNotDependOnTheSpeedOfTheMachine has a minute pass before each step. It is
// a minute of virtual time, so that vectors over real sockets, and reviews with their
// dates, are left out.
func TestVerdictsDoNotDependOnTheSpeedOfTheMachine(t *testing.T) {
	for _, path := range everything(t) {
		v, err := conformance.Load(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if v.Category == "s1" || v.Outcome == "process_check" {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := conformance.Paused(func() { time.Sleep(time.Minute) })
				if r := v.Play(t.Context(), target); !r.Pass {
					t.Error(r)
				}
			})
		})
	}
}
