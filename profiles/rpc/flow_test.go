package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
)

// counting are methods that send n items, and the items that were sent.
func counting(n int) (map[string]rpc.Method, *atomic.Int32) {
	sent := new(atomic.Int32)
	item := func(send func([]byte) error) error {
		for i := range n {
			if err := send(fmt.Append(nil, i)); err != nil {
				return err
			}
			sent.Add(1)
		}
		return nil
	}
	return map[string]rpc.Method{
		"test.detached": {Detached: func(_ context.Context, _ *profiles.Request, _ []byte, send func([]byte) error) ([]byte, error) {
			return []byte("end"), item(send)
		}},
		"test.held": {Held: func(p *rpc.Pending, _ []byte) error {
			go func() {
				err := item(func(octets []byte) error {
					if err := p.Pace(p.Context()); err != nil {
						return err
					}
					return p.Item(octets)
				})
				if err != nil {
					p.Fail(err)
					return
				}
				_ = p.Return([]byte("end"))
			}()
			return nil
		}},
	}, sent
}

// flowing runs a test for each kind of method and of connection.
func flowing(t *testing.T, f func(t *testing.T, on profiles.Session, method string, sent *atomic.Int32)) {
	for _, many := range []bool{false, true} {
		for _, method := range []string{"test.detached", "test.held"} {
			t.Run(fmt.Sprintf("%s, many streams %v", method, many), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					methods, sent := counting(3000) // an endpoint keeps 1,024 answers of a call
					f(t, connect(t, many, methods), method, sent)
				})
			})
		}
	}
}

// The window is of 512 small items, and each 32nd is to be confirmed.
func TestAMethodWaitsForACallerThatReceivesNothing(t *testing.T) {
	flowing(t, func(t *testing.T, on profiles.Session, method string, sent *atomic.Int32) {
		stream, err := rpc.Open(t.Context(), on, method, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		got := 0
		receive := func(n int) {
			t.Helper()
			for range n {
				item, err := stream.Recv(t.Context())
				if err != nil || string(item) != fmt.Sprint(got) {
					t.Fatalf("item %d: %q, %v", got, item, err)
				}
				got++
			}
			synctest.Wait()
		}
		before := int32(0)
		for _, step := range []struct{ receive, more int }{{0, 512}, {31, 0}, {1, 32}, {31, 0}, {1, 32}} {
			receive(step.receive)
			// An item weighs its octets, too, so that the window ends one item earlier.
			if more := int(sent.Load() - before); more > step.more || more < step.more-1 {
				t.Errorf("%d items were sent after %d were received, want %d", more, got, step.more)
			}
			before = sent.Load()
		}
		if _, err := rpc.Call(t.Context(), on, rpc.MethodPing, nil); err != nil {
			t.Errorf("another call: %v", err)
		}
		receive(3000 - got)
		if _, err := stream.Recv(t.Context()); !errors.Is(err, io.EOF) || string(stream.Result()) != "end" {
			t.Errorf("the end: %v, result %q", err, stream.Result())
		}
	})
}

func TestAMethodThatWaitsForItsCallerEndsWithIt(t *testing.T) {
	flowing(t, func(t *testing.T, on profiles.Session, method string, sent *atomic.Int32) {
		stream, err := rpc.Open(t.Context(), on, method, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stream.Close() // goleak finds a method that still waits
		synctest.Wait()
		if n := sent.Load(); n > 513 {
			t.Errorf("%d items were sent to a caller that has left", n)
		}
	})
}

// A caller that names no window gets the items at once, and above what its endpoint keeps an error.
func TestItemsAreNotHeldBackFromACallerWithoutAWindow(t *testing.T) {
	flowing(t, func(t *testing.T, on profiles.Session, method string, sent *atomic.Int32) {
		lane, err := on.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lane.Close() }()
		call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: req("one", method, "")})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		synctest.Wait()
		got := 0
		for {
			env, err := call.Recv(t.Context())
			if err != nil {
				fault, _ := errors.AsType[*profiles.Error](err)
				if got != 1024 || fault == nil || fault.Detail != "slow_caller" {
					t.Errorf("after %d items: %v", got, err)
				}
				return
			}
			if _, marked := env.Extensions.Lookup(rpc.ExtWindow); marked {
				t.Fatalf("item %d asks for a confirmation", got)
			}
			got++
		}
	})
}

func TestAWindowThatIsNoNumberIsRefused(t *testing.T) {
	p := newProfile(t, rpc.Options{Methods: open()})
	h := profiletest.New(t, p)
	held := h.Serve(rpc.TypeReq, req("a", "test.open", ""))
	for _, value := range []string{"", "\xff", "\x01\x01"} {
		wantRefusal(t, p, h.Serve(rpc.TypeReq, req("b", "test.open", ""), e1.AppendExtension(nil, rpc.ExtWindow, []byte(value))...), profiles.InvalidProfilePayload)
		wantRefusal(t, p, h.Serve(rpc.TypeCancel, cancel("a"), e1.AppendExtension(nil, rpc.ExtTaken, []byte(value))...), profiles.InvalidProfilePayload)
	}
	// A confirmation of what was not sent, or of an unknown call, ends nothing.
	for _, id := range []string{"a", "c"} {
		wantAnswers(t, h.Serve(rpc.TypeCancel, cancel(id), e1.AppendExtensionUvarint(nil, rpc.ExtTaken, 1<<40)...))
	}
	h.Serve(rpc.TypeCancel, cancel("a"))
	wantAnswers(t, held, "item a 1 open", "err a cancelled")
}
