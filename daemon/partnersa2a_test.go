package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// tunnel is a way to an address that can be cut.
type tunnel struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
	held sync.RWMutex // locked while nothing passes, not even an end
}

func newTunnel(t *testing.T, address string) (*tunnel, string) {
	t.Helper()
	to, err := transport.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tn := &tunnel{Listener: ln}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		tn.cut()
		work.Wait()
	})
	work.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to.HostPort())
			if err != nil {
				_ = in.Close()
				continue
			}
			tn.mu.Lock()
			tn.open = append(tn.open, in, out)
			tn.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				work.Go(func() {
					_, _ = io.Copy(heldUp{pair[0], &tn.held}, pair[1])
					tn.held.RLock()
					defer tn.held.RUnlock()
					_ = pair[0].Close()
				})
			}
		}
	})
	return tn, "swp+tls://" + ln.Addr().String()
}

// heldUp is a writer that waits while a tunnel is held.
type heldUp struct {
	io.Writer
	held *sync.RWMutex
}

func (w heldUp) Write(b []byte) (int, error) {
	w.held.RLock()
	defer w.held.RUnlock()
	return w.Writer.Write(b)
}

// cut closes what is open. What is dialled later is carried again.
func (tn *tunnel) cut() {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	for _, conn := range tn.open {
		_ = conn.Close()
	}
	tn.open = nil
}

// agent joins a daemon as an agent that carries out tasks of kind k, or of others.
func (o *organisation) agent(id string, worker a2a.WorkerFunc, kinds ...string) {
	o.t.Helper()
	o.declaring("", id, worker, kinds...)
}

// declaring is agent with a declaration for the hints of others.
func (o *organisation) declaring(hints, id string, worker a2a.WorkerFunc, kinds ...string) {
	o.t.Helper()
	o.seats(devpki.Client(filepath.Join(o.dir, "pki")), o.addrs[0], hints, id, worker, kinds...)
}

// seats connects an agent with a certificate.
func (o *organisation) seats(f devpki.Files, address, hints, id string, worker a2a.WorkerFunc, kinds ...string) *session {
	o.t.Helper()
	if len(kinds) == 0 {
		kinds = []string{"k"}
	}
	dir := o.t.TempDir()
	state, err := storage.Open(o.t.Context(), storage.Options{Config: &config.Config{Data: dir, Store: config.StoreMemory, Quota: config.Quota{Total: 1 << 30, PerIdentity: 1 << 30}}, Log: zap.NewNop()})
	if err != nil {
		o.t.Fatal(err)
	}
	set, err := all.New(all.Options{A2A: a2a.Options{Store: state, Declares: hints, Workers: []a2a.Registration{{Kinds: kinds, Worker: worker}}}})
	if err != nil {
		o.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Tracer: endpoint.ContextFunc(set.Carriers.Attach)})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
		_ = state.Close()
	})
	conn, err := connect(o.t, address, f)
	if err != nil {
		o.t.Fatal(err)
	}
	s := &session{ep.Attach(conn), set.MCP, set.A2A, set.Relay}
	s.declare(o.t, id, kinds...)
	return s
}

// declare declares an agent, and returns when the daemon knows it. On QUIC what comes later may
// overtake the Handshake, which has no answer.
func (s *session) declare(t *testing.T, id string, kinds ...string) {
	t.Helper()
	if err := s.tasks.Declare(t.Context(), s.Session, id, kinds); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call := func(params, result any) error { return rpc.CallJSON(ctx, s.Session, agdisc.MethodList, params, result) }
	for {
		for entry, err := range agdisc.Entries(call) {
			if err != nil {
				t.Fatalf("agent %s is not listed: %v", id, err)
			}
			if entry.Own && entry.AgentID == id {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
}

// follow receives Events of a task up to a message, or to the end.
func follow(t *testing.T, d *a2a.Delivery, until string) (events []string, result *a2a.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		event, err := d.Recv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return events, d.Result()
		case err != nil:
			t.Fatalf("after %q: %v", events, err)
		case event.Message == "accepted":
			continue
		}
		events = append(events, event.Message+string(event.Payload))
		if event.Message == until {
			return events, nil
		}
	}
}

func TestATaskGoesOnWhenTheLinkIsCut(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", "")
	link, address := newTunnel(t, b.addrs[0])
	a.trusting("b", b, address)
	b.trusting("a", a)
	a.connected("b")
	release := make(chan struct{})
	runs := make(chan string, 10)
	b.agent("far", func(_ context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		runs <- fmt.Sprintf("%s %s %v %d", task.Kind, task.Input, task.Params, task.Hops)
		for i := range 6 {
			if i == 2 {
				<-release
			}
			if err := event(fmt.Sprint(i), []byte{0, byte(i), '\n'}); err != nil {
				return nil, err
			}
		}
		return []byte("\x00out"), nil
	})
	s := a.mustDial(a.addrs[0])
	task := &a2a.Task{ID: []byte("0123456789abcdef"), Kind: "k", Input: []byte("{ }"), Params: []string{"x=1"}}
	d, err := s.tasks.Send(t.Context(), s.Session, task, a2a.SendOptions{Agent: "b/far"})
	if err != nil {
		t.Fatal(err)
	}
	if events, _ := follow(t, d, "1"); len(events) != 2 {
		t.Errorf("events %q", events)
	}
	link.cut()
	close(release)
	events, result := follow(t, d, "")
	d.Close()
	if want := "2\x00\x02\n 3\x00\x03\n 4\x00\x04\n 5\x00\x05\n"; strings.Join(events, " ") != want || !result.OK || string(result.Output) != "\x00out" {
		t.Errorf("events %q, result %+v", events, result)
	}
	if got := <-runs; got != "k { } [x=1] 2" || len(runs) > 0 {
		t.Errorf("the agent was given %q, and %d more", got, len(runs))
	}
	// Who comes back later gets what it missed.
	again := a.mustDial(a.addrs[1])
	d, err = again.tasks.Send(t.Context(), again.Session, task, a2a.SendOptions{Agent: "b/far", Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if events, result := follow(t, d, ""); len(events) != 6 || !result.OK {
		t.Errorf("again: events %q, result %+v", events, result)
	}
}

func TestTasksForAPartnerNeedARuleAndAPartner(t *testing.T) {
	b := open(t, "b", "")
	a := open(t, "a", "access: {rules: [{identity: 'spiffe://a.example/**', profile: a2a, operation: task, name: [k, 'b/far/k', 'c/**']}]}\n")
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	b.agent("far", func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
		return []byte("done"), nil
	})
	s := a.mustDial(a.addrs[0])
	for agent, want := range map[string]string{"b/far": "", "b/other": "denied", "c/far": "unsupported capability"} {
		_, result := s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: agent})
		if result.OK != (want == "") || !strings.HasPrefix(result.Reason, want) || want == "" && result.Reason != "" {
			t.Errorf("%s: %+v, want %q", agent, result, want)
		}
	}
}

func TestATaskOutlivesTheRestartOfTheForwardingEndpoint(t *testing.T) {
	b, a := open(t, "b", ""), open(t, "a", "")
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	release := make(chan struct{})
	runs := make(chan struct{}, 10)
	b.agent("far", func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		runs <- struct{}{}
		if err := event("begun", nil); err != nil {
			return nil, err
		}
		<-release
		return []byte("out"), nil
	})
	s := a.mustDial(a.addrs[0])
	task := &a2a.Task{ID: []byte("0123456789abcdef"), Kind: "k"}
	d, err := s.tasks.Send(t.Context(), s.Session, task, a2a.SendOptions{Agent: "b/far"})
	if err != nil {
		t.Fatal(err)
	}
	follow(t, d, "begun")
	d.Close()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	close(release)
	a.again()
	again := a.mustDial(a.addrs[0])
	d, err = again.tasks.Send(t.Context(), again.Session, task, a2a.SendOptions{Agent: "b/far", Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	events, result := follow(t, d, "")
	if strings.Join(events, " ") != "begun" || !result.OK || string(result.Output) != "out" {
		t.Errorf("events %q, result %+v", events, result)
	}
	if len(runs) != 1 {
		t.Errorf("the agent was given the task %d times", len(runs))
	}
}
