package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// forwarding connects to b with the certificate of a, as the endpoint of a does, and asserts
// whoever a context or profiles.Acting names.
func forwarding(t *testing.T, a, b *organisation, transport int) *session {
	t.Helper()
	files := devpki.Server(filepath.Join(a.dir, "pki"))
	files.CA = b.ca()
	s, err := dialWith(t, b.addrs[transport], files)
	if err != nil {
		t.Fatal(err)
	}
	leaves, _ := s.Leaves()
	s.Assert(func(identity string) ([]byte, error) {
		return caller.Sign(&caller.Claim{Caller: identity, Chain: []string{a.identity}}, leaves.Own, b.identity, time.Now())
	})
	if err := echo(t, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// What a caller of a peer owns is neither that of another caller nor of the peer.
func TestCallersOfAPeerAreOwnersInEveryProfile(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, yaml := newFar(t)
		b := open(t, "b", yaml+workerYAML("cat", "")+childYAML(t))
		a := open(t, "a", "")
		b.trusting("a", a)
		s := forwarding(t, a, b, transport)
		x, y := profiles.Acting(s.Session, "http:x"), profiles.Acting(s.Session, "http:y")

		t.Run("keys of calls", func(t *testing.T) {
			for i, as := range []profiles.Session{x, y, s.Session} {
				call := rpc.Invocation{Method: "echo", Params: fmt.Append(nil, i), IdempotencyKey: "k"}
				for range 2 {
					if got, err := call.Call(t.Context(), as); err != nil || string(got) != fmt.Sprint(i) {
						t.Errorf("%d: %s, %v", i, got, err)
					}
				}
			}
			if n := len(f.asked); n != 3 {
				t.Errorf("the method ran %d times, want 3", n)
			}
		})
		t.Run("deliveries", func(t *testing.T) {
			if _, err := relay.Send(t.Context(), x, &relay.Publication{ID: []byte("1"), Topic: "t", Payload: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			for _, as := range []profiles.Session{y, s.Session} {
				_, _, err := relay.Ask(t.Context(), as, []byte("1"))
				refusedBy(t, "the delivery of x", err, relay.CodeNotFound, b)
			}
			if state, _, err := relay.Ask(t.Context(), x, []byte("1")); err != nil || state != relay.Queued {
				t.Errorf("%s, %v", state, err)
			}
			if got, err := relay.Send(t.Context(), y, &relay.Publication{ID: []byte("1"), Topic: "t", Payload: []byte("y")}); err != nil || got.Duplicate {
				t.Errorf("%+v, %v", got, err)
			}
		})
		t.Run("events", func(t *testing.T) {
			for i, as := range []profiles.Session{x, y} {
				if err := publishes(t, as, record("1", "k", fmt.Sprint(i))); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
			if err := publishes(t, x, record("1", "k", "other")); err == nil {
				t.Error("x published another event with the id of its own")
			}
			// Two subscriptions with one name do not replace each other.
			one := subscribed(t, x, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
			two := subscribed(t, y, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
			if err := publishes(t, s.Session, record("2", "k", "2")); err != nil {
				t.Fatal(err)
			}
			for _, sub := range []*events.Subscription{one, two} {
				if list, _ := bodies(t, sub, 1); list[0] != "k=2" {
					t.Errorf("delivered %q", list)
				}
			}
			one.Close() // an EVT_UNSUBSCRIBE asserts nobody, and belongs to its subscription
			two.Close()
		})
		t.Run("cancellations are for the caller of what they end", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			leaves, _ := s.Leaves()
			token, err := caller.Sign(&caller.Claim{Caller: "http:y", Chain: []string{a.identity}}, leaves.Own, b.identity, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			byY := e1.AppendExtension(nil, profiles.ExtCaller, token)
			sub := subscribed(t, x, events.SubscribeOptions{Filter: "type:k"})
			defer sub.Close()
			stop := events.Unsubscribe{SubscriptionID: []byte(sub.ID())}
			refused, err := opened(t, s.Session).Call(ctx, e1.Envelope{ProfileID: events.ProfileID, MsgType: events.TypeUnsubscribe, Extensions: byY, Payload: stop.Append(nil)})
			if err != nil {
				t.Fatal(err)
			}
			defer refused.Close()
			if env, err := refused.Recv(ctx); err != nil || env.MsgType != events.TypeErr || !bytes.Contains(env.Payload, []byte(events.CodeNotFound)) {
				t.Errorf("y has ended the subscription of x: %+v, %v", env, err)
			}
			if err := publishes(t, s.Session, record("3", "k", "3")); err != nil {
				t.Fatal(err)
			}
			if list, _ := bodies(t, sub, 1); list[0] != "k=3" {
				t.Errorf("delivered %q", list)
			}

			hang := rpc.Req{RPCID: []byte("the id of a call"), Method: []byte("hang")}
			call, err := opened(t, x).Call(ctx, e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: hang.Append(nil)})
			if err != nil {
				t.Fatal(err)
			}
			defer call.Close()
			if env, err := call.Recv(ctx); err != nil || env.MsgType != rpc.TypeStreamItem {
				t.Fatalf("%+v, %v", env, err)
			}
			end := rpc.Cancel{RPCID: hang.RPCID}
			for _, ext := range []e1.Extensions{byY, nil} { // y may not; nobody is whoever has called
				if len(f.gone) > 0 {
					t.Error("y has ended the call of x")
				}
				lane := opened(t, s.Session)
				if err := lane.Send(ctx, e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeCancel, Extensions: ext, Payload: end.Append(nil)}); err != nil {
					t.Fatal(err)
				}
				if err := rpc.Sync(ctx, lane); err != nil {
					t.Fatal(err)
				}
				if err := echo(t, s); err != nil {
					t.Fatal(err)
				}
			}
			if env, err := call.Recv(ctx); err != nil || env.MsgType != rpc.TypeErr {
				t.Errorf("%+v, %v", env, err)
			}
		})
		t.Run("artifacts", func(t *testing.T) {
			for _, as := range []profiles.Session{x, y} {
				octets, sum := octetsOf(100_000)
				u := artifact.Upload{ArtifactID: "one", Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
				uploads(t, as, u)
				if back, err := got(t, as, artifact.Download{ArtifactID: "one"}); err != nil || sha256.Sum256(back) != sum {
					t.Errorf("%d octets, %v", len(back), err)
				}
			}
		})
		t.Run("chunks inherit the caller of their offer", func(t *testing.T) {
			octets, sum := octetsOf(10)
			offer := artifact.Offer{ArtifactID: []byte("two"), TotalSize: 10, HashAlg: []byte("sha256"), Hash: sum[:]}
			chunk := artifact.Chunk{ArtifactID: []byte("two"), Data: octets, IsTerminal: true}
			answer := func(as profiles.Session, typ uint64, payload []byte) *e1.Envelope {
				t.Helper()
				lane := opened(t, as)
				call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: typ, Payload: payload})
				if err != nil {
					t.Fatal(err)
				}
				defer call.Close()
				if typ == artifact.TypeOffer {
					if err := rpc.Sync(t.Context(), lane); err != nil {
						t.Fatal(err)
					}
					return nil
				}
				env, err := call.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				own := env.Clone()
				return &own
			}
			answer(x, artifact.TypeOffer, offer.Append(nil))
			if env := answer(y, artifact.TypeChunk, chunk.Append(nil)); env.MsgType != artifact.TypeErr {
				t.Errorf("a chunk of y for the upload of x: msg_type %d", env.MsgType)
			}
			if env := answer(s.Session, artifact.TypeChunk, chunk.Append(nil)); env.MsgType != artifact.TypeAck {
				t.Errorf("a chunk without an assertion: msg_type %d, %q", env.MsgType, env.Payload)
			}
			if back, err := got(t, x, artifact.Download{ArtifactID: "two"}); err != nil || !bytes.Equal(back, octets) {
				t.Errorf("%d octets, %v", len(back), err)
			}
		})
		t.Run("tasks", func(t *testing.T) {
			for _, as := range []profiles.Session{x, y} {
				input := fmt.Sprintf("%p", as)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				d, err := s.tasks.Send(ctx, as, &a2a.Task{ID: []byte("task"), Kind: "k", Input: []byte(input)}, a2a.SendOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = d.Recv(ctx)
				}
				if r := d.Result(); r == nil || !r.OK {
					t.Errorf("%+v, %v", r, err)
				}
				d.Close()
			}
		})
		t.Run("sessions of MCP", func(t *testing.T) {
			ask := func(as, id, request string) *mcpmap.Result {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if as != "" {
					ctx = profiles.WithCaller(ctx, as)
				}
				result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Session: id, Octets: []byte(request)})
				if err != nil {
					t.Fatal(err)
				}
				return result
			}
			id := ask("http:x", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).Session
			for as, status := range map[string]int{"http:x": 0, "": 0, "http:y": 404} {
				if got := ask(as, id, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); got.Status != status {
					t.Errorf("%q: status %d, %s", as, got.Status, got.Octets)
				}
			}
		})
	})
}

// A partner that begins to tell of its callers goes on with what it had.
func TestWhatAPartnerHadBeforeItToldOfCallersGoesOn(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	b := open(t, "b", workerYAML("echo began; while ! test -e "+gate+"; do sleep 0.05; done", ""))
	a := open(t, "a", "")
	b.trusting("a", a)
	a.trusting("b", b, b.addrs[0])
	a.connected("b")
	a.telling("b", "none")
	s, there := a.mustDial(a.addrs[0]), b.mustDial(b.addrs[0])
	sub := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/k", Name: "mine"})
	if err := publishes(t, there.Session, record("1", "k", "1")); err != nil {
		t.Fatal(err)
	}
	if list, _ := bodies(t, sub, 1); list[0] != "k=1" {
		t.Errorf("delivered %q", list)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := s.tasks.Send(ctx, s.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for began := false; !began; {
		event, err := d.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		began = event.Message == "began" || bytes.Contains(event.Payload, []byte("began"))
	}
	a.telling("b", "pseudonym")
	if err := publishes(t, there.Session, record("2", "k", "2")); err != nil {
		t.Fatal(err)
	}
	again := subscribed(t, a.mustDial(a.addrs[0]).Session, events.SubscribeOptions{Filter: "type:b/k", Name: "mine"})
	if list, _ := bodies(t, again, 1); list[0] != "k=2" && list[0] != "k=1" {
		t.Errorf("delivered %q", list)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = d.Recv(ctx)
	}
	if r := d.Result(); r == nil || !r.OK {
		t.Errorf("the task: %+v, %v\n%s", r, err, b.log)
	}
}
