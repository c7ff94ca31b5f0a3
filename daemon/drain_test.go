package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// pidOf asks the child of a session for its process id.
func pidOf(t *testing.T, s *session, name string) int {
	t.Helper()
	var id, pid int
	answer := s.tool(t, name, "pid", "{}")
	if _, err := fmt.Sscanf(answer, `{"jsonrpc":"2.0","id":%d,"result":%d}`, &id, &pid); err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	return pid
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestOP03StopLetsWhatIsInFlightEnd(t *testing.T) {
	r := start(t, childYAML(t))
	for _, address := range r.addrs[:1] {
		s := r.mustDial(address)
		name := s.initialize(t)
		pid := pidOf(t, s, name)

		socket := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		answer := make(chan string, 1)
		go func() { answer <- s.tool(t, name, "wait", fmt.Sprintf(`{"socket":%q}`, socket)) }()
		waiting, err := ln.Accept() // the call has reached the child
		if err != nil {
			t.Fatal(err)
		}
		r.stop()
		r.await(`"msg":"stopping"`)
		if status, body := r.get("/readyz"); status != 503 || !strings.Contains(body, "stopping") {
			t.Errorf("/readyz says %d %q", status, body)
		}
		r.eventually("new connections are not served", func() bool { // the log says it a moment earlier
			late, err := r.dial(address)
			return err != nil || echo(t, late) != nil
		})
		_ = waiting.Close()
		if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":"waited"}`; got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
		if err := r.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if !gone(pid) {
			t.Errorf("child %d lives on", pid)
		}
	}
}

// A reload while the daemon stops would start what nobody ends.
func TestAReloadDuringAStopIsRefusedAtOnce(t *testing.T) {
	r := start(t, childYAML(t))
	hanging(t, r)
	r.stop()
	r.await(`"msg":"stopping"`)
	r.rewrite("child:", "other:")
	if status, body := r.post(); status != http.StatusServiceUnavailable || !strings.Contains(body, "swpd is stopping and has reloaded nothing") {
		t.Errorf("/reload: %d %s", status, body)
	}
	r.reloaded() // by signal: it does not block
	if log := r.log.String(); strings.Contains(log, `"msg":"reloaded"`) || strings.Contains(log, `"msg":"mcp servers reloaded"`) {
		t.Errorf("it was taken up:\n%s", log)
	}
	close(r.abort)
	if err := r.end(); !errors.Is(err, ErrAborted) {
		t.Errorf("Run: %v, want ErrAborted", err)
	}
}

// hanging starts a call that is never answered and returns the child's pid.
func hanging(t *testing.T, r *running) int {
	t.Helper()
	s := r.mustDial(r.addrs[0])
	name := s.initialize(t)
	pid := pidOf(t, s, name)
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{"socket":%q}}}`, socket)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Session: name, Octets: []byte(request)})
	}()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return pid
}

func TestOP03StuckUpstreamDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	r := start(t, childYAML(t))
	pid := hanging(t, r)
	began := time.Now()
	if err := r.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took < drain {
		t.Errorf("stopped after %v", took)
	}
	if !gone(pid) {
		t.Errorf("child %d lives on", pid)
	}
}

func TestOP03SecondSignalStopsAtOnce(t *testing.T) {
	r := start(t, childYAML(t))
	pid := hanging(t, r)
	r.stop()
	r.await(`"msg":"stopping"`)
	close(r.abort)
	if err := r.end(); !errors.Is(err, ErrAborted) {
		t.Errorf("Run: %v, want ErrAborted", err)
	}
	if !gone(pid) {
		t.Errorf("child %d lives on", pid)
	}
}

// A task that an agent carries out is safe at both ends, so neither waits for it.
func TestOP03StopDoesNotWaitForTasksOfPartners(t *testing.T) {
	b, a := open(t, "b", ""), open(t, "a", "")
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	release := make(chan struct{})
	b.agent("far", func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		if err := event("begun", nil); err != nil {
			return nil, err
		}
		<-release
		return nil, nil
	})
	defer close(release)
	s := a.mustDial(a.addrs[0])
	d, err := s.tasks.Send(t.Context(), s.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: "b/far"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	follow(t, d, "begun")
	for _, o := range []*organisation{b, a} {
		if err := o.end(); err != nil || strings.Contains(o.log.String(), "in flight") {
			t.Errorf("%s: %v\n%s", o.name, err, o.log)
		}
	}
}
