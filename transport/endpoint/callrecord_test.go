package endpoint_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// caller is a Recorder of calls.
type caller struct {
	keeper
	callMu sync.Mutex
	calls  []endpoint.CallReport
	skip   bool
}

func (c *caller) Records(*endpoint.Session, *e1.Envelope) bool { return !c.skip }

func (c *caller) RecordCall(r endpoint.CallReport) {
	c.callMu.Lock()
	defer c.callMu.Unlock()
	r.MsgID = slices.Clone(r.MsgID)
	c.calls = append(c.calls, r)
}

func (c *caller) last(t *testing.T, n int) endpoint.CallReport {
	t.Helper()
	c.callMu.Lock()
	defer c.callMu.Unlock()
	if len(c.calls) != n {
		t.Fatalf("%d calls were recorded, want %d", len(c.calls), n)
	}
	if n == 0 {
		return endpoint.CallReport{}
	}
	return c.calls[n-1]
}

// served waits for the record of an exchange at its server.
func (k *keeper) served(t *testing.T, id []byte) endpoint.Report {
	t.Helper()
	for deadline := time.Now().Add(transporttest.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, r := range k.all() {
			if string(r.Verdict.MsgID) == string(id) {
				return r
			}
		}
	}
	t.Fatal("the server has no record of the exchange")
	return endpoint.Report{}
}

func (k *idKeeper) Record(r endpoint.Report) uint64 {
	r.Verdict.MsgID = slices.Clone(r.Verdict.MsgID)
	return k.keeper.Record(r)
}

// idKeeper keeps the msg_ids, too.
type idKeeper struct{ keeper }

// various answers as the request says.
func various(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	if req.MsgType != typeRequest {
		return nil
	}
	part := e1.Envelope{MsgType: typePart, Payload: []byte("part")}
	answer := e1.Envelope{MsgType: typeAnswer, Payload: []byte("answer")}
	switch string(req.Payload) {
	case "parts":
		_, held, err := req.Hold()
		if err != nil {
			return err
		}
		go func() {
			for range 3 {
				_ = held.Send(part)
			}
			note := part
			note.MsgType, note.MsgID = typeBoth, profiles.NewMsgID()
			_ = held.Send(note) // an exchange of its own
			_ = held.Finish(answer)
		}()
		return nil
	case "refused":
		return profiles.Errorf(profiles.NotFound, "no")
	case "nothing":
		return nil
	case "one way":
		done := req.Defer()
		done(nil)
		return nil
	case "stripped":
		req.Payload, req.Extensions = nil, nil
		_, held, err := req.HoldLong()
		if err != nil {
			return err
		}
		return held.Finish(answer)
	case "shed":
		_, held, err := req.Hold()
		if err != nil {
			return err
		}
		held.(profiles.Shedder).Shed()
		return held.Finish(answer)
	}
	return w.Finish(answer)
}

func TestBothEndsOfAnExchangeHaveTheSameDigests(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		there, here := new(idKeeper), new(caller)
		served := ending(profile(various))
		w := listen(t, kind, endpoint.Options{Recorder: there, ErrorFrames: true, Bounds: endpoint.Bounds{Write: transporttest.Patience}}, served)
		s := w.recording(t, here)
		for i, row := range []struct {
			what     string
			ext      e1.Extensions
			answers  []string
			complete bool
			last     uint64
		}{
			{what: "one", answers: []string{"answer"}, complete: true, last: typeAnswer},
			{what: "parts", answers: []string{"part", "part", "part", "answer"}, complete: true, last: typeAnswer},
			{what: "shed", answers: []string{"answer"}, complete: true, last: typeAnswer},
			{what: "stripped", answers: []string{"answer"}, complete: true, last: typeAnswer},
			{what: "refused", complete: true, last: endpoint.ErrorMsgType},
			{what: "nothing"},
			{what: "one way"},
			{
				what: "extended", ext: e1.AppendExtension(e1.AppendExtension(nil, 51, []byte("for alice")), 52, []byte("c")),
				answers: []string{"answer"}, complete: true, last: typeAnswer,
			},
		} {
			c, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Extensions: row.ext, Payload: []byte(row.what)})
			if err != nil {
				t.Fatal(err)
			}
			id := slices.Clone(c.MsgID())
			for range row.answers {
				if _, err := c.Recv(t.Context()); err != nil {
					t.Fatalf("%s: %v", row.what, err)
				}
			}
			if row.what == "refused" {
				if _, err := c.Recv(t.Context()); !errors.As(err, new(*profiles.Error)) {
					t.Fatal(err)
				}
			}
			far := there.served(t, id) // over QUIC, Close resets the stream
			c.Close()
			near := here.last(t, i+1)
			if near.Digests != far.Digests || near.Complete != row.complete || near.AnswerType != row.last {
				t.Errorf("%s: here %+v, there %+v", row.what, near, far.Digests)
			}
			if string(near.MsgID) != string(id) || near.Profile != "test" || near.Type != "REQ" || near.ProfileID != testProfile || near.MsgType != typeRequest {
				t.Errorf("%s: %+v", row.what, near)
			}
			want := endpoint.Digests{Request: sha256.Sum256([]byte(row.what)), AnswerType: row.last, Answer: far.Answer}
			if len(row.answers) > 0 {
				sum := sha256.New()
				for _, a := range row.answers {
					sum.Write([]byte(a))
				}
				sum.Sum(want.Answer[:0])
			}
			if row.ext != nil {
				want.Caller, want.Target = sha256.Sum256([]byte("for alice")), sha256.Sum256([]byte("c"))
			}
			if near.Digests != want || (want.Answer != [32]byte{}) != (row.last != 0) {
				t.Errorf("%s: digests %+v, want %+v", row.what, near.Digests, want)
			}
		}
	})
}

func TestAnExchangeWithItsLoneAnswerIsRecordedAsAnswered(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		here, lone := new(caller), profile(various)
		lone.Types[typeAnswer-1].Role |= profiles.Lone
		s := listen(t, kind, endpoint.Options{}, lone).recordingOf(t, here, lone)
		if got := ask(t, s, "one"); got != "answer" {
			t.Fatal(got)
		}
		if near := here.last(t, 1); !near.Complete || near.Fault != nil || near.AnswerType != typeAnswer {
			t.Errorf("%+v", near)
		}
		c, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("nothing")})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if near := here.last(t, 2); near.Complete {
			t.Errorf("without an answer: %+v", near)
		}
	})
}

func TestAMessageOfSendThatOpensAnExchangeIsRecorded(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		there, here := new(idKeeper), new(caller)
		w := listen(t, kind, endpoint.Options{Recorder: there}, ending(profile(various)))
		s := w.recording(t, here)
		id := profiles.NewMsgID()
		for i, env := range []e1.Envelope{
			{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("one way")},
			{ProfileID: testProfile, MsgType: typeRequest, MsgID: id, Payload: []byte("one way")},
		} {
			if err := s.Send(t.Context(), env); err != nil {
				t.Fatal(err)
			}
			near := here.last(t, i+1)
			if far := there.served(t, near.MsgID); near.Digests != far.Digests || near.Complete || near.Sent == 0 || near.Received != 0 {
				t.Errorf("here %+v, there %+v", near, far.Digests)
			}
		}
		// An answer opens nothing, and what is not wanted is not recorded.
		if err := s.Send(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeBoth, MsgID: id}); err != nil {
			t.Fatal(err)
		}
		here.skip = true
		if got := ask(t, s, "one"); got != "answer" {
			t.Fatal(got)
		}
		here.last(t, 2)
	})
}

// The caller may know more than the types of the answers show.
func TestAnExchangeIsRecordedAsAnsweredIfItsCallerSaysSo(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		here := new(caller)
		w := listen(t, kind, endpoint.Options{}, profile(various))
		s := profiles.Toward(w.recordingOf(t, here, profile(various)), "c")
		for i, row := range []struct {
			what string
			says bool
		}{{"one", true}, {"one", false}, {"nothing", true}} {
			c, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte(row.what)})
			if err != nil {
				t.Fatal(err)
			}
			if row.what == "one" {
				if _, err := c.Recv(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if row.says {
				profiles.Completed(c)
			}
			c.Close()
			if near := here.last(t, i+1); near.Complete != row.says || (near.AnswerType > 0) != (row.what == "one") {
				t.Errorf("%+v: %+v", row, near)
			}
		}
	})
}

// A request waits for no record, and an answer only for that of its own exchange.
func TestOnlyTerminalAnswersWaitForRecords(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		there, here := new(idKeeper), new(caller)
		w := listen(t, kind, endpoint.Options{Recorder: there}, ending(profile(various)))
		s := w.recording(t, here)
		const asked = 3
		for range asked {
			if got := ask(t, s, "one"); got != "answer" {
				t.Fatal(got)
			}
		}
		here.last(t, asked)
		for k, want := range map[*keeper]int{&here.keeper: 0, &there.keeper: asked} {
			k.mu.Lock()
			if k.commits != want {
				t.Errorf("records were written %d times before octets were sent, want %d", k.commits, want)
			}
			k.mu.Unlock()
		}
	})
}

// A call that is given up is recorded with what has arrived.
func TestACallWithoutItsLastAnswerIsRecordedAsItEnds(t *testing.T) {
	here := new(caller)
	ep, rec := newEndpoint(t, endpoint.Options{Recorder: here}, ending(profile(echo)))
	near, far := transport.Pipe()
	r := attach(t, ep, rec, near, far)
	c, err := r.sess.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	part := request(string(r.recv(t).MsgID), "part")
	part.MsgType = typePart
	r.send(t, part)
	if _, err := c.Recv(t.Context()); err != nil {
		t.Fatal(err)
	}
	here.last(t, 0)
	c.Close()
	if got := here.last(t, 1); got.Complete || got.Answer != sha256.Sum256([]byte("part")) || got.AnswerType != typePart {
		t.Errorf("%+v", got)
	}
}

// recording connects an endpoint that records its calls.
func (w *wired) recording(t *testing.T, recorder endpoint.Recorder) *endpoint.Session {
	t.Helper()
	return w.recordingOf(t, recorder, ending(profile(various)))
}

func (w *wired) recordingOf(t *testing.T, recorder endpoint.Recorder, p *profiles.Profile) *endpoint.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	conn, err := transporttest.Dial(ctx, w.kind, w.ln.Addr().String(), w.policy)
	if err != nil {
		t.Fatal(err)
	}
	ep, _ := newEndpoint(t, endpoint.Options{Recorder: recorder, Bounds: endpoint.Bounds{Write: transporttest.Patience}}, p)
	return ep.Attach(conn)
}

// What must precede a message goes before one of Send, too, unless that one ends something.
func TestWhatPrecedesAMessageOfSendIsSentBeforeIt(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		got := make(chan string, 4)
		p := profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			got <- string(req.Payload)
			return nil
		})
		p.Types[typeBoth-1].Role |= profiles.Concluding
		s := listen(t, kind, endpoint.Options{}, p).recordingOf(t, nil, p)
		ctx := profiles.WithAhead(t.Context(), func(ctx context.Context, lane profiles.Lane, env *e1.Envelope) error {
			if string(env.Payload) == "refused" {
				return profiles.ErrChain
			}
			return lane.Send(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("before " + string(env.Payload))})
		})
		send := func(typ uint64, payload string) error {
			return s.Send(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typ, Payload: []byte(payload)})
		}
		if err := errors.Join(send(typeRequest, "one"), send(typeBoth, "end")); err != nil {
			t.Fatal(err)
		}
		if err := send(typeRequest, "refused"); !errors.Is(err, profiles.ErrChain) {
			t.Error(err)
		}
		for _, want := range []string{"before one", "one", "end"} {
			if text := <-got; text != want {
				t.Errorf("%q came, want %q", text, want)
			}
		}
	})
}

// A message that a Responder sends under an msg_id of its own is an exchange at both ends.
func TestAMessageBesideTheAnswersIsRecordedByItsSender(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		there, here := new(caller), new(idKeeper)
		w := listen(t, kind, endpoint.Options{Recorder: there, Bounds: endpoint.Bounds{Write: transporttest.Patience}}, ending(profile(various)))
		s := w.recording(t, here)
		c, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("parts")})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := c.Recv(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		sent := there.last(t, 1)
		got := here.served(t, sent.MsgID)
		if sent.MsgType != typeBoth || got.Verdict.MsgType != typeBoth || got.Aside || sent.Request != got.Request {
			t.Errorf("sent %+v, received %+v", sent, got)
		}
	})
}

// A call of a message that its receiver takes for no exchange is recorded at neither end as one.
func TestACallThatOpensNoExchangeIsNotRecorded(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		there, here := new(caller), new(idKeeper)
		p := profile(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: typeAnswer})
		})
		p.Types[typeBoth-1].Role |= profiles.Concluding
		w := listen(t, kind, endpoint.Options{Recorder: here, Bounds: endpoint.Bounds{Write: transporttest.Patience}}, p)
		s := w.recordingOf(t, there, p)
		for _, typ := range []uint64{typeRequest, typeBoth} {
			c, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typ})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Recv(t.Context()); err != nil {
				t.Fatal(err)
			}
			id := slices.Clone(c.MsgID())
			c.Close()
			if got := here.served(t, id); got.Aside != (typ == typeBoth) {
				t.Errorf("type %d: aside is %v at its receiver", typ, got.Aside)
			}
		}
		if sent := there.last(t, 1); sent.MsgType != typeRequest {
			t.Errorf("recorded: %+v", sent)
		}
	})
}
