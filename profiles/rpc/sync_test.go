package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
)

// slow is a profile whose only message is deferred until the test says so.
func slow(done chan<- func(error)) *profiles.Profile {
	return &profiles.Profile{
		ID: 900, Name: "slow",
		Types: []profiles.Type{{ID: 1, Name: "PUT", Role: profiles.Initiating}},
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			done <- req.Defer()
			return nil
		}),
	}
}

func TestSyncWaitsForWhatEarlierFramesOfTheStreamDeferred(t *testing.T) {
	for _, many := range []bool{false, true} {
		t.Run(fmt.Sprintf("many streams %v", many), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := make(chan func(error), 2)
				a, b := transport.NewPipe(transport.PipeOptions{Multiplexed: many})
				attach(t, b, newProfile(t, rpc.Options{}), slow(done))
				lane, err := attach(t, a, newProfile(t, rpc.Options{})).Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = lane.Close() }()
				for range 2 {
					if err := lane.Send(t.Context(), e1.Envelope{ProfileID: 900, MsgType: 1}); err != nil {
						t.Fatal(err)
					}
				}
				var answered atomic.Bool
				end := make(chan error, 1)
				go func() {
					_, err := rpc.Call(context.Background(), lane, rpc.MethodSync, nil)
					answered.Store(true)
					end <- err
				}()
				first, second := <-done, <-done
				for _, commit := range []func(error){second, first} {
					synctest.Wait()
					if answered.Load() {
						t.Fatal("answered before both were committed")
					}
					commit(nil)
				}
				if err := <-end; err != nil {
					t.Fatal(err)
				}
				if _, err := rpc.Call(t.Context(), lane, rpc.MethodSync, nil); err != nil {
					t.Errorf("with nothing under way: %v", err)
				}
			})
		})
	}
}

// Partners that pass on each other's messages over one stream would wait for each other
// for ever if each of them waited for all that came before.
func TestSyncOfMessagesWaitsForThoseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan func(error), 2)
		a, b := transport.NewPipe(transport.PipeOptions{})
		attach(t, b, newProfile(t, rpc.Options{}), slow(done))
		lane, err := attach(t, a, newProfile(t, rpc.Options{})).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids := [][]byte{[]byte("the first msg_id"), []byte("the other msg_id"), []byte("the third msg_id")}
		for _, id := range ids[:2] {
			if err := lane.Send(t.Context(), e1.Envelope{ProfileID: 900, MsgType: 1, MsgID: id}); err != nil {
				t.Fatal(err)
			}
		}
		first, second := <-done, <-done
		var answered atomic.Int32
		end := make(chan error, 2)
		for _, of := range [][][]byte{ids[1:], ids} {
			go func() {
				err := rpc.SyncOf(context.Background(), lane, of...)
				answered.Add(1)
				end <- err
			}()
		}
		synctest.Wait()
		for i, commit := range []func(error){second, first} {
			if n := answered.Load(); n != int32(i) {
				t.Errorf("%d answers after %d messages", n, i)
			}
			commit(nil)
			synctest.Wait()
		}
		for range 2 {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
		if err := rpc.SyncOf(t.Context(), lane, ids...); err != nil {
			t.Errorf("of what is done: %v", err)
		}
		for name, params := range map[string][]byte{"torn": {5, 'a'}, "an empty msg_id": {0}, "too many": bytes.Repeat([]byte{1, 'a'}, rpc.MaxSync+1)} {
			if _, err := rpc.Call(t.Context(), lane, rpc.MethodSync, params); err == nil {
				t.Errorf("%s: answered", name)
			}
		}
		if _, err := rpc.Call(t.Context(), lane, rpc.MethodSync, bytes.Repeat([]byte{1, 'a'}, rpc.MaxSync)); err != nil {
			t.Errorf("as many as there may be: %v", err)
		}
	})
}

func TestTheLifecycleOfAMessageIsItsRPCID(t *testing.T) {
	p := newProfile(t, rpc.Options{})
	for _, test := range []struct {
		name    string
		msgType uint64
		payload []byte
		want    string
	}{
		{"request", rpc.TypeReq, req("id", "swp.ping", ""), "id"},
		{"cancel", rpc.TypeCancel, cancel("id"), "id"},
		{"without an rpc_id", rpc.TypeReq, req("", "swp.ping", ""), ""},
		{"member of another type", rpc.TypeReq, cancel("id"), ""},
		{"torn", rpc.TypeReq, req("id", "swp.ping", "")[:6], ""},
		{"empty", rpc.TypeReq, nil, ""},
	} {
		env := &e1.Envelope{ProfileID: rpc.ProfileID, MsgType: test.msgType, Payload: test.payload}
		if got := string(p.Lifecycle(env)); got != test.want {
			t.Errorf("%s: lifecycle %q, want %q", test.name, got, test.want)
		}
	}
}
