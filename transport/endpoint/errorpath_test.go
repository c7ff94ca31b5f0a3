package endpoint_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestRS09TwoEndpointsDoNotAnswerEachOthersErrors(t *testing.T) {
	// Each end calls a profile that the other does not serve: one error frame
	// each way, and nothing about the error frames.
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := endpoint.Options{ErrorFrames: true}
				one, recOne := newEndpoint(t, opts, profile(echo))
				two, recTwo := newEndpoint(t, opts, profile(echo))
				x, y := k.pipe()
				a, b := one.Attach(x), two.Attach(y)
				for _, s := range []*endpoint.Session{a, b} {
					c, err := s.Call(t.Context(), e1.Envelope{ProfileID: 77, MsgType: 1})
					if err != nil {
						t.Fatal(err)
					}
					_, err = c.Recv(t.Context())
					c.Close()
					if got := endpoint.CodeOf(err); got.Code != profiles.UnknownProfile || got.Detail != "remote" {
						t.Errorf("the call ends with %v", err)
					}
				}
				synctest.Wait()
				time.Sleep(time.Minute)
				for i, rec := range []*recorder{recOne, recTwo} {
					// The peer's request, and the report about this end's own.
					if n := rec.count(); n != 2 {
						t.Errorf("endpoint %d: %d verdicts, want 2", i, n)
					}
				}
			})
		})
	}
}

func TestRS09AnErrorIsNeverAnswered(t *testing.T) {
	payload := errorPayload(profiles.UnknownProfile)
	cases := []struct {
		name   string
		env    e1.Envelope
		code   profiles.Code
		detail string
	}{
		{"nobody waits for it", e1.Envelope{MsgType: endpoint.ErrorMsgType, Payload: payload}, profiles.OK, "unsolicited"},
		{"not a report", e1.Envelope{MsgType: endpoint.ErrorMsgType, Payload: []byte{0xff}}, profiles.InvalidProfilePayload, ""},
		{"an empty payload", e1.Envelope{MsgType: endpoint.ErrorMsgType}, profiles.InvalidProfilePayload, ""},
		{"unlisted type", e1.Envelope{MsgType: 2, Payload: payload}, profiles.UnsupportedMsgType, ""},
		{"short msg_id", e1.Envelope{MsgType: endpoint.ErrorMsgType, MsgID: []byte("short"), Payload: payload}, profiles.InvalidEnvelope, "ERR_MSG_ID_INVALID"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, endpoint.Options{ErrorFrames: true}, func(t *testing.T, r *rig) {
				c.env.ProfileID = endpoint.ErrorProfile
				r.send(t, c.env)
				action := endpoint.Kept
				if c.code != profiles.OK && r.conn.Multiplexed() {
					action = endpoint.Reset
				}
				r.wantVerdict(t, 1, c.code, c.detail, action)
				if action == endpoint.Reset {
					r.wantEnd(t)
					return
				}
				// The next octets on the wire answer the next request.
				r.send(t, request("0123456789abcdef", "x"))
				r.wantEcho(t, "0123456789abcdef", "x")
			})
		})
	}
}

func TestRS09AFloodOfUnsolicitedErrorsSpendsTheBudget(t *testing.T) {
	onEach(t, endpoint.Options{ErrorFrames: true}, func(t *testing.T, r *rig) {
		env := e1.Envelope{ProfileID: endpoint.ErrorProfile, MsgType: endpoint.ErrorMsgType, Payload: errorPayload(profiles.UnknownProfile)}
		for i := range 16 {
			r.send(t, env)
			r.wantVerdict(t, i+1, profiles.OK, "unsolicited", endpoint.Kept)
		}
		r.send(t, env)
		r.wantVerdict(t, 17, profiles.OK, "unsolicited", endpoint.Closed)
		r.wantEnd(t)
	})
}

func errorPayload(code profiles.Code) []byte {
	return e1.AppendBytes([]byte{1<<3 | 2}, e1.AppendBytes([]byte{1<<3 | 2}, []byte(code.String())))
}

// Where the error path is off its profile is unknown, like any other.
func TestErrorFramesAreUnknownWhereTheErrorPathIsOff(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, e1.Envelope{ProfileID: endpoint.ErrorProfile, MsgType: endpoint.ErrorMsgType, Payload: errorPayload(profiles.UnknownProfile)})
		r.wantVerdict(t, 1, profiles.UnknownProfile, "", r.severed())
		r.wantEnd(t)
	})
}

// The error path says why before the connection closes.
func TestErrorFramesPrecedeTheEndOfTheStream(t *testing.T) {
	faults := []fault{
		{"frame", []byte{0, 0, 0, 0}, profiles.InvalidFrame, ""},
		{"version", good().with(0, []byte{9}, false).frame(), profiles.UnsupportedVersion, ""},
		{"envelope", good().with(7, []byte{100}, false).frame(), profiles.InvalidFrame, ""},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			onEach(t, endpoint.Options{ErrorFrames: true}, func(t *testing.T, r *rig) {
				r.write(t, f.octets)
				r.wantErrorFrame(t, "", f.code, 0)
				r.wantEnd(t)
				r.wantVerdict(t, 1, f.code, f.detail, r.severed())
			})
		})
	}
}

func TestErrorFramesFailTheCallTheyBelongTo(t *testing.T) {
	// Also where the error path is off here: it was this end's question.
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			one, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
			two, _ := newEndpoint(t, endpoint.Options{ErrorFrames: true}, profile(echo))
			x, y := k.pipe()
			s := one.Attach(x)
			two.Attach(y)
			c, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: 99})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err = c.Recv(t.Context()); endpoint.CodeOf(err).Code != profiles.UnsupportedMsgType {
				t.Errorf("the call ends with %v", err)
			}
			if got := ask(t, s, "x"); got != "x" {
				t.Errorf("the session does not go on: %q", got)
			}
		})
	}
}
