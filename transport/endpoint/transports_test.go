package endpoint_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// overWire runs a test for each transport that has a network under it.
func overWire(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"tcp", "tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			test(t, kind)
		})
	}
}

// wired is an endpoint that listens, and what it takes to reach it.
type wired struct {
	kind   string
	ep     *endpoint.Endpoint
	rec    *recorder
	ln     transport.Listener
	policy *transport.Policy // of a client it trusts
	ca     *transporttest.CA
}

func listen(t *testing.T, kind string, opts endpoint.Options, list ...*profiles.Profile) *wired {
	t.Helper()
	w := &wired{kind: kind, ca: transporttest.NewCA(t)}
	w.policy = w.ca.Policy(t, transporttest.Client)
	w.ln = transporttest.Listen(t, kind, w.ca.Policy(t, transporttest.Server), nil)
	w.ep, w.rec = newEndpoint(t, opts, list...)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := w.ep.Serve(context.Background(), w.ln); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		_ = w.ln.Close()
		serving.Wait()
	})
	return w
}

// dial connects a raw peer.
func (w *wired) dial(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	conn, err := transporttest.Dial(ctx, w.kind, w.ln.Addr().String(), w.policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(0) })
	r := &rig{ep: w.ep, rec: w.rec, conn: conn}
	r.open(t)
	return r
}

// session connects another endpoint.
func (w *wired) session(t *testing.T) *endpoint.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	conn, err := transporttest.Dial(ctx, w.kind, w.ln.Addr().String(), w.policy)
	if err != nil {
		t.Fatal(err)
	}
	ep, _ := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{Write: transporttest.Patience}}, profile(echo))
	return ep.Attach(conn)
}

func TestWireEchoesManyCallsAtOnce(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		s := listen(t, kind, endpoint.Options{}, profile(echo)).session(t)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for j := range 20 {
					want := fmt.Sprintf("%d/%d", i, j)
					if got := ask(t, s, want); got != want {
						t.Errorf("answer %q, want %q", got, want)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestWireCarriesTheLargestPayload(t *testing.T) {
	effort.Unwatched(t)
	overWire(t, func(t *testing.T, kind string) {
		patient := endpoint.Options{Bounds: endpoint.Bounds{Write: transporttest.Patience}} // of a busy machine
		s := listen(t, kind, patient, profile(echo)).session(t)
		want := make([]byte, e1.DefaultMaxPayload)
		for i := range want {
			want[i] = byte(i * 7)
		}
		if got := ask(t, s, string(want)); got != string(want) {
			t.Errorf("%d octets came back changed", len(got))
		}
	})
}

func TestWireEitherEndMayInitiate(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		back := make(chan string, 1)
		asks := detached(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			got, err := try(ctx, req.Session, "and you?")
			if err != nil {
				return err
			}
			back <- got
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
		})
		s := listen(t, kind, endpoint.Options{}, profile(asks)).session(t)
		if got := ask(t, s, "hello"); got != "hello" {
			t.Errorf("answer %q", got)
		}
		if got := <-back; got != "and you?" {
			t.Errorf("the other way: %q", got)
		}
	})
}

func TestWireCutInsideAFrame(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		w := listen(t, kind, endpoint.Options{}, profile(echo))
		r := w.dial(t)
		r.write(t, framed(request("0123456789abcdef", "whole"))[:20])
		r.finish(t)
		r.wantVerdict(t, 1, profiles.InvalidFrame, "", r.severed())
		if r.conn.Multiplexed() {
			// The connection goes on.
			r.open(t)
			r.send(t, request("0123456789abcdef", "x"))
			r.wantEcho(t, "0123456789abcdef", "x")
		}
	})
}

// TL-09, the endpoint's side: the end of TCP without close_notify is an error
// inside a frame and none between frames.
func TestTL09AnEndWithoutCloseNotify(t *testing.T) {
	transporttest.NoLeaks(t)
	for _, inside := range []bool{true, false} {
		t.Run(fmt.Sprintf("inside a frame %v", inside), func(t *testing.T) {
			w := listen(t, "tls", endpoint.Options{}, profile(echo))
			proxy := transporttest.NewProxy(t, w.ln.Addr().String())
			conn, err := transporttest.Dial(t.Context(), "tls", proxy.Addr(), w.policy)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(0) })
			r := &rig{ep: w.ep, rec: w.rec, conn: conn}
			r.open(t)
			r.send(t, request("0123456789abcdef", "x"))
			r.wantEcho(t, "0123456789abcdef", "x")
			r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
			if inside {
				// So much that the endpoint shows that it has arrived.
				r.write(t, framed(request("0123456789abcdef", string(make([]byte, 1<<20))))[:200<<10])
				for w.ep.Stats().InFlightBytes == 0 {
					runtime.Gosched()
				}
			}
			proxy.Cut()
			w.rec.await(t, "the session closed", func(r *recorder) bool { return len(r.closed) == 1 })
			want := 1
			if inside {
				want = 2
				r.wantVerdict(t, 2, profiles.InvalidFrame, "", endpoint.Closed)
			}
			if n := w.rec.count(); n != want {
				t.Errorf("%d verdicts, want %d", n, want)
			}
		})
	}
}

func TestWireAPeerThatDoesNotReadIsClosed(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		const write = 300 * time.Millisecond
		p, _ := hose(256 << 10)
		w := listen(t, kind, endpoint.Options{Bounds: endpoint.Bounds{Write: write}}, p)
		r := w.dial(t)
		r.send(t, request("0123456789abcdef", "subscribe"))
		r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
		if kind == "quic" {
			return // there it is the stream that is reset
		}
		w.rec.await(t, "the session closed", func(r *recorder) bool { return len(r.closed) == 1 })
	})
}

func TestWireAFrameInManyWritesIsServed(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		w := listen(t, kind, endpoint.Options{}, profile(echo))
		r := w.dial(t)
		octets := framed(request("0123456789abcdef", string(make([]byte, 100))))
		for i := range octets {
			r.write(t, octets[i:i+1])
		}
		r.wantEcho(t, "0123456789abcdef", string(make([]byte, 100)))
	})
}

func TestWireShutdownIsOrderly(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		goOn := make(chan struct{})
		w := listen(t, kind, endpoint.Options{}, profile(slowEcho(goOn)))
		s := w.session(t)
		answer := make(chan string, 1)
		payload := string(make([]byte, 1<<20))
		go func() { answer <- ask(t, s, payload) }()
		for w.ep.Stats().Handlers == 0 {
			runtime.Gosched()
		}
		done := shutdown(w.ep, transporttest.Patience)
		close(goOn)
		if got := <-answer; got != payload {
			t.Errorf("answer of %d octets", len(got))
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-s.Context().Done()
	})
}

// Nothing of a peer that is not authenticated reaches the endpoint.
func TestTL01WrongCertificatesReachNoHandler(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			w := listen(t, kind, endpoint.Options{}, profile(echo))
			for range 3 {
				// It trusts the server; the server does not trust it.
				stranger := transporttest.PolicyOf(
					transporttest.NewCA(t).Issue(t, transporttest.Named(transporttest.Client)), w.ca.Pool())
				ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
				conn, err := transporttest.Dial(ctx, kind, w.ln.Addr().String(), stranger)
				if err == nil {
					if stream, err := conn.Open(ctx); err == nil {
						_, _ = stream.Write(framed(request("0123456789abcdef", "in the same flight")))
						_, _ = stream.Read(make([]byte, 1)) // fails when the refusal is here
					}
					_ = conn.Close(0)
				}
				cancel()
			}
			w.rec.mu.Lock()
			defer w.rec.mu.Unlock()
			if w.rec.opened != 0 || len(w.rec.verdicts) != 0 {
				t.Errorf("%d sessions, %d verdicts, want none", w.rec.opened, len(w.rec.verdicts))
			}
		})
	}
}

// TL-11, the endpoint's side: who the peer is comes from the connection, and no
// octet of a message changes it.
func TestTL11TheIdentityIsTheConnections(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		got := make(chan profiles.Peer, 1)
		w := listen(t, kind, endpoint.Options{}, profile(counting(func(req *profiles.Request) { got <- *req.Session.Peer() })))
		r := w.dial(t)
		claim := request("spiffe://x/admin", "spiffe://x/admin")
		for typ := range uint64(64) {
			if typ == profiles.ExtChain {
				continue // it names a chain, and an unknown one is refused
			}
			claim.Extensions = e1.AppendExtension(claim.Extensions, typ, []byte("spiffe://x/admin"))
		}
		r.send(t, claim)
		r.wantEcho(t, "spiffe://x/admin", "spiffe://x/admin")
		want := transporttest.Client
		if kind == "tcp" {
			want = "loopback"
		}
		if peer := <-got; peer.Identity != want || peer.Transport != kind {
			t.Errorf("the peer is %q over %q, want %q over %q", peer.Identity, peer.Transport, want, kind)
		}
	})
}

// QU-01 on QUIC itself: its stream credit is what bounds the handlers.
func TestQU01OverQUIC(t *testing.T) {
	transporttest.NoLeaks(t)
	var g gauge
	w := listen(t, "quic", endpoint.Options{}, g.stubborn(20*time.Millisecond))
	conn, err := transporttest.Dial(t.Context(), "quic", w.ln.Addr().String(), w.policy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(0) }()
	for n := range 1000 { // each waits until the peer allows another one
		stream, err := conn.Open(t.Context())
		if err != nil {
			t.Fatalf("only %d streams could be opened: %v", n, err)
		}
		_, _ = stream.Write(framed(request(fmt.Sprintf("msg-id-%09d", n), "x")))
		runtime.Gosched()
		stream.Reset(1)
	}
	if most := g.most.Load(); most > 128 {
		t.Errorf("%d handlers ran at once, the limit is 128 streams", most)
	}
}

// QU-03 on QUIC itself: what the peer may have under way is bounded by windows.
func TestQU03OverQUIC(t *testing.T) {
	effort.Unwatched(t)
	transporttest.NoLeaks(t)
	const perConn = 4 << 20
	opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytesPerConn: perConn}}
	w := listen(t, "quic", opts, profile(echo))
	conn, err := transporttest.Dial(t.Context(), "quic", w.ln.Addr().String(), w.policy)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 32 {
		stream, err := conn.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			_ = stream.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = stream.Write(append(binary.BigEndian.AppendUint32(nil, 8<<20), make([]byte, 4<<20)...))
		})
	}
	done := make(chan struct{})
	go func() {
		writers.Wait()
		close(done)
	}()
	most := 0
	for running := true; running; runtime.Gosched() {
		most = max(most, w.ep.Stats().InFlightBytes)
		select {
		case <-done:
			running = false
		default:
		}
	}
	if most > perConn {
		t.Errorf("%d octets were held, want at most %d", most, perConn)
	}
	_ = conn.Close(0)
}
