package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// site is an endpoint whose connections can be cut.
type site struct {
	t   *testing.T
	set *all.Set
	ep  *endpoint.Endpoint

	mu    sync.Mutex
	conns []transport.Conn // this client's ends, the newest last
	down  error            // why none can be made
	dials []time.Time
}

func memory(t *testing.T) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newSite(t *testing.T, opts a2a.Options) *site {
	t.Helper()
	return newSiteWith(t, opts, agdisc.Options{})
}

// newSiteWith returns a site that knows cards.
func newSiteWith(t *testing.T, opts a2a.Options, cards agdisc.Options) *site {
	t.Helper()
	if opts.Store == nil {
		opts.Store = memory(t)
	}
	return newSiteOf(t, all.Options{Identity: opts.Identity, A2A: opts, AGDISC: cards})
}

// newSiteOf returns a site with these profiles.
func newSiteOf(t *testing.T, o all.Options) *site {
	t.Helper()
	set, err := all.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return &site{t: t, set: set, ep: ep}
}

// connect is a Dialer for a client with profiles of its own, or those given.
func (s *site) connect(_ context.Context, set *all.Set) (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials = append(s.dials, time.Now())
	if s.down != nil {
		return nil, s.down
	}
	here, there := transport.Pipe()
	s.ep.Attach(there)
	c := &Client{address: "pipe", opts: Options{Profiles: set}}
	if err := c.attach(here); err != nil {
		return nil, err
	}
	s.conns = append(s.conns, here)
	return c, nil
}

func (s *site) dial(ctx context.Context) (*Client, error) { return s.connect(ctx, nil) }

// cut ends the newest connection. With a reason none can be made from then on.
func (s *site) cut(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	_ = s.conns[len(s.conns)-1].Close(0)
}

// steps is a worker that says 1 to n, each when a step is allowed, and returns
// its input.
func steps(n int, step <-chan struct{}) a2a.WorkerFunc {
	return func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		for i := range n {
			select {
			case <-step:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := event(fmt.Sprint(i+1), nil); err != nil {
				return nil, err
			}
		}
		return t.Input, nil
	}
}

func doing(w a2a.Worker) a2a.Options {
	return a2a.Options{Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w}}}
}

var errDown = errors.New("nobody is there")

func TestFollowGoesOnOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{}, 10)
		s := newSite(t, doing(steps(6, step)))
		step <- struct{}{}
		var seen []string
		lost := 0
		result, err := Follow(t.Context(), s.dial, FollowOptions{
			Task: &a2a.Task{ID: []byte("task"), Kind: "k", Input: []byte("in")},
			Event: func(e *a2a.Event) error {
				seen = append(seen, fmt.Sprintf("%d %s", e.Seq, e.Message))
				if e.Seq%2 == 0 && e.Seq < 6 {
					s.cut(nil)
				}
				if e.Seq < 6 {
					step <- struct{}{}
				}
				return nil
			},
			Lost: func(error, time.Duration) { lost++ },
		})
		if err != nil || !result.OK || string(result.Output) != "in" {
			t.Fatalf("%+v, %v", result, err)
		}
		if want := []string{"1 1", "2 2", "3 3", "4 4", "5 5", "6 6"}; !slices.Equal(seen, want) {
			t.Errorf("events %q, want %q", seen, want)
		}
		if lost != 2 || len(s.dials) != 3 {
			t.Errorf("%d connections lost, %d made", lost, len(s.dials))
		}
	})
}

func TestFollowGivesUpAfterItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{}, 1)
		s := newSite(t, doing(steps(2, step)))
		step <- struct{}{}
		_, err := Follow(t.Context(), s.dial, FollowOptions{
			Task: &a2a.Task{Kind: "k"}, Patience: time.Minute,
			Event: func(*a2a.Event) error { s.cut(errDown); return nil },
		})
		if !errors.Is(err, errDown) {
			t.Errorf("error %v, want %v", err, errDown)
		}
		gone := s.dials[len(s.dials)-1].Sub(s.dials[1])
		if gone > time.Minute || gone < time.Minute-2*pauses.Longest {
			t.Errorf("the last try was after %v", gone)
		}
		for i := 2; i < len(s.dials); i++ {
			if pause := s.dials[i].Sub(s.dials[i-1]); pause > pauses.Longest {
				t.Errorf("pause %d of %v", i, pause)
			}
		}
	})
}

func TestFollowWaitsForTheFirstConnectionOnlyToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		s.down = errDown
		o := FollowOptions{Task: &a2a.Task{Kind: "k"}, Event: func(*a2a.Event) error { return nil }}
		if _, err := Follow(t.Context(), s.dial, o); !errors.Is(err, errDown) || len(s.dials) != 1 {
			t.Errorf("after %d tries: %v", len(s.dials), err)
		}
		o.Resume = true
		if _, err := Follow(t.Context(), s.dial, o); !errors.Is(err, errDown) || len(s.dials) < 5 {
			t.Errorf("after %d tries: %v", len(s.dials), err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		o.Lost = func(error, time.Duration) { cancel(why) }
		if _, err := Follow(ctx, s.dial, o); !errors.Is(err, why) {
			t.Errorf("error %v, want %v", err, why)
		}
	})
}

func TestFollowEndsWithWhatNoOtherConnectionMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{}, 10)
		s := newSite(t, doing(steps(1, step)))
		full := errors.New("disk full")
		step <- struct{}{}
		o := FollowOptions{Task: &a2a.Task{ID: []byte("task"), Kind: "k"}, Event: func(*a2a.Event) error { return full }}
		if _, err := Follow(t.Context(), s.dial, o); !errors.Is(err, full) || len(s.dials) != 1 {
			t.Errorf("after %d connections: %v", len(s.dials), err)
		}
		o.Task = &a2a.Task{ID: []byte("task"), Kind: "another"}
		began := time.Now()
		if _, err := Follow(t.Context(), s.dial, o); !errors.Is(err, errUnacknowledged) || len(s.dials) != 3 { // the third one asks what the peer serves
			t.Errorf("after %d connections: %v", len(s.dials), err)
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

func TestAgentThatThePeerCannotTellApartIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, err := rpc.New(rpc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		registry, err := profiles.NewRegistry(calls)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ep.Close() }()
		s := newSite(t, a2a.Options{})
		s.ep = ep
		sent := 0
		o := FollowOptions{Task: &a2a.Task{Kind: "k"}, Agent: "one", Resume: true, Event: func(*a2a.Event) error { sent++; return nil }}
		if _, err := Follow(t.Context(), s.dial, o); err == nil || sent > 0 || len(s.dials) != 1 {
			t.Errorf("after %d connections: %v", len(s.dials), err)
		}
	})
}

// hired starts Work for a site, and returns what it will return.
func (s *site) hired(ctx context.Context, o WorkOptions) <-chan error {
	o.Agent, o.Store = "agent", memory(s.t)
	done := make(chan error, 1)
	go func() { done <- Work(ctx, s.connect, o) }()
	return done
}

func TestWorkKeepsItsTasksOverLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{}, 10)
		s := newSite(t, a2a.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var runs, connected atomic.Int32
		worker := steps(3, step)
		done := s.hired(ctx, WorkOptions{
			Registration: a2a.Registration{Kinds: []string{"k"}, Worker: a2a.WorkerFunc(
				func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
					runs.Add(1)
					return worker(ctx, t, event)
				})},
			Connected: func(*Client) { connected.Add(1) },
		})
		synctest.Wait()
		cutter := s.conns[0]
		var seen []string
		step <- struct{}{}
		result, err := Follow(t.Context(), s.dial, FollowOptions{
			Task: &a2a.Task{Kind: "k", Input: []byte("in")},
			Event: func(e *a2a.Event) error {
				seen = append(seen, e.Message)
				if e.Seq == 1 {
					_ = cutter.Close(0)
				}
				step <- struct{}{}
				return nil
			},
		})
		if err != nil || !result.OK || string(result.Output) != "in" {
			t.Fatalf("%+v, %v", result, err)
		}
		synctest.Wait() // events flow before Work tells of the connection
		if want := []string{"1", "2", "3"}; !slices.Equal(seen, want) || runs.Load() != 1 || connected.Load() != 2 {
			t.Errorf("events %q, want %q; %d runs, %d connections", seen, want, runs.Load(), connected.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Work: %v", err)
		}
	})
}

func TestWorkLetsTasksEndWithinABound(t *testing.T) {
	for name, end := range map[string]struct {
		finish, abort bool
		takes         time.Duration
		err           error
	}{
		"they end":    {finish: true},
		"they do not": {takes: 5 * time.Second, err: ErrTasksLeft},
		"abort":       {abort: true, err: ErrTasksLeft},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				step, abort := make(chan struct{}, 1), make(chan struct{})
				s := newSite(t, a2a.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				draining := make(chan int, 1)
				done := s.hired(ctx, WorkOptions{
					Registration: a2a.Registration{Kinds: []string{"k"}, Worker: steps(1, step)},
					Drain:        5 * time.Second, Abort: abort, Draining: func(n int) { draining <- n },
				})
				synctest.Wait()
				c, err := s.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				d, err := c.A2A().Send(t.Context(), c.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				synctest.Wait()
				began := time.Now()
				cancel()
				if n := <-draining; n != 1 {
					t.Errorf("%d tasks when it began to stop", n)
				}
				synctest.Wait()
				// Whatever comes now is for somebody else.
				late, err := c.A2A().Send(t.Context(), c.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer late.Close()
				if _, err := late.Recv(t.Context()); late.Result() == nil || late.Result().OK {
					t.Errorf("a late task: %v, %+v", err, late.Result())
				}
				if end.finish {
					step <- struct{}{}
					if e, err := d.Recv(t.Context()); err != nil || e.Message != "1" {
						t.Errorf("event %+v, %v", e, err)
					}
					if _, err := d.Recv(t.Context()); d.Result() == nil || !d.Result().OK {
						t.Errorf("result %+v, %v", d.Result(), err)
					}
				}
				if end.abort {
					close(abort)
				}
				if err := <-done; !errors.Is(err, end.err) {
					t.Errorf("Work: %v, want %v", err, end.err)
				}
				if took := time.Since(began); took < end.takes || took > end.takes+lingerTime {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestWorkFailsWithoutAFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		s.down = errDown
		registration := a2a.Registration{Kinds: []string{"k"}, Worker: steps(0, nil)}
		if err := <-s.hired(t.Context(), WorkOptions{Registration: registration}); !errors.Is(err, errDown) || len(s.dials) != 1 {
			t.Errorf("after %d tries: %v", len(s.dials), err)
		}
	})
}

func TestWorkFailsIfThePeerDoesNotTakeTheAgent(t *testing.T) {
	for name, identity := range map[string]func(identity, agentID string) bool{
		"may not be it":      func(string, string) bool { return false },
		"may be another one": func(_, agentID string) bool { return agentID == "another" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, a2a.Options{MayUse: identity})
				connected := false
				err := <-s.hired(t.Context(), WorkOptions{
					Registration: a2a.Registration{Kinds: []string{"k"}, Worker: steps(0, nil)},
					Connected:    func(*Client) { connected = true },
				})
				var refused *AnswerError
				if !errors.As(err, &refused) || connected {
					t.Errorf("connected: %v, error %v", connected, err)
				}
			})
		})
	}
}

func TestDecodeA2ANamesTheFields(t *testing.T) {
	id := []byte{0xca, 0xfe}
	for _, test := range []struct {
		typ     uint64
		payload []byte
		want    string
	}{
		{a2a.TypeHandshake, (&a2a.HandshakeBody{AgentID: []byte("a"), Capabilities: [][]byte{[]byte("k")}}).Append(nil), "map[agent_id:a capabilities:[k]]"},
		{a2a.TypeTask, (&a2a.TaskBody{TaskID: id, Kind: []byte("k"), Input: []byte{0xff}}).Append(nil), "map[input:hex:ff kind:k task_id:cafe]"},
		{a2a.TypeEvent, (&a2a.EventBody{TaskID: id, Message: []byte("m"), Payload: []byte("p")}).Append(nil), "map[event_payload:p message:m task_id:cafe]"},
		{a2a.TypeResult, (&a2a.ResultBody{TaskID: id, ErrorMessage: []byte("e"), Output: []byte("o")}).Append(nil), "map[error_message:e ok:false output:o task_id:cafe]"},
	} {
		env := e1.Envelope{ProfileID: a2a.ProfileID, MsgType: test.typ, Payload: test.payload}
		if got := fmt.Sprint(decodePayload(&env)); got != test.want {
			t.Errorf("type %d: %s, want %s", test.typ, got, test.want)
		}
		env.Payload = env.Payload[1:]
		if got := decodePayload(&env); got != nil {
			t.Errorf("type %d, broken: %v", test.typ, got)
		}
	}
}

func TestProgressIsTakenAwayForWhatIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, "one")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if err := p.Print("two", func() error { _, err := out.WriteString("line\n"); return err }); err != nil {
			t.Error(err)
		}
		p.Stop()
		const erase = "\r\x1b[K"
		if got := out.String(); !bytes.Contains(out.Bytes(), []byte(" one, 3s"+erase+"line\n"+erase)) || !bytes.HasSuffix(out.Bytes(), []byte(" two, 3s"+erase)) {
			t.Errorf("%q", got)
		}
	})
	// What is no terminal stays clean.
	var out bytes.Buffer
	p := NewProgress(&out, "one")
	_ = p.Print("two", func() error { return nil })
	p.Stop()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}

func TestATaskThatItsAgentFailsIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := doing(a2a.WorkerFunc(func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
			return nil, &a2a.Failure{Reason: a2a.ReasonDenied}
		}))
		opts.Identity = "spiffe://site/swpd"
		s := newSite(t, opts)
		for kind, refused := range map[string]profiles.Code{"k": profiles.OK, "unknown": profiles.NotFound} {
			result, err := Follow(t.Context(), s.dial, FollowOptions{
				Task:  &a2a.Task{Kind: kind, Input: []byte("in")},
				Event: func(*a2a.Event) error { return nil },
			})
			if err != nil || result.OK || result.Refused != refused || (result.By == Author{}) != (refused == profiles.OK) {
				t.Errorf("a task of kind %q: %+v, %v; want refused with %v", kind, result, err, refused)
			}
		}
	})
}
