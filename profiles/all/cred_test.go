package all_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

const (
	idp    = "https://idp.test"
	asker  = "spiffe://test/asker"
	middle = "spiffe://test/middle"
	worker = "spiffe://test/worker"
)

func keyOf(issuer string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(issuer))
	return ed25519.NewKeyFromSeed(seed[:])
}

func credOptions(t *testing.T) cred.Options {
	t.Helper()
	issuers := make(map[string]token.Issuer)
	for _, name := range []string{idp, asker} {
		jwk, err := (&jose.JSONWebKey{Key: keyOf(name).Public()}).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		keys, err := token.ParseKeys(jwk)
		if err != nil {
			t.Fatal(err)
		}
		issuers[name] = token.Issuer{Keys: keys, Delegates: name != idp}
	}
	engine, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return cred.Options{Store: engine, Keep: true, Tokens: token.New(issuers), Audience: []string{"anywhere"}}
}

// expiry is the end of all tokens: a delegation that was signed in the next second would
// outlast the one before it in the chain, and be refused.
var expiry = time.Now().Add(time.Hour)

func signed(t *testing.T, issuer, subject, scope string) []byte {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: keyOf(issuer)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(map[string]any{"iss": issuer, "sub": subject, "aud": "anywhere", "exp": expiry.Unix(), "scope": scope})
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

func endpointOf(t *testing.T, s *all.Set) *endpoint.Endpoint {
	t.Helper()
	ep, err := endpoint.New(endpoint.Options{Registry: s.Registry, Tracer: endpoint.ContextFunc(s.Carriers.Attach)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return ep
}

// join connects two endpoints, and returns the session that the first one has.
func join(from, to *endpoint.Endpoint, fromName string) *endpoint.Session {
	mine, theirs := transport.NewPipe(transport.PipeOptions{A: fromName, B: middle})
	to.Attach(theirs)
	return from.Attach(mine)
}

func sync(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}

// An exchange is done under the chain that it names, or not at all.
func TestPR12CredentialsAreLookedAtWhenTheyAreUsed(t *testing.T) {
	var seen []*profiles.Delegation
	ran := 0
	opts := all.Options{Cred: credOptions(t), RPC: rpc.Options{Methods: map[string]rpc.Method{
		"who": {Held: func(p *rpc.Pending, _ []byte) error {
			ran++
			seen = append(seen, profiles.DelegationOf(p.Context()))
			return p.Return(nil)
		}},
	}}}
	server := newSet(t, opts)
	session := join(endpointOf(t, newSet(t, all.Options{})), endpointOf(t, server), asker)
	lane, err := session.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := cred.Show(t.Context(), lane, sync, "jwt", signed(t, idp, asker, "read"), []byte("chain")); err != nil {
		t.Fatal(err)
	}
	call := func(chain string) string {
		ctx := t.Context()
		if chain != "" {
			ctx = profiles.WithChain(ctx, []byte(chain))
		}
		_, err := rpc.Call(ctx, lane, "who", nil)
		if refused := (*rpc.Error)(nil); errors.As(err, &refused) {
			return refused.Code
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	if got := call("") + call("chain"); got != "" || ran != 2 || seen[0] != nil || seen[1] == nil ||
		seen[1].Subject != asker || seen[1].Scopes[0] != "read" || seen[1].Depth != 1 {
		t.Errorf("%q, ran %d times, with %+v", got, ran, seen)
	}
	if got := call("unknown"); got != rpc.CodeUnauthorized || ran != 2 {
		t.Errorf("unknown chain: %q, ran %d times", got, ran)
	}
	if err := cred.End(t.Context(), lane, sync, []byte("chain"), "done"); err != nil {
		t.Fatal(err)
	}
	if got := call("chain"); got != rpc.CodeUnauthorized || ran != 2 {
		t.Errorf("revoked chain: %q, ran %d times", got, ran)
	}
}

// cred_0004: what a task is done under goes with it to where it is done.
func TestCredentialsGoWithATask(t *testing.T) {
	far := make(chan *profiles.Delegation, 1)
	opts := credOptions(t)
	mid := newSet(t, all.Options{Cred: opts, A2A: a2a.Options{Store: opts.Store.(a2a.Store)}})
	atWork := credOptions(t)
	work := newSet(t, all.Options{Cred: atWork, A2A: a2a.Options{Store: atWork.Store.(a2a.Store), Workers: []a2a.Registration{{
		Kinds: []string{"k"}, Worker: a2a.WorkerFunc(func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			far <- profiles.DelegationOf(ctx)
			return []byte("out"), nil
		}),
	}}}})
	ask := newSet(t, all.Options{})
	center := endpointOf(t, mid)
	agent := join(endpointOf(t, work), center, worker)
	if err := work.A2A.Declare(t.Context(), agent, "agent", []string{"k"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Call(t.Context(), agent, rpc.MethodSync, nil); err != nil { // after which the agent is known
		t.Fatal(err)
	}
	session := join(endpointOf(t, ask), center, asker)
	lane, err := session.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chain := []byte("a chain of the asker")
	if err := cred.Show(t.Context(), lane, sync, "jwt", signed(t, idp, asker, "read write"), chain); err != nil {
		t.Fatal(err)
	}
	if err := cred.Extend(t.Context(), lane, sync, chain, signed(t, asker, middle, "read"), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	do := func(chain []byte) *a2a.Result {
		t.Helper()
		d, err := ask.A2A.Send(profiles.WithChain(t.Context(), chain), session, &a2a.Task{Kind: "k", Input: []byte("in")}, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for {
			if _, err := d.Recv(t.Context()); errors.Is(err, io.EOF) {
				return d.Result()
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // the chain is told again, and stays the same
		if r := do(chain); !r.OK {
			t.Fatalf("result %+v", r)
		}
		d := <-far
		if d == nil || d.Owner != middle || d.Subject != middle || d.ChainID != string(chain) || d.Depth != 2 || len(d.Scopes) != 1 {
			t.Fatalf("where it was done: %+v", d)
		}
	}
	if err := cred.End(t.Context(), lane, sync, chain, ""); err != nil {
		t.Fatal(err)
	}
	if r := do(chain); r.OK || len(far) > 0 {
		t.Errorf("after the end of the chain: %+v", r)
	}
}

func TestTL17TheTasksUnderAChainEndWithIt(t *testing.T) {
	release, began := make(chan struct{}), make(chan string, 3)
	opts := credOptions(t)
	server := newSet(t, all.Options{Cred: opts, A2A: a2a.Options{Store: opts.Store.(a2a.Store), Workers: []a2a.Registration{{
		Kinds: []string{"k"}, Tasks: 1, Worker: a2a.WorkerFunc(func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			began <- string(task.Input)
			<-release
			return []byte("out"), nil
		}),
	}}}})
	ask := newSet(t, all.Options{})
	session := join(endpointOf(t, ask), endpointOf(t, server), asker)
	lane, err := session.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chain := []byte("chain")
	if err := cred.Show(t.Context(), lane, sync, "jwt", signed(t, idp, asker, "read"), chain); err != nil {
		t.Fatal(err)
	}
	send := func(input string) *a2a.Delivery {
		t.Helper()
		d, err := ask.A2A.Send(profiles.WithChain(t.Context(), chain), session, &a2a.Task{Kind: "k", Input: []byte(input)}, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	}
	end := func(d *a2a.Delivery) *a2a.Result {
		t.Helper()
		for {
			if _, err := d.Recv(t.Context()); errors.Is(err, io.EOF) {
				return d.Result()
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	first := send("first")
	if got := <-began; got != "first" {
		t.Fatal(got)
	}
	second := send("second")
	without, err := ask.A2A.Send(t.Context(), session, &a2a.Task{Kind: "k", Input: []byte("without")}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(without.Close)
	if err := cred.End(t.Context(), lane, sync, chain, ""); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*a2a.Delivery{first, second} {
		if r := end(d); r.OK || !strings.HasPrefix(r.Reason, a2a.ReasonChain) {
			t.Errorf("%+v", r)
		}
	}
	close(release)
	if r := end(without); !r.OK {
		t.Errorf("the task without a chain: %+v", r)
	}
	if got := <-began; got != "without" {
		t.Errorf("begun: %s", got)
	}
}

// A chain that was forwarded ends at the next endpoint too: at once, or when there is a
// session to it again, also after a restart.
func TestTL31ARevocationGoesWhereItsChainWent(t *testing.T) {
	const far = "spiffe://test/far"
	opts := credOptions(t)
	there := newSet(t, all.Options{Cred: credOptions(t)})
	farEnd := endpointOf(t, there)
	var near *all.Set
	var nearEnd *endpoint.Endpoint
	start := func() profiles.Lane {
		t.Helper()
		near = newSet(t, all.Options{Cred: opts})
		nearEnd = endpointOf(t, near)
		lane, err := join(endpointOf(t, newSet(t, all.Options{})), nearEnd, asker).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lane
	}
	connect := func() *endpoint.Session {
		mine, theirs := transport.NewPipe(transport.PipeOptions{A: middle, B: far})
		farEnd.Attach(theirs)
		return nearEnd.Attach(mine)
	}
	lives := func(chain string) error {
		_, err := there.Cred.Delegation(&profiles.Peer{Identity: middle}, []byte(chain))
		return err
	}
	goes := func(lane profiles.Lane, s *endpoint.Session, chain string) {
		t.Helper()
		for _, err := range []error{
			cred.Show(t.Context(), lane, sync, "jwt", signed(t, idp, asker, chain), []byte(chain)),
			cred.Extend(t.Context(), lane, sync, []byte(chain), signed(t, asker, middle, chain), time.Unix(expiry.Unix(), 0)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		d, err := near.Cred.Delegation(&profiles.Peer{Identity: asker}, []byte(chain))
		if err != nil {
			t.Fatal(err)
		}
		onward, err := s.Open(t.Context())
		if err == nil {
			_, err = near.Cred.Forward(profiles.WithDelegation(t.Context(), d), onward, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := lives(chain); err != nil {
			t.Fatalf("%s: %v", chain, err)
		}
	}
	ends := func(lane profiles.Lane, chain string) {
		t.Helper()
		if err := cred.End(t.Context(), lane, sync, []byte(chain), ""); err != nil {
			t.Fatal(err)
		}
	}
	ended := func(chain string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); lives(chain) == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s lives on", chain)
			}
		}
		if err := lives(chain); !errors.Is(err, profiles.ErrRevoked) {
			t.Errorf("%s: %v", chain, err)
		}
	}

	lane := start()
	link := connect()
	for _, chain := range []string{"now", "later", "last", "stays"} {
		goes(lane, link, chain)
	}
	ends(lane, "now")
	ended("now")
	link.Close(profiles.OK)
	<-link.Context().Done()
	ends(lane, "later")
	near.Cred.Reached(connect())
	ended("later")
	link = connect()
	near.Cred.Reached(link)
	link.Close(profiles.OK)
	<-link.Context().Done()
	_ = nearEnd.Close()
	near.Close()

	lane = start()
	ends(lane, "last")
	_ = nearEnd.Close()
	near.Close()
	start()
	near.Cred.Reached(connect())
	ended("last")
	if err := lives("stays"); err != nil {
		t.Error(err)
	}
}
