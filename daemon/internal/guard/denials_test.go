package guard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// watched returns denials and the lines that they write, as "peer name times".
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

func TestOP08DenialsOfOneIdentityHideNoneOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		for i := range 1000 {
			d.add(denial{"loud", "rpc", "call", fmt.Sprint(i)})
		}
		d.add(denial{"quiet", "rpc", "call", "once"})
		want := []string{"loud 0 1", "loud 1 1", "loud 2 1", "loud 3 1", "quiet once 1"}
		if got := lines(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := lines(); fmt.Sprint(got) != "[loud 999 996]" {
			t.Errorf("%q, want the others in one line, with their number", got)
		}
		time.Sleep(time.Minute)
		if got := lines(); got != nil {
			t.Errorf("%q without a denial", got)
		}
	})
}

func TestDenialsThatWaitAreWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, lines := watched()
		for range 6 {
			d.add(denial{"a", "rpc", "call", "x"})
		}
		lines()
		d.close()
		d.add(denial{"a", "rpc", "call", "y"})
		if got := lines(); fmt.Sprint(got) != "[a x 2 a y 1]" {
			t.Errorf("%q", got)
		}
	})
}

func TestIdentitiesWithDenialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched()
		for i := range 2 * maxDenied {
			d.add(denial{fmt.Sprint(i), "rpc", "call", "x"})
		}
		if n := len(d.of); n > maxDenied+1 {
			t.Errorf("%d identities, want at most %d", n, maxDenied+1)
		}
		time.Sleep(10 * time.Second)
		d.add(denial{"new", "rpc", "call", "x"})
		if n := len(d.of); n > 2 {
			t.Errorf("%d identities after their rate was unused, want 2", n)
		}
		d.close()
	})
}
