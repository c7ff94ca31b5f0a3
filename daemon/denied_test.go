package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// holds reports whether a file below a directory contains text.
func holds(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Type()&fs.ModeSocket != 0 {
			return err
		}
		octets, err := os.ReadFile(file)
		found = found || bytes.Contains(octets, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// An identity that may do nothing does not fill the store with what it may not do.
func TestRS10DeniedTasksLeaveTheStoreToOthers(t *testing.T) {
	t.Parallel()
	r := open(t, "a", httpYAML+workerYAML("cat", "")+"access: {rules: [{identity: 'spiffe://a.example/**', profile: rpc}]}\n")
	const mark = "nobody has allowed this input"
	input := strings.Repeat(mark, 256<<10/len(mark))
	const each = 5
	for i, address := range r.addrs[:2] {
		s := r.mustDial(address)
		for n := range each {
			id := fmt.Sprint(i, " ", n)
			if _, result := s.hand(t, &a2a.Task{ID: []byte(id), Kind: "k", Input: []byte(input)}, a2a.SendOptions{}); result.OK || result.Reason != a2a.ReasonDenied {
				t.Fatalf("%s: %+v", address, result)
			}
		}
	}
	for range each {
		body := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"` + input + `"}]}}`
		if status, _, got := post(t, r.front()+"/a2a/near/message:send", body, version, "Authorization: Bearer secret-a"); status != 403 {
			t.Fatalf("%d %s", status, got)
		}
	}
	if holds(t, filepath.Join(r.dir, "data"), mark) {
		t.Error("an input is stored")
	}
}

// A peer that leaves before it gets the Result of a denied Task takes nothing from the trail.
func TestOP24DeniedTasksOfAPeerThatLeavesAreInTheTrail(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		t.Parallel()
		r := open(t, "a", workerYAML("cat", "")+"access: {rules: [{identity: 'spiffe://a.example/**', profile: rpc}]}\n")
		s := r.mustDial(r.addrs[number])
		for n := range 64 {
			if _, err := s.tasks.Send(t.Context(), s.Session, &a2a.Task{ID: []byte(fmt.Sprint(n)), Kind: "k"}, a2a.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		r.eventually("a denial", func() bool { return r.metric(`swpd_denials_total{profile="a2a"}`) != "" })
		s.Close(profiles.OK)
		r.eventually("a record of each denial", func() bool {
			n := 0
			for _, e := range r.trail() {
				if e.Operation == "task" && e.Outcome == "denied" {
					n++
				}
			}
			return strconv.Itoa(n) == r.metric(`swpd_denials_total{profile="a2a"}`)
		})
	})
}

// A rule that is removed, and access.deny, end the tasks of an identity that run and those
// that wait; after a start too.
func TestTL12TasksOfAnIdentityThatIsDeniedEnd(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		t.Parallel()
		const allowed = "access: {rules: [{identity: '**', profile: a2a, name: '**'}"
		log := filepath.Join(t.TempDir(), "runs")
		r := open(t, "a", httpYAML+workerYAML("echo run >>"+log+"; exec sleep 600", ", tasks: 1")+allowed+"], agents: [{identity: '**', agent_ids: '**'}]}\n")
		r.agent("near", func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, a2abinding.Kinds()...)
		s := r.mustDial(r.addrs[number])
		var tasks []*a2a.Delivery
		for _, id := range []string{"runs", "waits"} {
			d, err := s.tasks.Send(t.Context(), s.Session, &a2a.Task{ID: []byte(id), Kind: "k"}, a2a.SendOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Recv(t.Context()); err != nil { // accepted
				t.Fatal(err)
			}
			tasks = append(tasks, d)
		}
		answer := make(chan string, 1)
		go func() {
			status, _, got := post(t, r.front()+"/a2a/near/message:send", `{}`, version, "Authorization: Bearer secret-a")
			answer <- fmt.Sprint(status, " ", got)
		}()
		r.counts("swpd_a2a_tasks", "3")

		began := time.Now()
		r.rewrite(allowed, "access: {deny: ['http:alice'], rules: [{identity: '**', profile: rpc}")
		r.reloaded()
		for _, d := range tasks {
			for {
				if _, err := d.Recv(t.Context()); err != nil {
					break
				}
			}
			if result := d.Result(); result == nil || result.OK || result.Reason != a2a.ReasonDenied {
				t.Errorf("%+v", result)
			}
		}
		if got := <-answer; !strings.HasPrefix(got, "403 ") {
			t.Errorf("over HTTP: %s", got)
		}
		r.counts("swpd_a2a_tasks", "0")
		t.Logf("ended after %v", time.Since(began))
	})
}
