package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/rpc"
)

// far is what answers the RPC methods of b: echo, items, hang.
type far struct {
	asked chan *http.Request
	gone  chan struct{} // a hang that was given up
}

func newFar(t *testing.T) (*far, string) {
	f := &far{asked: make(chan *http.Request, 100), gone: make(chan struct{}, 10)}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, fmt.Sprintf("rpc: {backends: {far: {url: '%s', methods: [echo, items, hang], hints: {region: eu-west-1}}}}\n", server.URL)
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked <- r
	switch r.URL.Path {
	case "/items":
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{\"item\":  1e400}\n{\"item\":[ 2]}\n{\"result\":\"\\u0065nd\"}\n")
	case "/hang":
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{\"item\":1}\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		f.gone <- struct{}{}
	default:
		_, _ = io.Copy(w, r.Body)
	}
}

func TestCallsReachAPartnerOctetForOctet(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, yaml := newFar(t)
		a, _ := pair(t, transport, yaml)
		s := a.mustDial(a.addrs[transport])
		params := []byte("{ \"a\":1e400, \"a\":\"\\u0041\" }\n")
		got, err := rpc.Call(t.Context(), s.Session, "b/echo", params)
		if err != nil || string(got) != string(params) {
			t.Errorf("echo %q, %v", got, err)
		}
		if r := <-f.asked; r.Header.Get("Swp-Peer") != "spiffe://a.example/swpd" {
			t.Errorf("peer %q", r.Header.Get("Swp-Peer"))
		}
		stream, err := rpc.Open(t.Context(), s.Session, "b/items", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		var items []string
		for {
			item, err := stream.Recv(t.Context())
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			items = append(items, string(item))
		}
		if diff := cmp.Diff([]string{"1e400", "[ 2]"}, items); diff != "" || string(stream.Result()) != `"\u0065nd"` {
			t.Errorf("items %s, result %s", diff, stream.Result())
		}
		if _, err := rpc.Call(t.Context(), s.Session, "b/none", nil); !isRPC(err, rpc.CodeUnknownMethod) {
			t.Errorf("a method that b does not have: %v", err)
		}
		if _, err := rpc.Call(t.Context(), s.Session, "b/a/b/a/b/a/b/a/b/echo", nil); !isRPC(err, rpc.CodeUnauthorized) {
			t.Errorf("nine hops: %v", err)
		}
	})
}

func TestCancelReachesTheMethodBehindAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, yaml := newFar(t)
		a, _ := pair(t, transport, yaml)
		s := a.mustDial(a.addrs[transport])
		lane, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lane.Close() }()
		stream, err := rpc.Open(t.Context(), lane, "b/hang", nil)
		if err != nil {
			t.Fatal(err)
		}
		if item, err := stream.Recv(t.Context()); err != nil || string(item) != "1" {
			t.Fatalf("item %s, %v", item, err)
		}
		if err := stream.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(t.Context()); !isRPC(err, rpc.CodeCancelled) {
			t.Errorf("outcome %v", err)
		}
		<-f.gone
		stream.Close()
	})
}

func TestAKeyIsOneKeyFromEndToEnd(t *testing.T) {
	f, yaml := newFar(t)
	a, b := pair(t, 0, yaml)
	s := a.mustDial(a.addrs[0])
	again := rpc.Invocation{Method: "b/echo", Params: []byte("1"), IdempotencyKey: "k"}
	for range 2 {
		if got, err := again.Call(t.Context(), s.Session); err != nil || string(got) != "1" {
			t.Fatalf("%s, %v", got, err)
		}
	}
	if n := len(f.asked); n != 1 {
		t.Errorf("the method ran %d times, want once", n)
	}
	other := again
	other.Params = []byte("2")
	if _, err := other.Call(t.Context(), s.Session); !isRPC(err, rpc.CodeInvalidRequest) {
		t.Errorf("other params under the key: %v", err)
	}
	// The same key of b's own client is another one.
	own := again
	own.Method = "echo"
	if _, err := own.Call(t.Context(), b.mustDial(b.addrs[0]).Session); err != nil || len(f.asked) != 2 {
		t.Errorf("b's own: %v, %d calls", err, len(f.asked))
	}
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceParentCrossesAndTraceStateDoesNot(t *testing.T) {
	t.Parallel()
	for trace, want := range map[string][2]string{"parent": {parent, ""}, "full": {parent, "x=1"}, "none": {}} {
		t.Run(trace, func(t *testing.T) {
			f, yaml := newFar(t)
			a, _ := pair(t, 0, yaml)
			a.rewrite(`b: {identity`, `b: {trace: `+trace+`, identity`)
			a.reloaded()
			a.connected("b")
			s := a.mustDial(a.addrs[0])
			if err := obs.Bind(t.Context(), mustOpen(t, s), profiles.Trace{Parent: parent, State: "x=1"}, obs.IDs{}); err != nil {
				t.Fatal(err)
			}
			if _, err := rpc.Call(t.Context(), s.Session, "b/echo", nil); err != nil {
				t.Fatal(err)
			}
			r := <-f.asked
			if got := [2]string{r.Header.Get("Traceparent"), r.Header.Get("Tracestate")}; got != want {
				t.Errorf("crossed %q, want %q", got, want)
			}
			if _, err := rpc.Call(t.Context(), a.mustDial(a.addrs[0]).Session, "b/echo", nil); err != nil {
				t.Fatal(err)
			}
			if r := <-f.asked; r.Header.Get("Traceparent") != "" {
				t.Errorf("another's call over the same link has the trace context %q", r.Header.Get("Traceparent"))
			}
		})
	}
}

func mustOpen(t *testing.T, s *session) profiles.Lane {
	t.Helper()
	lane, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lane.Close() })
	return lane
}

// What a caller set for its connection must not become a hint for all who share the
// link.
func TestHintsOfOneCallerStayThoseOfItsCalls(t *testing.T) {
	f, yaml := newFar(t)
	a, _ := pair(t, 0, yaml)
	a.rewrite(`b: {identity`, `b: {hints: {region: eu-west-1}, identity`)
	a.reloaded()
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	hint := profiles.Hint{Key: policyhint.Region, Value: "eu-west-1", Mode: profiles.Must, Scope: profiles.ScopeConnection}
	if err := policyhint.Put(t.Context(), s.Session, hint); err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Call(t.Context(), s.Session, "b/echo", nil); err != nil {
		t.Fatal(err)
	}
	if got := (<-f.asked).Header.Get("Swp-Policy"); got != "region=eu-west-1;MUST" {
		t.Errorf("the method got the hints %q", got)
	}
	if _, err := rpc.Call(t.Context(), a.mustDial(a.addrs[0]).Session, "b/echo", nil); err != nil {
		t.Fatal(err)
	}
	if got := (<-f.asked).Header.Get("Swp-Policy"); got != "" {
		t.Errorf("a call of another got the hints %q", got)
	}
}

func TestDeadlineReachesThePartner(t *testing.T) {
	t.Parallel()
	f, yaml := newFar(t)
	a, _ := pair(t, 0, yaml)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := a.mustDial(a.addrs[0])
	// On a busy machine the time may be over before the method is asked.
	for left := 300 * time.Millisecond; len(f.asked) == 0 && ctx.Err() == nil; left *= 2 {
		call := rpc.Invocation{Method: "b/hang", Deadline: left}
		if _, err := call.Call(ctx, s.Session); !isRPC(err, rpc.CodeTimeout) {
			t.Errorf("%v, want timeout", err)
		}
	}
	<-f.gone
}
