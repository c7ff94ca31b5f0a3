package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
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

// A sender that has asked for the limits of its peer obeys them, and swpd check says when a
// payload of the largest size fits no frame.
func TestASenderObeysTheLimitsOfItsPeer(t *testing.T) {
	r := start(t, "limits: {frame_bytes: 64KiB, payload_bytes: 64KiB}\n")
	for i, address := range r.addrs[:2] {
		s := r.mustDial(address)
		if !rpc.Acquaint(t.Context(), s.Session) {
			t.Fatal("no swp.info")
		}
		octets, sum := octetsOf(300_000)
		u := artifact.Upload{ArtifactID: fmt.Sprint("x", i), Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
		if err := u.Send(t.Context(), s.Session); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		lane := opened(t, s.Session)
		room := profiles.Room(lane, 0)
		if room < 63<<10 || room >= 64<<10 {
			t.Errorf("%s: room for payloads of %d octets", address, room)
		}
		const wrapped = 64 // octets of the request beside its params
		if _, err := rpc.Call(t.Context(), lane, rpc.MethodEcho, make([]byte, room-wrapped)); err != nil {
			t.Errorf("%s: as large as there is room: %v", address, err)
		}
		_, err := rpc.Call(t.Context(), lane, rpc.MethodEcho, make([]byte, 64<<10))
		var fault *profiles.Error
		if !errors.As(err, &fault) || fault.Detail != profiles.PayloadTooLarge.String() || !strings.Contains(fault.Text, ": 65536 octets, 65536 for the payload") {
			t.Errorf("%s: above the limit: %v", address, err)
		}
		if err := echo(t, s); err != nil {
			t.Errorf("%s: after it: %v", address, err)
		}
	}
	plan, err := check.Read(mustLoad(t, filepath.Join(r.dir, "swpd.yaml")))
	if err != nil || !strings.Contains(strings.Join(plan.Warnings, "\n"), "limits.payload_bytes is 64KiB, and a frame of limits.frame_bytes, 64KiB, has no room") {
		t.Errorf("warnings %q, %v", plan.Warnings, err)
	}
}
