package endpoint_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// act is a handler that does what the payload says.
func act(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	answer := e1.Envelope{MsgType: typeAnswer, Payload: []byte("12345")}
	what := string(req.Payload)
	if what != "unsaid" {
		req.About("op", what)
	}
	switch what {
	case "denied":
		return profiles.Deny(&profiles.Error{Code: profiles.NotFound, Domain: true})
	case "refused":
		return profiles.Busy("bound", "too much")
	case "broken":
		return errors.New("of ours")
	case "answered with a failure":
		profiles.Ended(w, profiles.OutcomeFailed)
	case "held":
		held, w, err := req.Hold()
		if err != nil {
			return err
		}
		go func() {
			profiles.About(w, profiles.Subject{Profile: "other", Operation: "op", Name: string(held.Payload), Before: 7})
			_ = w.Send(answer)
			_ = w.Finish(answer)
		}()
		return nil
	case "answered on its lane":
		held, w, err := req.Hold()
		if err != nil {
			return err
		}
		answer.ProfileID, answer.MsgID = held.ProfileID, held.MsgID
		go func() {
			profiles.Sending(w, &answer, true)
			w.Fail(held.Lane.Send(w.Context(), answer))
		}()
		return nil
	case "taken back":
		_, w, err := req.Hold()
		if err != nil {
			return err
		}
		profiles.Ended(w, profiles.OutcomeCancelled)
		go w.Fail(nil)
		return nil
	case "deferred":
		done := req.Defer()
		go done(nil)
		return nil
	case "deferred and denied":
		done := req.Defer()
		go done(profiles.Deny(&profiles.Error{Code: profiles.SecurityPolicy}))
		return nil
	case "lost", "denied and lost":
		if what != "lost" {
			profiles.Ended(w, profiles.OutcomeDenied)
		}
		_, w, err := req.Hold()
		if err != nil {
			return err
		}
		profiles.Ended(w, profiles.OutcomeFailed)
		context.AfterFunc(w.Context(), func() { w.Fail(nil) })
		return nil
	}
	return w.Finish(answer)
}

func TestEachExchangeIsReportedOnceWithWhatItWas(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		r := newRigOn(t, pipe, endpoint.Options{}, profile(act))
		for i, row := range []struct {
			what    string
			outcome profiles.Outcome
			profile string
			answers int
		}{
			{"unsaid", profiles.OutcomeOK, "test", 1},
			{"done", profiles.OutcomeOK, "test", 1},
			{"denied", profiles.OutcomeDenied, "test", 0},
			{"refused", profiles.OutcomeRefused, "test", 0},
			{"broken", profiles.OutcomeFailed, "test", 0},
			{"answered with a failure", profiles.OutcomeFailed, "test", 1},
			{"held", profiles.OutcomeOK, "other", 2},
			{"taken back", profiles.OutcomeCancelled, "test", 0},
			{"deferred", profiles.OutcomeOK, "test", 0},
			{"deferred and denied", profiles.OutcomeDenied, "test", 0},
			{"lost", profiles.OutcomeLost, "test", 0},
		} {
			if i > 0 {
				r.again(t) // a refusal ends a stream
			}
			env := request("id-0000-", row.what)
			r.send(t, env)
			octets := 0
			for range row.answers {
				answer := r.recv(t)
				octets += len(framed(answer))
			}
			if row.outcome == profiles.OutcomeLost {
				synctest.Wait() // it was read
				_ = r.conn.Close(0)
			}
			got := r.rec.report(t, i)
			operation, name := "op", row.what
			if row.what == "unsaid" {
				operation, name = "REQ", ""
			}
			if s := got.Subject; s.Profile != row.profile || s.Operation != operation || s.Name != name {
				t.Errorf("%s: about %+v", row.what, s)
			}
			if got.Outcome != row.outcome {
				t.Errorf("%s: %v, want %v", row.what, got.Outcome, row.outcome)
			}
			if got.Took < 0 || got.Context == nil {
				t.Errorf("%s: took %v", row.what, got.Took)
			}
			if got.Sent != octets {
				t.Errorf("%s: %d octets sent, want %d", row.what, got.Sent, octets)
			}
		}
	})
}

// What comes after a denial does not replace it.
func TestOP24ADenialIsReportedAlsoIfThePeerLeaves(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		r := newRigOn(t, pipe, endpoint.Options{}, profile(act))
		r.send(t, request("id-0000-", "denied and lost"))
		synctest.Wait() // it was read
		_ = r.conn.Close(0)
		if got := r.rec.report(t, 0).Outcome; got != profiles.OutcomeDenied {
			t.Errorf("%v, want denied", got)
		}
	})
}
