package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
)

// Identities of the ends of a connection.
const (
	alice = "spiffe://test/alice"
	bob   = "spiffe://test/bob"
	carol = "spiffe://test/carol"
)

// service returns a Service. Without a store it gets one of its own.
func service(t testing.TB, opts a2a.Options) *a2a.Service {
	t.Helper()
	if opts.Store == nil {
		opts.Store = newDisk().open(t)
	}
	s, err := a2a.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func registry(t testing.TB, s *a2a.Service) *profiles.Registry {
	t.Helper()
	r, err := profiles.NewRegistry(s.Profile())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// connect returns the ends of a connection: that of a, whose peer is called
// bName, and the other way round.
func connect(t testing.TB, aName string, a *a2a.Service, bName string, b *a2a.Service) (*profiletest.Session, *profiletest.Session) {
	t.Helper()
	x, y := profiletest.Pair(aName, registry(t, a), bName, registry(t, b), profiletest.SessionOptions{})
	t.Cleanup(func() { hangUp(x, y) })
	return x, y
}

func hangUp(x, y *profiletest.Session) {
	x.Close()
	x.Wait()
	y.Wait()
}

// peer is a counterpart that speaks the profile by hand.
type peer struct {
	t       testing.TB
	session *profiletest.Session // that it sends on
	service *profiletest.Session // that of the Service
	got     chan message
}

// message is what the peer received.
type message struct {
	Type    uint64
	MsgID   string
	Seq     uint64 // extension 19
	First   uint64 // extension 21
	ID      string // task_id
	Kind    string
	Message string
	Payload string // event_payload, input or output
	OK      bool
	Reason  string
	Ext     e1.Extensions
	Raw     []byte
}

// script connects a Service to a peer of a name.
func script(t testing.TB, s *a2a.Service, name string) *peer {
	t.Helper()
	p := &peer{t: t, got: make(chan message, 4096)}
	take := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		p.got <- parse(&req.Envelope)
		return nil
	}
	r, err := profiles.NewRegistry(&profiles.Profile{ID: a2a.ProfileID, Name: "a2a", Handler: profiles.HandlerFunc(take), Types: []profiles.Type{
		{ID: 1, Name: "HANDSHAKE", Role: profiles.Initiating}, {ID: 2, Name: "TASK", Role: profiles.Initiating},
		{ID: 3, Name: "EVENT", Role: profiles.Initiating}, {ID: 4, Name: "RESULT", Role: profiles.Initiating},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.service, p.session = profiletest.Pair("spiffe://test/service", registry(t, s), name, r, profiletest.SessionOptions{})
	t.Cleanup(p.hangUp)
	return p
}

func (p *peer) hangUp() { hangUp(p.session, p.service) }

func parse(env *e1.Envelope) message {
	m := message{Type: env.MsgType, MsgID: string(env.MsgID), Ext: slices.Clone(env.Extensions), Raw: slices.Clone(env.Payload)}
	m.Seq, _ = env.Extensions.LookupUvarint(a2a.ExtSequence)
	m.First, _ = env.Extensions.LookupUvarint(a2a.ExtFirstHeld)
	switch env.MsgType {
	case a2a.TypeHandshake:
		var b a2a.HandshakeBody
		_ = b.Decode(env.Payload)
		m.ID = string(b.AgentID)
	case a2a.TypeTask:
		var b a2a.TaskBody
		_ = b.Decode(env.Payload)
		m.ID, m.Kind, m.Payload = string(b.TaskID), string(b.Kind), string(b.Input)
	case a2a.TypeEvent:
		var b a2a.EventBody
		_ = b.Decode(env.Payload)
		m.ID, m.Message, m.Payload = string(b.TaskID), string(b.Message), string(b.Payload)
	case a2a.TypeResult:
		var b a2a.ResultBody
		_ = b.Decode(env.Payload)
		m.ID, m.OK, m.Payload, m.Reason = string(b.TaskID), b.OK, string(b.Output), string(b.ErrorMessage)
	}
	return m
}

// body is a body of the profile.
type body interface {
	Append([]byte) []byte
}

func task(id, kind, input string) *a2a.TaskBody {
	return &a2a.TaskBody{TaskID: []byte(id), Kind: []byte(kind), Input: []byte(input)}
}

func event(id, text string) *a2a.EventBody {
	return &a2a.EventBody{TaskID: []byte(id), Message: []byte(text)}
}

func good(id, output string) *a2a.ResultBody {
	return &a2a.ResultBody{TaskID: []byte(id), OK: true, Output: []byte(output)}
}

func bad(id, reason string) *a2a.ResultBody {
	return &a2a.ResultBody{TaskID: []byte(id), ErrorMessage: []byte(reason)}
}

func typeOf(b body) uint64 {
	switch b.(type) {
	case *a2a.HandshakeBody:
		return a2a.TypeHandshake
	case *a2a.TaskBody:
		return a2a.TypeTask
	case *a2a.EventBody:
		return a2a.TypeEvent
	}
	return a2a.TypeResult
}

// send sends a message and returns its msg_id.
func (p *peer) send(b body, ext ...e1.Extensions) string {
	p.t.Helper()
	id := profiles.NewMsgID()
	env := e1.Envelope{ProfileID: a2a.ProfileID, MsgType: typeOf(b), MsgID: id, Extensions: slices.Concat(ext...), Payload: b.Append(nil)}
	if err := p.session.Send(p.t.Context(), env); err != nil {
		p.t.Fatal(err)
	}
	return string(id)
}

func number(typ, n uint64) e1.Extensions { return e1.AppendExtensionUvarint(nil, typ, n) }

func param(typ uint64, value string) e1.Extensions {
	return e1.AppendExtension(nil, typ, []byte(value))
}

// next returns the next message that came.
func (p *peer) next() message {
	p.t.Helper()
	select {
	case m := <-p.got:
		return m
	case <-time.After(time.Minute):
		p.t.Fatal("nothing came")
		return message{}
	}
}

// want wants messages, without what is in no script.
func (p *peer) want(want ...message) {
	p.t.Helper()
	for _, w := range want {
		got := p.next()
		got.Ext, got.Raw = nil, nil
		if w.MsgID == "" {
			got.MsgID = ""
		}
		if diff := cmp.Diff(w, got); diff != "" {
			p.t.Fatalf("message (-want +got):\n%s", diff)
		}
	}
}

// quiet wants that nothing has come, and nothing will without the clock.
func (p *peer) quiet() {
	p.t.Helper()
	synctest.Wait()
	select {
	case m := <-p.got:
		p.t.Fatalf("came, want nothing: %+v", m)
	default:
	}
}

// verdict sends a message and returns how it ended, OK if it has not.
func (p *peer) verdict(b body) profiles.Code {
	p.t.Helper()
	return p.verdictOf(b, nil)
}

// verdictOf is verdict of a message with extensions.
func (p *peer) verdictOf(b body, ext e1.Extensions) profiles.Code {
	p.t.Helper()
	synctest.Wait()
	n := len(p.service.Verdicts())
	p.send(b, ext)
	synctest.Wait()
	for _, v := range p.service.Verdicts()[n:] {
		if v.Kind == typeOf(b) {
			return v.Code
		}
	}
	return profiles.OK
}

// accept wants messages accepted.
func (p *peer) accept(list ...body) {
	p.t.Helper()
	for _, b := range list {
		if code := p.verdict(b); code != profiles.OK {
			p.t.Errorf("%+v: %v, want it accepted", b, code)
		}
	}
}

// refuse wants messages refused as invalid.
func (p *peer) refuse(list ...body) {
	p.t.Helper()
	for _, b := range list {
		if code := p.verdict(b); code != profiles.InvalidProfilePayload {
			p.t.Errorf("%+v: %v, want %v", b, code, profiles.InvalidProfilePayload)
		}
	}
}

// worker is a Worker that a test steers.
type worker struct {
	runs chan *run
}

type run struct {
	*a2a.Task
	ctx   context.Context
	event func(string, []byte) error
	end   chan outcome
}

type outcome struct {
	output []byte
	err    error
}

func newWorker() *worker { return &worker{runs: make(chan *run, 1024)} }

func (w *worker) Run(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	r := &run{t, ctx, event, make(chan outcome, 1)}
	w.runs <- r
	select {
	case o := <-r.end:
		return o.output, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// started returns the next task that has started.
func (w *worker) started(t testing.TB) *run {
	t.Helper()
	select {
	case r := <-w.runs:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no task was started")
		return nil
	}
}

func (w *worker) idle(t testing.TB) {
	t.Helper()
	select {
	case r := <-w.runs:
		t.Fatalf("task %q was started", r.ID)
	default:
	}
}

func (r *run) progress(t testing.TB, text string) {
	t.Helper()
	if err := r.event(text, nil); err != nil {
		t.Fatal(err)
	}
}

func (r *run) finish(output string) { r.end <- outcome{output: []byte(output)} }

func kinds(w a2a.Worker, kinds ...string) []a2a.Registration {
	return []a2a.Registration{{Kinds: kinds, Worker: w}}
}

// counting sends n Events and then returns the input.
func counting(n int) a2a.WorkerFunc {
	return func(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		for i := range n {
			if err := event(fmt.Sprint(i+1), nil); err != nil {
				return nil, err
			}
		}
		return t.Input, nil
	}
}

// receive returns what a Delivery brings, up to the Result.
func receive(t testing.TB, d *a2a.Delivery) (events []string, result *a2a.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		e, err := d.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return events, d.Result()
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, fmt.Sprintf("%d %s", e.Seq, e.Message))
	}
}

// bare returns a Service without a store.
func bare(t testing.TB) *a2a.Service {
	t.Helper()
	s, err := a2a.New(a2a.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
