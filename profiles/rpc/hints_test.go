package rpc_test

import (
	"context"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
)

// wishes are a Policy that stops the methods it names, and notes what it was asked.
type wishes struct {
	stop  string
	asked []string
}

func (p *wishes) Violated(_ context.Context, profile, name string) *profiles.Violation {
	p.asked = append(p.asked, profile+" "+name)
	if p.stop != name {
		return nil
	}
	return &profiles.Violation{
		Key: "region", Scope: "connection", Reason: "NOT_KEPT",
		Notice: e1.Envelope{ProfileID: 16, MsgType: 3, MsgID: []byte("notice--notice--"), Payload: []byte("violation")},
	}
}

// A MUST that cannot be kept stops a call of any kind, under a key or not, before
// the method runs. The caller is told in both ways, and pays nothing.
func TestPR13AMustThatIsNotKeptStopsTheCall(t *testing.T) {
	for _, method := range []string{"test.inline", "test.detached", "test.held"} {
		for _, key := range []string{"", "key"} {
			c, p := new(tally), &wishes{stop: method}
			h := profiletest.New(t, newProfile(t, rpc.Options{Methods: counted(c), Policy: p, Outcomes: openStore(t, t.TempDir(), nil)}))
			in := ask("id", method, "params", key)
			x := h.Serve(rpc.TypeReq, in.Append(nil)).Wait()
			if err := x.Err(); err != nil {
				t.Errorf("%s: charged with %v", method, err)
			}
			answers := x.Answers()
			if len(answers) != 2 {
				t.Fatalf("%s, key %q: %d answers, want the notice and the refusal", method, key, len(answers))
			}
			if n := answers[0]; n.ProfileID != 16 || n.MsgType != 3 || string(n.MsgID) != "notice--notice--" || string(n.Payload) != "violation" {
				t.Errorf("%s: the notice is %+v", method, n)
			}
			var m rpc.Err
			if err := m.Decode(answers[1].Payload); err != nil || string(m.ErrorCode) != rpc.CodeUnauthorized || m.Retryable ||
				!strings.Contains(string(m.ErrorMessage), "MUST region for connection: NOT_KEPT") {
				t.Errorf("%s: refused with %q %q, %v", method, m.ErrorCode, m.ErrorMessage, err)
			}
			if n := c.of(method); n != 0 {
				t.Errorf("%s ran %d times", method, n)
			}
			// Nothing was kept of it: once the wish is gone the same call runs.
			p.stop = ""
			answers = h.Serve(rpc.TypeReq, in.Append(nil)).Wait().Answers()
			if n := c.of(method); n != 1 || answers[len(answers)-1].MsgType != rpc.TypeResp {
				t.Errorf("%s, key %q: ran %d times once it was not stopped", method, key, n)
			}
			if got := strings.Join(p.asked, ", "); got != "rpc "+method+", rpc "+method {
				t.Errorf("asked about %s", got)
			}
		}
	}
}

// no is an Access that allows nothing.
type no struct{}

func (no) Allowed(_, _, _, _ string) bool { return false }

func TestHintsAreHeldAgainstWhatIsAllowedOnly(t *testing.T) {
	p := &wishes{stop: "test.inline"}
	h := profiletest.New(t, newProfile(t, rpc.Options{Methods: counted(new(tally)), Policy: p, Access: no{}}))
	x := h.Serve(rpc.TypeReq, req("id", "test.inline", "")).Wait()
	if n := len(x.Answers()); n != 1 || len(p.asked) != 0 {
		t.Errorf("%d answers, asked about %q", n, p.asked)
	}
}
