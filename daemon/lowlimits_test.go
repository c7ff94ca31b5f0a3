package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/events"
)

// An Event or a Result above the limits in force ends the task with one reason. One that was
// stored under larger limits does so each time that it is asked for.
func TestATaskWhoseAnswersAreAboveTheLimitsEndsWithOneReason(t *testing.T) {
	const limit = 20 << 10
	script := `n=$(cat); case $SWP_TASK_KIND in k) head -c $n /dev/zero | tr '\0' x;; k2) printf '{"output":"'; head -c $n /dev/zero | tr '\0' x; echo '"}';; esac`
	a := open(t, "a", workerYAML(script, ""))
	hand := func(id, kind string, size int) *a2a.Result {
		t.Helper()
		_, result := a.mustDial(a.addrs[0]).hand(t, &a2a.Task{ID: []byte(id), Kind: kind, Input: fmt.Append(nil, size)}, a2a.SendOptions{Resume: true})
		return result
	}
	for _, kind := range []string{"k", "k2"} {
		if result := hand("stored "+kind, kind, 100_000); !result.OK {
			t.Fatalf("under the default limits: %s", result.Reason)
		}
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.configure(func(text string) string { return text + "limits: {payload_bytes: 20KiB}\n" })
	a.again()
	for _, kind := range []string{"k", "k2"} {
		for range 2 {
			if result := hand("stored "+kind, kind, 100_000); result.OK || result.Reason != a2a.ReasonSize {
				t.Errorf("%s, stored under larger limits: %v %q, want %q", kind, result.OK, result.Reason, a2a.ReasonSize)
			}
		}
		for _, test := range []struct {
			size int
			ok   bool
		}{{limit - 1000, true}, {limit, false}, {100_000, false}} {
			result := hand(fmt.Sprint(kind, test.size), kind, test.size)
			if result.OK != test.ok || !test.ok && !strings.Contains(result.Reason, a2a.ReasonSize) {
				t.Errorf("%s with %d octets: %v %q", kind, test.size, result.OK, result.Reason)
			}
		}
	}
}

// Events that were stored under larger limits are delivered in batches within those in force.
func TestEventsArriveInBatchesWithinTheLimits(t *testing.T) {
	const n = 20
	a := open(t, "a", "")
	s := a.mustDial(a.addrs[0])
	for i := range n {
		if err := publishes(t, s.Session, record(fmt.Sprint(i), "k", strings.Repeat("x", 5000))); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.configure(func(text string) string { return text + "limits: {payload_bytes: 20KiB}\n" })
	a.again()
	sub, err := events.Open(t.Context(), a.mustDial(a.addrs[0]).Session, events.SubscribeOptions{Filter: "type:k", After: new(uint64(0))})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for got, batches := 0, 0; got < n; batches++ {
		d, err := sub.Recv(t.Context())
		if err != nil {
			t.Fatalf("after %d events: %v", got, err)
		}
		if got += len(d.Events); len(d.Events) > 4 {
			t.Errorf("%d events of 5,000 octets at once", len(d.Events))
		}
	}
}
