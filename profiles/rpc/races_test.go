package rpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// ends counts how calls that race have ended.
type ends struct{ done, cancelled int }

// A cancel races the completion of a call a thousand times: each ends once, one
// way or the other, and nothing comes after that.
func TestPR02CancelRacesCompletion(t *testing.T) {
	times := effort.Rounds(1000)
	finish := func(params []byte) ([]byte, error) { return append([]byte("done "), params...), nil }
	methods := map[string]rpc.Method{
		"test.detached": {Detached: func(_ context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
			return finish(params)
		}},
		"test.held": {Held: func(p *rpc.Pending, params []byte) error {
			result, err := finish(params)
			go func() { _ = p.Return(result) }()
			return err
		}},
	}
	for name := range methods {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s keyed %v", name, keyed), func(t *testing.T) {
				p := newProfile(t, rpc.Options{Methods: methods, Outcomes: openStore(t, "", nil)})
				a, b := dial(t, "spiffe://test/a", p), dial(t, "spiffe://test/b", p)
				var got ends
				for i := range times {
					id, key := fmt.Sprint("id", i), ""
					if keyed {
						key = id
					}
					call := a.start(ask(id, name, "p", key))
					var both sync.WaitGroup
					for _, from := range []*peer{a, b, a} { // b's is nobody's call
						both.Go(func() { from.cancel(id) })
					}
					first := spell(t, call.wait())[0]
					both.Wait()
					switch first {
					case "resp " + id + " done p":
						got.done++
					case "err " + id + " cancelled":
						got.cancelled++
					default:
						t.Fatalf("call %d ended with %q", i, first)
					}
					if keyed { // and the same end for ever
						if again := spell(t, a.start(ask(id, name, "p", key)).wait())[0]; again != first {
							t.Fatalf("call %d: %q, then %q", i, first, again)
						}
					}
				}
				// What the peer sends after the end has no call to go to.
				a.start(ask("last", "swp.ping", "", "")).want("resp last ")
				for _, v := range a.Verdicts() {
					if v.Err != nil {
						t.Errorf("an answer of type %d is refused: %v", v.Kind, v.Err)
					}
				}
				if n := len(a.Verdicts()); keyed && n != 2*times+1 || !keyed && n != times+1 {
					t.Errorf("%d answers to %d calls", n, times)
				}
				t.Logf("%d done, %d cancelled", got.done, got.cancelled)
			})
		}
	}
}

// PR-02, the other half: stream items come in order or the call is over.
func TestPR02BadOrderClosesTheLifecycle(t *testing.T) {
	item := func(seq uint64, last bool) e1.Envelope {
		return e1.Envelope{MsgType: rpc.TypeStreamItem, Payload: (&rpc.StreamItem{RPCID: []byte("0123456789abcdef"), SeqNo: seq, Item: []byte("x"), IsTerminal: last}).Append(nil)}
	}
	resp := e1.Envelope{MsgType: rpc.TypeResp, Payload: (&rpc.Resp{RPCID: []byte("0123456789abcdef"), Result: []byte("late")}).Append(nil)}
	for name, answers := range map[string][]e1.Envelope{
		"out of order":           {item(2, false), item(1, false), resp},
		"repeated":               {item(1, false), item(1, false), resp},
		"after the terminal one": {item(1, true), item(2, false), resp},
		"item after the end":     {item(1, false), item(0, false), item(2, false), resp},
	} {
		t.Run(name, func(t *testing.T) {
			peer := &script{answers: answers}
			stream, err := rpc.Open(t.Context(), peer, "test.method", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 { // whatever comes now, the call is over
				_, err = stream.Recv(t.Context())
				if fault := profiles.AsError(err); fault.Code != profiles.InvalidProfilePayload {
					t.Errorf("error %v, want InvalidProfilePayload", err)
				}
			}
			if stream.Result() != nil {
				t.Errorf("result %q of a broken call", stream.Result())
			}
			stream.Close()
			if len(peer.sent) != 1 || peer.sent[0].MsgType != rpc.TypeCancel {
				t.Errorf("sent %v, want the call cancelled", peer.sent)
			}
		})
	}
}

// The deadline of a caller, the handler deadline and the result race likewise.
func TestDeadlineRacesCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProfile(t, rpc.Options{Outcomes: openStore(t, "", nil), Methods: map[string]rpc.Method{
			"test.race": {Detached: func(_ context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
				time.Sleep(10 * time.Millisecond)
				return params, nil
			}},
		}})
		a := dial(t, "spiffe://test/a", p)
		for i := range 200 {
			id := fmt.Sprint("id", i)
			for _, key := range []string{"", id} {
				got := spell(t, a.start(ask(id, "test.race", "p", key), within(10)...).wait())
				want := "err " + id + " timeout"
				if key == "" {
					want += " retryable"
				}
				if len(got) != 1 || got[0] != want && got[0] != "resp "+id+" p" {
					t.Fatalf("call %d ended with %q", i, got)
				}
				if key != "" {
					a.start(ask(id, "test.race", "p", key)).want(got...)
				}
			}
		}
	})
}
