package endpoint_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

const (
	testProfile = 12
	typeRequest = 1 // initiating
	typeAnswer  = 2 // answer
	typeBoth    = 3 // both
)

// profile returns a profile with three message types and the handler given.
func profile(h profiles.HandlerFunc) *profiles.Profile {
	return &profiles.Profile{
		ID: testProfile, Name: "test", Handler: h,
		Types: []profiles.Type{
			{ID: typeRequest, Name: "REQ", Role: profiles.Initiating},
			{ID: typeAnswer, Name: "ANS", Role: profiles.Answer},
			{ID: typeBoth, Name: "BOTH", Role: profiles.Initiating | profiles.Answer},
		},
	}
}

// echo answers each request with its own payload.
func echo(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	if req.Unsolicited {
		return nil
	}
	return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
}

// recorder keeps the verdicts and security events of an endpoint.
type recorder struct {
	mu       sync.Mutex
	verdicts []endpoint.Verdict
	security []transport.SecurityEvent
	opened   int
	closed   []error
	refused  int
	changed  chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) update(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Verdict(v endpoint.Verdict) {
	v.MsgID = append([]byte(nil), v.MsgID...)
	r.update(func() { r.verdicts = append(r.verdicts, v) })
}

func (r *recorder) Security(ev transport.SecurityEvent) {
	r.update(func() { r.security = append(r.security, ev) })
}
func (r *recorder) Opened(*endpoint.Session) { r.update(func() { r.opened++ }) }
func (r *recorder) Closed(_ *endpoint.Session, cause error) {
	r.update(func() { r.closed = append(r.closed, cause) })
}
func (r *recorder) Refused(*transport.Peer) { r.update(func() { r.refused++ }) }

// await waits until ok holds of what was recorded.
func (r *recorder) await(t *testing.T, what string, ok func(*recorder) bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		done, changed := ok(r), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("never: %s; verdicts %+v, closed %v", what, r.verdicts, r.closed)
		}
	}
}

// verdict waits for the n-th verdict, from 1, and returns it.
func (r *recorder) verdict(t *testing.T, n int) endpoint.Verdict {
	t.Helper()
	r.await(t, "verdict", func(r *recorder) bool { return len(r.verdicts) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdicts[n-1]
}

// rig is an endpoint with a raw peer: a stream of octets whose other end the
// endpoint serves.
type rig struct {
	ep   *endpoint.Endpoint
	rec  *recorder
	conn transport.Conn // the peer's end
	raw  transport.Stream
	in   *frame.Reader
	sess *endpoint.Session
}

func newEndpoint(t *testing.T, opts endpoint.Options, list ...*profiles.Profile) (*endpoint.Endpoint, *recorder) {
	t.Helper()
	rec := newRecorder()
	reg, err := profiles.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	opts.Registry, opts.Observer = reg, rec
	ep, err := endpoint.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return ep, rec
}

func newRig(t *testing.T, opts endpoint.Options, list ...*profiles.Profile) *rig {
	t.Helper()
	ep, rec := newEndpoint(t, opts, list...)
	here, there := transport.Pipe()
	return attach(t, ep, rec, here, there)
}

func newMuxRig(t *testing.T, opts endpoint.Options, list ...*profiles.Profile) *rig {
	t.Helper()
	ep, rec := newEndpoint(t, opts, list...)
	here, there := transport.MuxPipe()
	return attach(t, ep, rec, here, there)
}

func attach(t *testing.T, ep *endpoint.Endpoint, rec *recorder, here, there transport.Conn) *rig {
	t.Helper()
	r := &rig{ep: ep, rec: rec, conn: there}
	r.sess = ep.Attach(here)
	r.open(t)
	t.Cleanup(func() { _ = there.Close(0) })
	return r
}

// open makes the rig speak on a new stream of the peer, where there are many.
func (r *rig) open(t testing.TB) {
	t.Helper()
	var err error
	if r.raw, err = r.conn.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.in = frame.NewReader(r.raw, frame.Options{})
}

// write writes octets as they are.
func (r *rig) write(t testing.TB, b []byte) {
	t.Helper()
	if _, err := r.raw.Write(b); err != nil {
		t.Fatalf("peer writes: %v", err)
	}
}

// send writes an envelope as a frame; zero fields are filled in.
func (r *rig) send(t *testing.T, env e1.Envelope) {
	t.Helper()
	r.write(t, framed(env))
}

// framed encodes an envelope; a nil msg_id becomes a fixed one of 16 octets.
func framed(env e1.Envelope) []byte {
	if env.Version == 0 {
		env.Version = 1
	}
	if env.MsgID == nil {
		env.MsgID = []byte("0123456789abcdef")
	}
	return frame.Append(nil, env.Append(nil))
}

// recv reads the next frame the endpoint sends.
func (r *rig) recv(t *testing.T) e1.Envelope {
	t.Helper()
	env, err := r.next()
	if err != nil {
		t.Fatalf("peer reads: %v", err)
	}
	return env
}

func (r *rig) next() (e1.Envelope, error) {
	body, err := r.in.Next()
	if err != nil {
		return e1.Envelope{}, err
	}
	var env e1.Envelope
	limits := e1.Limits{}.WithDefaults()
	if err := env.Decode(body, &limits); err != nil {
		return e1.Envelope{}, err
	}
	return env.Clone(), nil
}

// wantEnd reads the end of the stream: no octet more.
func (r *rig) wantEnd(t *testing.T) {
	t.Helper()
	if env, err := r.next(); err == nil {
		t.Fatalf("got a frame %+v, want the end of the stream", env)
	} else if err != io.EOF && r.conn.Context().Err() == nil {
		t.Logf("stream ended with %v", err)
	}
}

// request is an initiating message with a payload.
func request(id, payload string) e1.Envelope {
	return e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, MsgID: []byte(id), Payload: []byte(payload)}
}
