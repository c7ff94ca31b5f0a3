package mcpmap_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// wishes are a Policy that stops what goes to a server.
type wishes struct {
	mu   sync.Mutex
	stop string
}

func (p *wishes) set(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop = name
}

func (p *wishes) Violated(_ context.Context, profile, name string) *profiles.Violation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if profile != "mcp" || name != p.stop {
		return nil
	}
	return &profiles.Violation{
		Key: "no_pii", Scope: "connection", Reason: "NOT_KEPT",
		Notice: e1.Envelope{ProfileID: mcpmap.ProfileID, MsgType: uint64(mcpmap.Notification), MsgID: []byte("notice--notice--"), Payload: []byte(note)},
	}
}

const note = `{"jsonrpc":"2.0","method":"notice"}`

// A MUST that cannot be kept keeps a request from its server, in a session and
// without one, and notifications, too. The caller is told why.
func TestPR13AMustThatIsNotKeptStopsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, other := newServer(), newServer()
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv, "two": other}, "one")
		if err != nil {
			t.Fatal(err)
		}
		p := new(wishes)
		served := mcpmap.New(mcpmap.Options{Backend: table, Policy: p})
		l := dial(t, served, "alice")
		l.server = srv
		id, conv := l.initialize(mcpmap.Events{})

		stopped := func(call *mcpmap.Call) {
			t.Helper()
			out := <-l.do(call)
			if out.err != nil {
				t.Fatal(out.err)
			}
			for _, part := range []string{`"code":"ERR_SECURITY_POLICY","retryable":false`, "stopped by a policy hint: MUST no_pii for connection: NOT_KEPT"} {
				if !strings.Contains(string(out.Octets), part) {
					t.Errorf("answered %s, want %s", out.Octets, part)
				}
			}
		}
		p.set("one")
		stopped(&mcpmap.Call{Octets: modern("7", "tools/list")})
		stopped(&mcpmap.Call{Target: "one", Octets: modern("7", "tools/call")})
		stopped(&mcpmap.Call{Target: "one", Session: id, Octets: legacy("7", "tools/list")})
		l.notify(id, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		synctest.Wait()
		want(t, "messages at the server", len(srv.modern)+len(conv.requests)+len(conv.notes), 0)
		stops := 0
		for _, v := range l.far.Verdicts() {
			if v.Code == profiles.OK {
				continue
			}
			stops++
			want(t, "verdict", v.Code, profiles.SecurityPolicy)
			want(t, "detail", v.Err.Detail, "policy_hint")
			want(t, "what costs the peer nothing", v.Err.Domain, true)
		}
		want(t, "stops", stops, 4)
		notices := 0
		for _, v := range l.near.Verdicts() { // what this side was sent
			if v.Kind == uint64(mcpmap.Notification) {
				notices++
			}
		}
		want(t, "notices", notices, 4)

		// Another server keeps it, and so does this one once the wish is gone.
		done := l.do(&mcpmap.Call{Target: "two", Octets: modern("8", "tools/list")})
		(<-other.modern).Finish([]byte(`{"jsonrpc":"2.0","id":8,"result":{}}`))
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}
		p.set("")
		done = l.do(&mcpmap.Call{Target: "one", Octets: modern("9", "tools/list")})
		(<-srv.modern).Finish([]byte(`{"jsonrpc":"2.0","id":9,"result":{}}`))
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}
		l.near.Close()
		served.Close()
	})
}
