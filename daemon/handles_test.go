package daemon

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// firstAnswer sends a message, and returns the first answer to it; nil if the message has none.
func firstAnswer(t *testing.T, s profiles.Session, profile, typ uint64, payload []byte, silent bool) *e1.Envelope {
	t.Helper()
	lane := opened(t, s)
	call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: profile, MsgType: typ, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	if silent {
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

// Two callers of one endpoint, whose rules let both do everything, attack each other's uploads, artifacts, states,
// named subscriptions and sessions, at this endpoint and through it at a partner.
func TestPR04HandlesOfACallerAreNobodyElsesHereAndAtAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pairOf(t, transport, ruleAll+httpYAML+childYAML(t), ruleAll+childYAML(t))
		p := newPeople(t)
		p.admit(a)
		alice, bob := p.dial(a, transport, "spiffe://people.example/alice"), p.dial(a, transport, "spiffe://people.example/bob")
		for _, at := range []string{"", "b/"} {
			octets, sum := octetsOf(10)
			id := at + "upload"
			offer := artifact.Offer{ArtifactID: []byte(id), TotalSize: 10, HashAlg: []byte("sha256"), Hash: sum[:]}
			chunk := func(from, to int, last bool) []byte {
				index := uint64(0)
				if from > 0 {
					index = 1
				}
				c := artifact.Chunk{ArtifactID: []byte(id), ChunkIndex: index, Offset: uint64(from), Data: octets[from:to], IsTerminal: last}
				return c.Append(nil)
			}
			firstAnswer(t, alice.Session, artifact.ProfileID, artifact.TypeOffer, offer.Append(nil), true)
			if env := firstAnswer(t, alice.Session, artifact.ProfileID, artifact.TypeChunk, chunk(0, 4, false), false); env.MsgType != artifact.TypeAck {
				t.Fatalf("%q: alice: msg_type %d, %q", at, env.MsgType, env.Payload)
			}
			for _, c := range [][]byte{chunk(4, 10, true), chunk(4, 5, false), chunk(0, 10, true)} {
				if env := firstAnswer(t, bob.Session, artifact.ProfileID, artifact.TypeChunk, c, false); env.MsgType != artifact.TypeErr {
					t.Errorf("%q: a chunk of bob for the upload of alice: msg_type %d, %q", at, env.MsgType, env.Payload)
				}
			}
			// An offer of bob with the same id begins an upload of his own.
			firstAnswer(t, bob.Session, artifact.ProfileID, artifact.TypeOffer, offer.Append(nil), true)
			if env := firstAnswer(t, bob.Session, artifact.ProfileID, artifact.TypeChunk, chunk(4, 10, true), false); env.MsgType != artifact.TypeErr {
				t.Errorf("%q: bob goes on where alice was: msg_type %d, %q", at, env.MsgType, env.Payload)
			}
			if env := firstAnswer(t, alice.Session, artifact.ProfileID, artifact.TypeChunk, chunk(4, 10, true), false); env.MsgType != artifact.TypeAck {
				t.Errorf("%q: alice, after that: msg_type %d, %q", at, env.MsgType, env.Payload)
			}

			// Neither the artifact nor a state of alice is deleted by bob.
			toward, rest := func(s *session) profiles.Session { return s.Session }, id
			if at != "" {
				toward = func(s *session) profiles.Session { return profiles.Toward(s.Session, "b") }
				rest = "upload"
			}
			blob := state.State{Blob: []byte("of alice" + at)}
			blob.ID = state.IDOf(blob.Blob)
			if _, err := state.PutAll(t.Context(), opened(t, toward(alice)), rpc.Sync, blob); err != nil {
				t.Fatal(err)
			}
			_, _ = rpc.Call(t.Context(), toward(bob), artifact.MethodForget, []byte(rest))
			_, _ = rpc.Call(t.Context(), toward(bob), state.MethodForget, blob.ID[:])
			if back, err := got(t, alice.Session, artifact.Download{ArtifactID: id}); err != nil || !bytes.Equal(back, octets) {
				t.Errorf("%q: alice has %q, %v", at, back, err)
			}
			if back, err := state.Fetch(t.Context(), toward(alice), blob.ID); err != nil || string(back.Blob) != string(blob.Blob) {
				t.Errorf("%q: the state of alice: %v, %v", at, back, err)
			}

			// The cursor of a name is the subscriber's.
			kind := at + "kind"
			subscribe := func(s *session) *events.Subscription {
				return subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:" + kind, Name: "mine"})
			}
			publish := func(id string) {
				t.Helper()
				if err := publishes(t, alice.Session, record(id, kind, id)); err != nil {
					t.Fatal(err)
				}
			}
			one := subscribe(alice)
			publish("1")
			bodies(t, one, 1)
			one.Close()
			publish("2")
			two := subscribe(bob) // begins now, not at the cursor of alice
			publish("3")
			if list, _ := bodies(t, two, 1); !strings.HasSuffix(list[0], "=3") {
				t.Errorf("%q: bob reads %q by the name of alice", at, list)
			}
			two.Close()
			one = subscribe(alice)
			if list, _ := bodies(t, one, 2); !strings.HasSuffix(list[len(list)-1], "=3") || !slices.ContainsFunc(list, func(b string) bool { return strings.HasSuffix(b, "=2") }) {
				t.Errorf("%q: alice goes on with %q after bob has used the name", at, list)
			}
			one.Close()

			// A session over HTTP, and its streams.
			url := a.front() + "/mcp/" + at + "child"
			const begins = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
			status, header, body := post(t, url, begins, "Authorization: Bearer secret-a")
			name := header.Get("Mcp-Session-Id")
			if status != 200 || name == "" {
				t.Fatalf("%q: %d %s", at, status, body)
			}
			for _, try := range []struct {
				method, body string
				more         []string
			}{
				{http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil},
				{http.MethodPost, `{"jsonrpc":"2.0","id":1,"result":{}}`, nil},
				{http.MethodGet, "", nil},
				{http.MethodGet, "", []string{"Last-Event-ID: 0-0"}},
				{http.MethodGet, "", []string{"Last-Event-ID: 1-0"}},
				{http.MethodDelete, "", nil},
			} {
				if status, _, body := exchanged(t, try.method, url, try.body, append(try.more, "Content-Type: application/json", "Accept: text/event-stream, application/json", "Mcp-Session-Id: "+name)...); status != http.StatusNotFound {
					t.Errorf("%q: %s %s %q of another caller: %d %s", at, try.method, try.body, try.more, status, body)
				}
			}
			if status, _, body := post(t, url, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Authorization: Bearer secret-a", "Mcp-Session-Id: "+name); status != 200 || !strings.Contains(body, `"id":2`) {
				t.Errorf("%q: alice, after that: %d %s", at, status, body)
			}
		}
	})
}
