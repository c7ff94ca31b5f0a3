package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestRS05AnInitiatorThatDoesNotReadHoldsUpNobody(t *testing.T) {
	effort.Unwatched(t)
	for name, pipe := range map[string]func() (a, b transport.Conn){"one stream": transport.Pipe, "many": transport.MuxPipe} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n, size = 40, 1 << 20
				ended := make(chan time.Time, 1)
				w := a2a.WorkerFunc(func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
					for i := range n {
						if err := event(fmt.Sprint(i+1), make([]byte, size)); err != nil {
							return nil, err
						}
					}
					ended <- time.Now()
					return []byte("out"), nil
				})
				s := service(t, a2a.Options{Workers: kinds(w, "k"), EventBytes: 2 * n * size})
				ep := newEndpoint(t, s)
				here, there := pipe()
				session := ep.Attach(here)
				began := time.Now()
				deaf := transporttest.NewRaw(t, there)
				env := e1.Envelope{Version: 1, ProfileID: a2a.ProfileID, MsgType: a2a.TypeTask, MsgID: make([]byte, 16), Payload: task("t", "k", "").Append(nil)}
				deaf.WriteFrame(env.Append(nil))
				if took := (<-ended).Sub(began); took > 0 {
					t.Errorf("the worker was held up for %v", took)
				}
				time.Sleep(12*time.Second - time.Since(began))
				if !there.Multiplexed() && session.Context().Err() == nil {
					t.Error("the slow reader was not let go")
				}
				if due, err := io.Copy(io.Discard, deaf.Stream); there.Multiplexed() && err == nil || due > 20<<20 {
					t.Errorf("%d octets were queued, and then: %v", due, err)
				}
				_ = there.Close(0)

				client := bare(t)
				here, there = pipe()
				ep.Attach(here)
				d, err := client.Send(t.Context(), newEndpoint(t, client).Attach(there),
					&a2a.Task{ID: []byte("t"), Kind: "k"}, a2a.SendOptions{Resume: true})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if events, result := receive(t, d); len(events) != n || string(result.Output) != "out" {
					t.Errorf("%d events, %+v", len(events), result)
				}
			})
		})
	}
}

// organisation is a swpd with an agent and initiators around it, over a real
// network and a real store.
type organisation struct {
	kind   string
	ln     transport.Listener
	policy *transport.Policy
}

func TestWireAgentsAndInitiatorsLoseTheirConnections(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			const initiators, events = 4, 20
			each := effort.Rounds(10)
			db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			o := organisation{kind: kind}
			server := service(t, a2a.Options{Store: db})
			o.ln, o.policy = listen(t, kind, server)

			want := make([]string, events)
			for i := range want {
				want[i] = fmt.Sprint(i + 1)
			}
			var runs atomic.Int64
			agent := service(t, a2a.Options{Workers: kinds(a2a.WorkerFunc(func(ctx context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
				runs.Add(1)
				for i := range events {
					if err := event(fmt.Sprint(i+1), nil); err != nil {
						return nil, err
					}
					select {
					case <-time.After(5 * time.Millisecond):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return task.Input, nil
			}), "k")})
			ctx, cancel := context.WithCancel(t.Context())
			var work sync.WaitGroup
			declared := make(chan struct{})
			work.Go(func() { o.serve(ctx, t, agent, declared) })
			<-declared
			for len(server.Agents()) == 0 {
				runtime.Gosched() // until the Handshake has arrived
			}

			var sending sync.WaitGroup
			for i := range initiators {
				sending.Go(func() {
					client := bare(t)
					ep := newEndpoint(t, client)
					for j := range each {
						input := fmt.Sprintf("%d/%d", i, j)
						got, result := o.follow(t, client, ep, input)
						if diff := cmp.Diff(want, got); diff != "" || string(result.Output) != input {
							t.Errorf("task %s: %+v\n%s", input, result, diff)
						}
					}
				})
			}
			sending.Wait()
			cancel()
			work.Wait()
			if n := runs.Load(); n != int64(initiators*each) {
				t.Errorf("executed %d times, want %d", n, initiators*each)
			}
		})
	}
}

// serve keeps an agent connected, to connections that do not last.
func (o organisation) serve(ctx context.Context, t *testing.T, agent *a2a.Service, declared chan struct{}) {
	ep := newEndpoint(t, agent)
	r := rand.New(rand.NewPCG(1, 1))
	var once sync.Once
	for n := 0; ctx.Err() == nil; n++ {
		conn, err := transporttest.Dial(ctx, o.kind, o.ln.Addr().String(), o.policy)
		if err != nil {
			continue
		}
		session := ep.Attach(conn)
		if agent.Declare(ctx, session, "agent", []string{"k"}) == nil {
			once.Do(func() { close(declared) })
		}
		select {
		case <-time.After(time.Duration(30+r.IntN(60)+n) * time.Millisecond):
		case <-ctx.Done():
		}
		session.Close(profiles.OK)
	}
}

// follow sends a task over connections that do not last.
func (o organisation) follow(t *testing.T, client *a2a.Service, ep *endpoint.Endpoint, input string) (got []string, result *a2a.Result) {
	id, last := profiles.NewMsgID(), uint64(0)
	for n := 0; ; n++ {
		conn, err := transporttest.Dial(t.Context(), o.kind, o.ln.Addr().String(), o.policy)
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		session := ep.Attach(conn)
		d, err := client.Send(t.Context(), session, &a2a.Task{ID: id, Kind: "k", Input: []byte(input)}, a2a.SendOptions{Resume: n > 0, After: last})
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		// Longer each time, so that it comes to an end on the busiest machine.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+rand.IntN(80)+10*n)*time.Millisecond)
		for err == nil {
			var e *a2a.Event
			if e, err = d.Recv(ctx); err == nil {
				if last++; e.Seq != last {
					t.Errorf("event %d came as number %d", last, e.Seq)
				}
				if e.Message != "accepted" { // where there was nothing else for a second
					got = append(got, e.Message)
				}
			}
		}
		cancel()
		result = d.Result()
		d.Close()
		session.Close(profiles.OK)
		if errors.Is(err, io.EOF) {
			return got, result
		}
	}
}

func TestWireCarriesLargeInputsAndOutputs(t *testing.T) {
	effort.Unwatched(t)
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			const large = 8<<20 - 8<<10 - 64 // with its wrapper, nearly what a payload may have
			w := newWorker()
			ln, policy := listen(t, kind, service(t, a2a.Options{Workers: kinds(w, "k")}))
			client := bare(t)
			session := newEndpoint(t, client).Attach(dial(t, kind, ln, policy))
			send := func(id string, resume bool) *a2a.Delivery {
				d, err := client.Send(t.Context(), session, &a2a.Task{ID: []byte(id), Kind: "k", Input: make([]byte, 4<<20)}, a2a.SendOptions{Resume: resume})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(d.Close)
				return d
			}
			// More than a connection may have in flight: while tasks run, their
			// input is in the store.
			var runs []*run
			for i := range 5 {
				send(fmt.Sprint(i), false)
				runs = append(runs, w.started(t))
			}
			d := send("0", true)
			runs[0].end <- outcome{output: make([]byte, large)}
			if _, result := receive(t, d); !result.OK || len(result.Output) != large {
				t.Errorf("%v, %q, %d octets", result.OK, result.Reason, len(result.Output))
			}
			if _, result := receive(t, send("0", true)); !result.OK || len(result.Output) != large {
				t.Errorf("again: %v, %q, %d octets", result.OK, result.Reason, len(result.Output))
			}
			d = send("1", true)
			if err := runs[1].event("", make([]byte, large+64)); err == nil {
				t.Error("an event that cannot be sent was stored")
			}
			runs[1].end <- outcome{output: make([]byte, large+64)}
			if _, result := receive(t, d); result.OK || result.Reason != "the output is too large" {
				t.Errorf("%v, %q", result.OK, result.Reason)
			}
		})
	}
}

func TestASessionCanEndOnceItsTasksAreOver(t *testing.T) {
	for name, pipe := range map[string]func() (a, b transport.Conn){"one stream": transport.Pipe, "many": transport.MuxPipe} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := bare(t)
				ours, theirs := newEndpoint(t, client), newEndpoint(t, service(t, a2a.Options{Workers: kinds(counting(3), "k")}))
				here, there := pipe()
				theirs.Attach(there)
				session := ours.Attach(here)
				for _, kind := range []string{"k", "unsupported"} {
					d, err := client.Send(t.Context(), session, &a2a.Task{Kind: kind}, a2a.SendOptions{})
					if err != nil {
						t.Fatal(err)
					}
					receive(t, d)
					d.Close()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if err := theirs.Shutdown(ctx); err != nil {
					t.Errorf("theirs: %v", err)
				}
				if err := ours.Shutdown(ctx); err != nil {
					t.Errorf("ours: %v", err)
				}
			})
		})
	}
}
