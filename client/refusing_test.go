package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
	"github.com/slimwire/swp/transport/transporttest"
)

// refusing is a peer of some profiles.
type refusing struct {
	t        *testing.T
	reaction endpointtest.Reaction
	ca       *transporttest.CA
	set      *all.Set
	ep       *endpoint.Endpoint
	dialled  int
}

func newRefusing(t *testing.T, reaction endpointtest.Reaction, serves []uint64) *refusing {
	t.Helper()
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"server": echoing()}, "server")
	if err != nil {
		t.Fatal(err)
	}
	db := memory(t)
	work := func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		if task.Kind == "slow" {
			time.Sleep(time.Minute)
		}
		return []byte("done"), nil
	}
	r := &refusing{t: t, reaction: reaction, ca: transporttest.NewCA(t)}
	r.set, err = all.New(all.Options{
		MCP:   mcpmap.Options{Backend: table},
		A2A:   a2a.Options{Store: db, Workers: []a2a.Registration{{Kinds: []string{"quick", "slow"}, Worker: a2a.WorkerFunc(work)}}},
		State: state.Options{Store: db}, Relay: relay.Options{Store: db},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.set.Close)
	registry, err := profiles.NewRegistry(reaction.Serves(t, r.set.Registry, rpc.ProfileID, serves)...)
	if err != nil {
		t.Fatal(err)
	}
	r.ep, err = endpoint.New(endpoint.Options{Registry: registry, Observer: endpoint.Discard, ErrorFrames: reaction == endpointtest.ErrorFrame})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.ep.Close() })
	return r
}

func (r *refusing) dial(context.Context) (*Client, error) {
	r.dialled++
	near, far := r.reaction.Pair(r.t, r.ca)
	r.ep.Attach(far)
	return Attach(near, Options{Endpoint: endpoint.Options{ErrorFrames: r.reaction == endpointtest.ErrorFrame}})
}

// A peer that serves what is asked of it does the work, however it refuses swp.info, which is optional. Work that
// needs no answer to it goes first, over one connection; what waits for an answer loses at most one connection.
func TestARefusedQuestionDelaysNoWork(t *testing.T) {
	send := func(kind string) func(r *refusing) error {
		return func(r *refusing) error {
			result, err := Follow(r.t.Context(), r.dial, FollowOptions{
				Task: &a2a.Task{ID: []byte("0123456789abcdef"), Kind: kind}, Event: func(*a2a.Event) error { return nil },
			})
			if err == nil && string(result.Output) != "done" {
				err = fmt.Errorf("the result is %+v", result)
			}
			return err
		}
	}
	call := func(r *refusing) error {
		kept := Keep(KeepOptions{Dial: r.dial})
		defer kept.Close()
		for range 2 {
			c, err := kept.Get(r.t.Context())
			if err != nil {
				return err
			}
			result, err := c.MCP().Do(r.t.Context(), &mcpmap.Call{Octets: fmt.Appendf(nil, requests["modern"], 1)})
			if err != nil || result.Error() != nil {
				return fmt.Errorf("%w, %+v", err, result)
			}
			c.Close()
			<-c.Context().Done()
		}
		return nil
	}
	publish := func(r *refusing) error {
		from := make(chan *relay.Publication, 1)
		from <- &relay.Publication{ID: []byte("one"), Topic: "t", Payload: []byte("x")}
		close(from)
		p := Publisher{Connect: r.dial}
		return p.Publish(r.t.Context(), from, func(*relay.Publication, relay.Receipt) error { return nil })
	}
	ask := func(r *refusing) error {
		kept := Keep(KeepOptions{Dial: r.dial})
		defer kept.Close()
		c, err := kept.Get(r.t.Context())
		if err == nil {
			_, err = c.Info(r.t.Context())
		}
		return err
	}
	c3 := []uint64{rpc.ProfileID, events.ProfileID, obs.ProfileID}
	c4 := append(slices.Clone(c3), artifact.ProfileID, state.ProfileID)
	for _, row := range []struct {
		name   string
		serves []uint64
		do     func(r *refusing) error
		fails  bool
		dials  int // without those that the peer ends over the question
		asks   int // connections that it ends over the question
	}{
		{"C0 a2a send", nil, send("quick"), true, 0, 0},
		{"C1 mcp", []uint64{mcpmap.ProfileID}, call, false, 2, 1},
		{"C2 a2a send", []uint64{a2a.ProfileID}, send("quick"), false, 1, 0},
		{"C2 a2a send of a long task", []uint64{a2a.ProfileID}, send("slow"), false, 1, 0},
		{"C3 swp.info", c3, ask, false, 1, 0},
		{"C4 swp.info", c4, ask, false, 1, 0},
		{"relay publish without RPC", []uint64{relay.ProfileID}, publish, false, 1, 0},
		{"C5 relay publish", append(slices.Clone(c4), relay.ProfileID), publish, false, 1, 0},
	} {
		for _, reaction := range endpointtest.Reactions() {
			t.Run(row.name+"/"+string(reaction), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRefusing(t, reaction, row.serves)
					began := time.Now()
					err := row.do(r)
					took := time.Since(began)
					if (err != nil) != row.fails {
						t.Fatalf("after %d connections and %v: %v", r.dialled, took, err)
					}
					want := row.dials
					if r.reaction.Ends() {
						want += row.asks
					}
					if row.fails {
						if took > 15*time.Second {
							t.Errorf("it has failed after %v", took)
						}
						return
					}
					slow := row.name == "C2 a2a send of a long task"
					if slow { // the wait for its end has connections of its own that ask
						took -= time.Minute
						if r.dialled < 2 || r.dialled > 1+maxScouts {
							t.Errorf("%d connections", r.dialled)
						}
					} else if r.dialled != want {
						t.Errorf("%d connections, want %d", r.dialled, want)
					}
					if took > answersSoon+time.Second { // with the pause before another connection
						t.Errorf("the work took %v", took)
					}
				})
			})
		}
	}
}
