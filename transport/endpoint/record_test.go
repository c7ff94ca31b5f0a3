package endpoint_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// keeper is a Recorder of a test.
type keeper struct {
	mu      sync.Mutex
	begun   []endpoint.Report
	records []endpoint.Report
	refuse  error
	without string        // the payload of messages without a record
	gate    chan struct{} // Commit waits for it; nil: it does not
	written int           // records when Commit was called last
	commits int
}

func (k *keeper) Keeps(env *e1.Envelope) bool {
	return k.without == "" || string(env.Payload) != k.without
}

func (k *keeper) Admit() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refuse
}

func (k *keeper) Begin(r endpoint.Report) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = append(k.begun, r)
	return 100 + uint64(len(k.begun))
}

func (k *keeper) Record(r endpoint.Report) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records = append(k.records, r)
	return uint64(len(k.records))
}

func (k *keeper) Commit() {
	k.mu.Lock()
	gate := k.gate
	k.written = len(k.records)
	k.commits++
	k.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// hold has Commit wait until release is called.
func (k *keeper) hold() (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gate := make(chan struct{})
	k.gate = gate
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.gate = nil
		close(gate)
	}
}

// alone has no well-behaved peer beside that of the test.
var alone = endpoint.Bounds{Connections: 100}

func (k *keeper) all() []endpoint.Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.records
}

func TestAnExchangeIsRecordedBeforeItsAnswerCanLeave(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := new(keeper)
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k, ErrorFrames: true}, telling(profile(act)))
		for i, row := range []struct {
			what    string
			outcome profiles.Outcome
			answers int
		}{
			{"done", profiles.OutcomeOK, 1},
			{"answered with a failure", profiles.OutcomeFailed, 1},
			{"held", profiles.OutcomeOK, 2},
			{"answered on its lane", profiles.OutcomeOK, 1},
			{"denied", profiles.OutcomeDenied, 1},
			{"refused", profiles.OutcomeRefused, 1},
			{"broken", profiles.OutcomeFailed, 1},
		} {
			release := k.hold()
			r.send(t, request("id-0000-", row.what))
			answers := make(chan []byte, row.answers)
			go func() {
				for range row.answers {
					env, _ := r.next()
					answers <- env.Payload
				}
			}()
			synctest.Wait()
			if len(answers) == row.answers {
				t.Errorf("%s: the last answer has left before the record was written", row.what)
			}
			got := k.all()
			if len(got) != i+1 {
				t.Fatalf("%s: %d records while the answer is not sent, want %d", row.what, len(got), i+1)
			}
			release()
			sum := sha256.New()
			for range row.answers {
				sum.Write(<-answers)
			}
			report := got[i]
			if report.Outcome != row.outcome || report.Subject.Operation != "op" || report.Subject.Name != row.what {
				t.Errorf("%s: %v of %+v, want %v", row.what, report.Outcome, report.Subject, row.outcome)
			}
			if report.Request != sha256.Sum256([]byte(row.what)) {
				t.Errorf("%s: not the sum of the request", row.what)
			}
			if string(report.Answer[:]) != string(sum.Sum(nil)) {
				t.Errorf("%s: not the sum of the answers", row.what)
			}
			synctest.Wait()
			if n := len(k.all()); n != i+1 {
				t.Errorf("%s: recorded %d times", row.what, n-i)
			}
			r.again(t)
		}
	})
}

// A large answer is written while it is sent, not later with others.
func TestAnExchangeIsRecordedBeforeALargeAnswerLeaves(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := new(keeper)
		large := e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, 256<<10)}
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k}, profile(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			if string(req.Payload) == "inline" {
				return w.Finish(large)
			}
			return req.Detach(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error { return w.Finish(large) })
		}))
		for i, what := range []string{"inline", "detached"} {
			r.send(t, request("id-0000-", what))
			r.recv(t)
			synctest.Wait()
			k.mu.Lock()
			written := k.written
			k.mu.Unlock()
			if written != i+1 {
				t.Errorf("%s: %d records were written before the answer, want %d", what, written, i+1)
			}
			r.again(t)
		}
	})
}

func TestAnExchangeWithoutAnAnswerIsRecordedAtItsEnd(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := new(keeper)
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k}, profile(act))
		for i, what := range []string{"deferred", "deferred and denied", "taken back"} {
			r.send(t, request("id-0000-", what))
			synctest.Wait()
			got := k.all()
			if len(got) != i+1 || got[i].Subject.Name != what || got[i].Request != sha256.Sum256([]byte(what)) || got[i].Answer != [32]byte{} {
				t.Fatalf("%s: %+v", what, got)
			}
			r.again(t)
		}
	})
}

// A record costs a sum over all octets of an exchange: nothing is computed for one that
// nobody keeps, and its answer waits for no file.
func TestAnExchangeThatIsNotKeptHasNoSumsAndWaitsForNoRecord(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := &keeper{without: "echo", refuse: &profiles.Error{Code: profiles.Internal, Detail: "audit", Text: "no room"}}
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k, ErrorFrames: true}, telling(profile(act)))
		sums := endpoint.CountSums(t)
		r.send(t, request("id-0000-", "echo"))
		r.wantEcho(t, "id-0000-", "12345")
		synctest.Wait()
		if n := sums(); n != 0 || k.commits != 0 || len(k.all()) != 0 || len(k.begun) != 0 {
			t.Errorf("%d sums, %d commits, records %v, begun %v", n, k.commits, k.all(), k.begun)
		}
		r.send(t, request("id-0001-", "another"))
		r.wantError(t, "id-0001-", profiles.Internal)
		if n := sums(); n == 0 {
			t.Error("an exchange that is kept has no sum")
		}
	})
}

// swp.sync has no record, and its answer says that messages without an answer were done, perhaps on
// another stream: after a kill their records are there.
func TestAnAnswerWithoutARecordWaitsForThoseOfMessagesBeforeIt(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := &keeper{without: "echo"}
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k}, profile(act))
		r.send(t, request("id-0000-", "deferred"))
		synctest.Wait()
		if r.conn.Multiplexed() {
			r.again(t)
		}
		r.send(t, request("id-0001-", "echo"))
		r.wantEcho(t, "id-0001-", "12345")
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.records) != 1 || k.written != 1 {
			t.Errorf("%d of %d records were written before the answer, want 1 of 1", k.written, len(k.records))
		}
	})
}

func TestNothingIsHandledWithoutARecord(t *testing.T) {
	onEach(t, endpoint.Options{Bounds: alone, Recorder: &keeper{refuse: &profiles.Error{Code: profiles.Internal, Detail: "audit", Text: "no room"}}, ErrorFrames: true}, func(t *testing.T, r *rig) {
		r.send(t, request("id-0000-", "x"))
		r.wantError(t, "id-0000-", profiles.Internal)
	}, telling(profile(counting(func(*profiles.Request) { t.Error("a message was handled") }))))
}

func TestALongExchangeIsRecordedWhileItGoesOn(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := new(keeper)
		var end profiles.Responder
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k}, profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			req.About("op", "long")
			_, w, err := req.HoldLong()
			end = w
			return err
		}))
		r.send(t, request("id-0000-", "x"))
		synctest.Wait()
		began := time.Now()
		time.Sleep(time.Minute)
		r.ep.RecordLong(began)
		if len(k.begun) != 0 {
			t.Fatal("an exchange began before it did")
		}
		for range 2 {
			r.ep.RecordLong(time.Now())
		}
		if len(k.begun) != 1 || k.begun[0].Subject.Name != "long" || k.begun[0].Outcome != profiles.OutcomeOpen || k.begun[0].Request != sha256.Sum256([]byte("x")) {
			t.Fatalf("begun %+v", k.begun)
		}
		if err := end.Finish(e1.Envelope{MsgType: typeAnswer}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := k.all(); len(got) != 1 || got[0].Begun != 101 || got[0].Took < time.Minute {
			t.Errorf("%+v", got)
		}
		r.ep.RecordLong(time.Now())
		if len(k.begun) != 1 {
			t.Error("an exchange that is over began")
		}
	})
}

// What comes after a deferred message on its stream has nothing to do with the record of it,
// which by then may be that of another exchange.
func TestTheRecordOfADeferredMessageIsLeftAloneByTheNextOne(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k := new(keeper)
		deferring := newRigOn(t, pipe, endpoint.Options{Bounds: alone, ErrorFrames: true, Recorder: new(keeper)}, profile(act))
		var end profiles.Responder
		answering := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k}, profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.Hold()
			if err != nil {
				return err
			}
			end = w
			return w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("one")})
		}))
		for i := range 4 { // which record an exchange gets is left to a sync.Pool
			deferring.send(t, request(fmt.Sprintf("id-%05d", i), "deferred"))
			synctest.Wait()
			answering.send(t, request(fmt.Sprintf("id-%05d", i), "x"))
			answering.recv(t)
			deferring.send(t, e1.Envelope{ProfileID: 4242, MsgType: 1})
			deferring.recv(t)
			if err := end.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("two")}); err != nil {
				t.Fatal(err)
			}
			answering.recv(t)
			synctest.Wait()
			if got := k.all(); len(got) != i+1 || got[i].Answer != sha256.Sum256([]byte("onetwo")) {
				t.Fatalf("round %d: not the sum of the answers", i)
			}
		}
	})
}

// An answer without room is sent again: both ends have it once.
func TestAnAnswerThatWasNotSentIsNotInTheSum(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k, held := new(keeper), make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{Bounds: endpoint.Bounds{Connections: 100, InFlightBytes: 512 << 10}, Recorder: k}, holdLong(held))
		r.send(t, request("id-0000-", "x"))
		w := <-held
		sum := sha256.New()
		part := func(n byte) e1.Envelope {
			return e1.Envelope{MsgType: typeAnswer, Payload: bytes.Repeat([]byte{n}, 100<<10)}
		}
		refused := 0
		for n := byte(1); n <= 10; n++ {
			send := w.Send
			if n == 10 {
				send = func(env e1.Envelope) error { return profiles.SendLast(w, env) }
			}
			for err := send(part(n)); err != nil; err = send(part(n)) {
				if refused++; refused > 100 || !errors.As(err, new(*profiles.Error)) {
					t.Fatal(err)
				}
				if len(k.all()) > 0 {
					t.Fatal("an exchange was recorded whose last answer is not sent")
				}
				sum.Write(r.recv(t).Payload)
				synctest.Wait()
			}
		}
		if refused == 0 {
			t.Fatal("there was always room")
		}
		if len(k.all()) != 1 {
			t.Fatalf("%d records, and the last answer was sent", len(k.all()))
		}
		w.Fail(nil)
		for range 10 - refused {
			sum.Write(r.recv(t).Payload)
		}
		synctest.Wait()
		if got := k.all(); len(got) != 1 || string(got[0].Answer[:]) != string(sum.Sum(nil)) || got[0].Outcome != profiles.OutcomeOK {
			t.Errorf("%d records, or not the sum of what was received", len(got))
		}
	})
}

func TestTheLastAnswerWaitsForTheRecord(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		k, held := new(keeper), make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{Bounds: alone, Recorder: k}, holdLong(held))
		r.send(t, request("id-0000-", "x"))
		w := <-held
		if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("one")}); err != nil {
			t.Fatal(err)
		}
		if err := profiles.SendLast(w, e1.Envelope{MsgType: typeAnswer, Payload: []byte("two")}); err != nil {
			t.Fatal(err)
		}
		r.recv(t)
		r.recv(t)
		k.mu.Lock()
		written := k.written
		k.mu.Unlock()
		if written != 1 {
			t.Errorf("%d records were written before the last answer, want 1", written)
		}
		w.Fail(profiles.Errorf(profiles.NotFound, "after all"))
		synctest.Wait()
		if got := k.all(); len(got) != 1 || got[0].Answer != sha256.Sum256([]byte("onetwo")) {
			t.Errorf("%+v", got)
		}
	})
}
