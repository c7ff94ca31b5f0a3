package endpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

const (
	testProfile = 12
	goodProfile = 900 // served by every endpoint here, for the well-behaved peer
	typeRequest = 1   // initiating
	typeAnswer  = 2   // answer
	typeBoth    = 3   // both
	typeError   = 4   // answer: what telling refuses with
)

// profile returns a profile with three message types and the handler given.
func profile(h profiles.HandlerFunc) *profiles.Profile {
	return &profiles.Profile{
		ID: testProfile, Name: "test", Handler: h, Refusal: profiles.Silent,
		Types: []profiles.Type{
			{ID: typeRequest, Name: "REQ", Role: profiles.Initiating},
			{ID: typeAnswer, Name: "ANS", Role: profiles.Answer},
			{ID: typeBoth, Name: "BOTH", Role: profiles.Initiating | profiles.Answer},
		},
	}
}

// telling gives a profile an error message of its own: the code as text.
func telling(p *profiles.Profile) *profiles.Profile {
	p.Types = append(p.Types, profiles.Type{ID: typeError, Name: "ERR", Role: profiles.Answer})
	p.Refusal = func(_ *profiles.Request, err *profiles.Error) (e1.Envelope, bool) {
		return e1.Envelope{MsgType: typeError, Payload: []byte(err.Code.String())}, true
	}
	return p
}

// counting is an echo that tells of each request first, on the read loop.
func counting(tell func(*profiles.Request)) profiles.HandlerFunc {
	return func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		tell(req)
		return echo(ctx, req, w)
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
	verdicts []endpoint.Verdict // but for those of the well-behaved peers
	reports  []endpoint.Report  // likewise
	security []transport.SecurityEvent
	opened   int
	closed   []error
	refused  int
	changed  chan struct{}

	opts   endpoint.Options
	seen   map[place]bool
	faults []string // what no observer may ever see
}

// place is one frame of one stream of one session.
type place struct {
	session   uint64
	lane, seq uint64
}

func newRecorder() *recorder {
	return &recorder{changed: make(chan struct{}), seen: make(map[place]bool)}
}

func (r *recorder) update(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Verdict(v endpoint.Verdict) {
	v.MsgID = append([]byte(nil), v.MsgID...)
	r.update(func() {
		at := place{v.Session.ID(), v.Lane, v.Seq}
		if r.seen[at] {
			r.faults = append(r.faults, fmt.Sprintf("second verdict for one frame: %+v", v))
		}
		r.seen[at] = true
		if v.ProfileID != goodProfile {
			r.verdicts = append(r.verdicts, v)
		}
	})
}

func (r *recorder) Exchange(x endpoint.Report) {
	r.update(func() {
		if x.Verdict.ProfileID != goodProfile {
			r.reports = append(r.reports, x)
		}
	})
}

func (r *recorder) Security(ev transport.SecurityEvent) {
	r.update(func() { r.security = append(r.security, ev) })
}
func (r *recorder) Opened(*endpoint.Session) { r.update(func() { r.opened++ }) }
func (r *recorder) Closed(_ *endpoint.Session, cause error) {
	r.update(func() { r.closed = append(r.closed, cause) })
}

func (r *recorder) Refused(*transport.Peer) { r.update(func() { r.refused++ }) }

// report waits for the report of an exchange, the first of which is 0.
func (r *recorder) report(t *testing.T, i int) endpoint.Report {
	t.Helper()
	r.await(t, "report", func(r *recorder) bool { return len(r.reports) > i })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports[i]
}

// await waits until ok holds of what was recorded.
func (r *recorder) await(t *testing.T, what string, ok func(*recorder) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
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

// count returns how many verdicts there are.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.verdicts)
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
	good *endpoint.Session // a well-behaved peer's end of another session
}

func newEndpoint(t *testing.T, opts endpoint.Options, list ...*profiles.Profile) (*endpoint.Endpoint, *recorder) {
	t.Helper()
	rec := newRecorder()
	good := profile(echo)
	good.ID, good.Name = goodProfile, "good"
	reg, err := profiles.NewRegistry(append(list, good)...)
	if err != nil {
		t.Fatal(err)
	}
	opts.Registry, opts.Observer = reg, rec
	rec.opts = opts
	ep, err := endpoint.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { settled(t, ep, rec) })
	return ep, rec
}

// settled closes the endpoint and checks what must hold after any test: one
// verdict a frame (I6), a Closed for each Opened, nothing held any more (I3).
func settled(t *testing.T, ep *endpoint.Endpoint, rec *recorder) {
	t.Helper()
	_ = ep.Close()
	deadline := time.Now().Add(10 * time.Second)
	held := func() endpoint.Stats {
		s := ep.Stats()
		s.Unreceived = 0 // a counter
		return s
	}
	for held() != (endpoint.Stats{}) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // handlers that see their context end
	}
	if got := held(); got != (endpoint.Stats{}) {
		t.Errorf("after Close the endpoint holds %+v", got)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.opened != len(rec.closed) {
		t.Errorf("%d sessions opened, %d closed", rec.opened, len(rec.closed))
	}
	for _, f := range rec.faults {
		t.Error(f)
	}
}

func newRig(t *testing.T, opts endpoint.Options, list ...*profiles.Profile) *rig {
	t.Helper()
	return newRigOn(t, transport.Pipe, opts, list...)
}

func newRigOn(t *testing.T, pipe pipe, opts endpoint.Options, list ...*profiles.Profile) *rig {
	t.Helper()
	ep, rec := newEndpoint(t, opts, list...)
	here, there := pipe()
	return attach(t, ep, rec, here, there)
}

// pipe makes a connection.
type pipe func() (a, b transport.Conn)

func attach(t *testing.T, ep *endpoint.Endpoint, rec *recorder, here, there transport.Conn) *rig {
	t.Helper()
	r := &rig{ep: ep, rec: rec, conn: there}
	r.sess = ep.Attach(here)
	r.open(t)
	t.Cleanup(func() { _ = there.Close(0) })
	if b := rec.opts.Bounds; b.Connections == 0 && b.ConnectionsPerIdentity == 0 {
		r.invite(t)
	}
	return r
}

// again makes the rig speak on a new connection, or on a new stream of the same
// one where there are many.
func (r *rig) again(t *testing.T) {
	t.Helper()
	if !r.conn.Multiplexed() {
		here, there := transport.Pipe()
		r.conn, r.sess = there, r.ep.Attach(here)
		t.Cleanup(func() { _ = there.Close(0) })
	}
	r.open(t)
}

// invite attaches a well-behaved peer beside the raw one. It is served before
// and after whatever the test does, and during it where the test calls
// othersAreServed (I1).
func (r *rig) invite(t *testing.T) {
	t.Helper()
	good := profile(echo)
	good.ID, good.Name = goodProfile, "good"
	reg, err := profiles.NewRegistry(good)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := endpoint.New(endpoint.Options{Registry: reg, Now: r.rec.opts.Now})
	if err != nil {
		t.Fatal(err)
	}
	here, there := transport.NewPipe(transport.PipeOptions{B: "spiffe://pipe.invalid/good"})
	r.ep.Attach(here)
	r.good = peer.Attach(there)
	t.Cleanup(func() { _ = peer.Close() })
	t.Cleanup(func() { r.othersAreServed(t) })
	r.othersAreServed(t)
}

// othersAreServed has the well-behaved peer, if there is one, make one call.
func (r *rig) othersAreServed(t *testing.T) {
	t.Helper()
	if r.good == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := r.good.Call(ctx, e1.Envelope{ProfileID: goodProfile, MsgType: typeRequest, Payload: []byte("still there?")})
	if err != nil {
		t.Fatalf("a well-behaved peer is not served: %v", err)
	}
	defer c.Close()
	if env, err := c.Recv(ctx); err != nil || string(env.Payload) != "still there?" {
		t.Fatalf("a well-behaved peer is not served: %v, %v", env, err)
	}
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

// finish says that the peer sends nothing more on this stream.
func (r *rig) finish(t *testing.T) {
	t.Helper()
	if err := r.raw.CloseWrite(); err != nil {
		t.Fatalf("peer finishes: %v", err)
	}
}

// ended returns what the stream ends with; a frame instead is an error, too.
func (r *rig) ended() error {
	env, err := r.next()
	if err == nil {
		return fmt.Errorf("got a frame %+v", env)
	}
	return err
}

// wantError reads the refusal of a telling profile.
func (r *rig) wantError(t *testing.T, id string, code profiles.Code) {
	t.Helper()
	env := r.recv(t)
	if string(env.MsgID) != id || env.MsgType != typeError || string(env.Payload) != code.String() {
		t.Fatalf("got msg_type %d, msg_id %q, %q; want %v for %q", env.MsgType, env.MsgID, env.Payload, code, id)
	}
}

// wantVerdict waits for the n-th verdict and checks code, detail and action.
func (r *rig) wantVerdict(t *testing.T, n int, code profiles.Code, detail string, action endpoint.Action) endpoint.Verdict {
	t.Helper()
	v := r.rec.verdict(t, n)
	if v.Code != code || v.Detail != detail || v.Action != action {
		t.Errorf("verdict %d: %v · %q %v (%v), want %v · %q %v", n, v.Code, v.Detail, v.Action, v.Err, code, detail, action)
	}
	if v.Reject != (code != profiles.OK) {
		t.Errorf("verdict %d: Reject %v with %v", n, v.Reject, v.Code)
	}
	return v
}

// wantEcho reads the answer to a request.
func (r *rig) wantEcho(t *testing.T, id, payload string) {
	t.Helper()
	env := r.recv(t)
	if string(env.MsgID) != id || env.MsgType != typeAnswer || string(env.Payload) != payload {
		t.Fatalf("got msg_type %d, msg_id %x and %d octets, want the echo of %x and %d octets",
			env.MsgType, env.MsgID, len(env.Payload), id, len(payload))
	}
}

// severed is what a refusal that the stream does not survive does there.
func (r *rig) severed() endpoint.Action {
	if r.conn.Multiplexed() {
		return endpoint.Reset
	}
	return endpoint.Closed
}

// onEach runs a test with a rig on each of the in-memory transports.
func onEach(t *testing.T, opts endpoint.Options, test func(t *testing.T, r *rig), list ...*profiles.Profile) {
	t.Helper()
	if len(list) == 0 {
		list = []*profiles.Profile{profile(echo)}
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, newRigOn(t, k.pipe, opts, list...)) })
	}
}

// inVirtualTime is onEach in a bubble of its own for each transport.
func inVirtualTime(t *testing.T, opts endpoint.Options, test func(t *testing.T, r *rig), list ...*profiles.Profile) {
	t.Helper()
	if len(list) == 0 {
		list = []*profiles.Profile{profile(echo)}
	}
	virtually(t, func(t *testing.T, pipe pipe) { test(t, newRigOn(t, pipe, opts, list...)) })
}

// virtually runs a test in a bubble for each of the in-memory transports. What
// its handlers wait for has to be made inside.
func virtually(t *testing.T, test func(t *testing.T, pipe pipe)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, k.pipe) })
		})
	}
}

// wantErrorFrame reads a report of the error path.
func (r *rig) wantErrorFrame(t *testing.T, id string, code profiles.Code, profileID uint64) {
	t.Helper()
	env := r.recv(t)
	if env.ProfileID != endpoint.ErrorProfile || env.MsgType != endpoint.ErrorMsgType {
		t.Fatalf("got profile %d type %d, want an error frame", env.ProfileID, env.MsgType)
	}
	if id != "" && string(env.MsgID) != id {
		t.Errorf("error frame for %q, want %q", env.MsgID, id)
	}
	if n := env.Size() + frame.HeaderSize; n > 512 {
		t.Errorf("error frame of %d octets, want at most 512", n)
	}
	body := string(env.Payload)
	if !strings.Contains(body, code.String()) || !strings.Contains(body, code.Alias()) {
		t.Errorf("error frame %q does not name %v", body, code)
	}
	want := e1.AppendUvarint([]byte{4 << 3}, profileID)
	if profileID != 0 && !bytes.HasSuffix(env.Payload, want) {
		t.Errorf("error frame %x does not end with profile_id %d", env.Payload, profileID)
	}
}

// on makes the rig speak on a stream it had before.
func (r *rig) on(stream transport.Stream) {
	r.raw, r.in = stream, frame.NewReader(stream, frame.Options{})
}

// slowReader reads at most n octets, then waits.
type slowReader struct {
	from io.Reader
	n    int
	wait time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(s.wait)
	return s.from.Read(p[:min(len(p), s.n)])
}
