package guard

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
)

// watched returns denials and the lines that they have written since the last call, as
// "peer name times".
func watched() (d *denials, lines func() []string) {
	core, written := observer.New(zap.DebugLevel)
	return &denials{log: zap.New(core)}, func() (list []string) {
		for _, e := range written.TakeAll() {
			f := e.ContextMap()
			times := f["times"]
			if times == nil {
				times = 1
			}
			list = append(list, fmt.Sprint(f["peer"], " ", f["name"], " ", times))
		}
		return list
	}
}

func called(identity, name string) denial { return denial{identity, "rpc", "call", name, ""} }

func TestOP08DenialsOfOneIdentityHideNoneOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		defer d.close()
		for i := range 1000 {
			d.add(called("loud", fmt.Sprint(i)))
		}
		d.add(called("quiet", "once"))
		time.Sleep(500 * time.Millisecond)
		if got := lines(); !strings.Contains(fmt.Sprint(got), "quiet once 1") || len(got) > denialBurst+denialRate/2 {
			t.Errorf("%q, want the quiet identity among at most %d lines", got, denialBurst+denialRate/2)
		}
	})
}

func TestFairnessOfLinesOfDenials(t *testing.T) {
	logged := func(flooded bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			d, lines := watched()
			defer d.close()
			if flooded {
				for i := range 10 * maxDenialsOfOne {
					d.add(called("mallory", fmt.Sprint(i)))
				}
			}
			for i := range maxDenialsOfOne {
				d.add(called("alice", fmt.Sprint(i)))
			}
			time.Sleep(4*time.Second + time.Millisecond)
			for _, line := range lines() {
				if strings.HasPrefix(line, "alice ") {
					n++
				}
			}
		})
		return n
	}
	fairtest.Row(t, "swpd: lines of denials", "lines in 4 s", logged(false), logged(true))
}

// A partner asserts as many callers as it likes.
func TestOP22DenialsOfManyCallersOfAPeerHideNoneOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		defer d.close()
		for i := range 3 * maxDenials {
			d.add(called(profiles.OnBehalf("loud", fmt.Sprint(i/4)), fmt.Sprint(i%4)))
		}
		if n := d.of["loud"]; n != maxDenialsOfPeer+1 || len(d.known) != n {
			t.Errorf("%d entries, %d of the peer, want %d and one that its callers share", len(d.known), n, maxDenialsOfPeer)
		}
		for i := range 30 {
			d.add(called("quiet", fmt.Sprint(i)))
		}
		time.Sleep((30 + 1) * 2 * time.Second / denialRate) // the two take turns
		got := strings.Join(lines(), "\n")
		for i := range 30 {
			if !strings.Contains(got, fmt.Sprintf("quiet %d 1", i)) {
				t.Errorf("denial %d of the quiet peer is not logged", i)
			}
		}
	})
}

// So many different denials at once are all logged, each by its name; with one more, what is
// above the bound is counted together.
func TestOP08DifferentDenialsOfAnIdentityAreAllLogged(t *testing.T) {
	for _, n := range []int{maxDenialsOfOne, maxDenialsOfOne + 1} {
		synctest.Test(t, func(t *testing.T) {
			d, lines := watched()
			defer d.close()
			for i := range n {
				d.add(called("a", fmt.Sprint(i)))
			}
			time.Sleep(time.Minute)
			got := lines()
			if len(got) != n {
				t.Fatalf("%d lines of %d denials", len(got), n)
			}
			want := fmt.Sprintf("a %d 1", n-1)
			if n > maxDenialsOfOne {
				want = "a <nil> 1"
			}
			if last := got[n-1]; last != want {
				t.Errorf("the last of %d is %q, want %q", n, last, want)
			}
		})
	}
}

func TestOP08RepeatedDenialsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		for range 1000 {
			d.add(called("a", "x"))
		}
		time.Sleep(repeatEvery - time.Millisecond)
		if got := lines(); fmt.Sprint(got) != "[a x 1]" {
			t.Errorf("%q, want one line at once", got)
		}
		time.Sleep(repeatEvery)
		if got := lines(); fmt.Sprint(got) != "[a x 999]" {
			t.Errorf("%q, want the others in one line", got)
		}
		time.Sleep(time.Minute)
		d.mu.Lock()
		defer d.mu.Unlock()
		if got := lines(); got != nil || len(d.known) != 0 {
			t.Errorf("%q and %d entries without a denial", got, len(d.known))
		}
	})
}

func TestDenialsThatWaitAreLoggedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		for i := range 6 {
			d.add(called("a", fmt.Sprint(i)))
			d.add(called("a", "0"))
		}
		d.close()
		d.add(called("a", "later"))
		if got := lines(); len(got) != 8 || got[6] != "a 0 6" || got[7] != "a later 1" {
			t.Errorf("%q", got)
		}
	})
}

func TestDenialsOfManyIdentitiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		for i := range 3 * maxDenials {
			d.add(called(fmt.Sprint(i), "x"))
		}
		if n, most := len(d.known), 2*maxDenials+1; n > most {
			t.Errorf("%d entries, want at most %d", n, most)
		}
		d.close()
		sum := 0
		for _, line := range lines() {
			var times int
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &times)
			sum += times
		}
		if sum != 3*maxDenials {
			t.Errorf("%d of %d denials are counted", sum, 3*maxDenials)
		}
	})
}

func TestOP23DenialsThatWaitAreLoggedAtAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log, stop := boundlog.New(boundlog.Options{Output: &out})
		d := &denials{log: log.Named(boundlog.Denied)}
		for i := range maxDenialsOfOne {
			d.add(called("a", fmt.Sprint(i)))
		}
		d.close()
		stop()
		if n := strings.Count(out.String(), `"msg":"denied"`); n != maxDenialsOfOne {
			t.Errorf("%d of %d denials are logged", n, maxDenialsOfOne)
		}
	})
}

// The log has room for all lines that denials writes.
func TestOP08TheLogLeavesNoDenialOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log, stop := boundlog.New(boundlog.Options{Output: &out})
		d := &denials{log: log.Named(boundlog.Denied)}
		security := log.Named(boundlog.Security)
		for i := range 30 {
			d.add(called("a", fmt.Sprint(i)))
			for range 200 / 30 * 10 {
				security.Warn("security event")
			}
			time.Sleep(time.Second / 30)
		}
		time.Sleep(time.Minute)
		d.close()
		stop()
		if n := strings.Count(out.String(), `"msg":"denied"`); n != 30 {
			t.Errorf("%d of 30 denials are logged beside 2,000 broken handshakes a second", n)
		}
	})
}
