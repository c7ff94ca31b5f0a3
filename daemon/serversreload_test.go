package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// serverYAML is the entry of an MCP server that is this program.
func serverYAML(t *testing.T, name, kind string, more ...string) string {
	t.Helper()
	yaml := strings.Replace(childYAML(t, more...), "    child:\n", "    "+name+":\n", 1)
	_, entry, _ := strings.Cut(yaml, "  servers:\n")
	return strings.Replace(entry, childEnv+": '1'", childEnv+": '"+kind+"'", 1)
}

const askPID = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`

// pid asks a session for the process of its server.
func (s *session) pid(t *testing.T, target, session string) string {
	t.Helper()
	result, err := s.ask(t, mcpmap.Call{Target: target, Session: session, Octets: []byte(askPID)})
	if err != nil || strings.Contains(string(result.Octets), "error") {
		t.Fatalf("%s: %+v, %v", target, result, err)
	}
	return string(result.Octets)
}

// leave closes a session.
func (s *session) leave(t *testing.T, target, session string) {
	t.Helper()
	if _, err := rpc.Call(t.Context(), s.Session, mcpmap.MethodRPCClose, fmt.Appendf(nil, `{"target":%q,"session":%q}`, target, session)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *running) status() (s Status) {
	r.t.Helper()
	_, body := r.get("/status")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// eventually waits for what only the admin listener tells.
func (r *running) eventually(what string, ok func() bool) {
	r.t.Helper()
	(&organisation{running: r, name: "swpd"}).until(what, ok)
}

// reloads asks the admin listener to reload, and returns its answer. What has changed may
// have been found before.
func (r *running) reloads() (answer Reloaded) {
	r.t.Helper()
	_, body := r.post()
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	return answer
}

// What is changed again and again serves every request that comes meanwhile; what is not
// changed keeps its process.
func TestServersAreChangedUnderTraffic(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "kept", "1")+serverYAML(t, "busy", "modern", ", ROUND: '0'")+serverYAML(t, "other", "1", ", TURN: '0'"))
		s := r.mustDial(r.addrs[transport])
		session := s.begin(t, "kept")
		before := s.pid(t, "kept", session)

		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		var calls, failed atomic.Int64
		for range 2 {
			peer := r.mustDial(r.addrs[transport])
			load.Go(func() {
				for ctx.Err() == nil {
					result, err := peer.ask(t, mcpmap.Call{Target: "busy", Octets: []byte(modernCall)})
					if err != nil || !strings.Contains(string(result.Octets), sayTool) {
						t.Errorf("a call during reloads: %+v, %v", result, err)
						failed.Add(1)
						return
					}
					calls.Add(1)
				}
			})
		}
		load.Go(func() { // sessions come and go
			for ctx.Err() == nil {
				name := s.begin(t, "other")
				s.pid(t, "other", name)
			}
		})
		for round := range 3 {
			r.rewrite(fmt.Sprintf("ROUND: '%d'", round), fmt.Sprintf("ROUND: '%d'", round+1))
			r.rewrite(fmt.Sprintf("TURN: '%d'", round), fmt.Sprintf("TURN: '%d'", round+1))
			if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
				t.Errorf("answer %+v", got)
			}
			// Some calls reach each of them.
			for seen := calls.Load(); calls.Load() < seen+4 && failed.Load() == 0; {
				<-time.After(time.Millisecond)
			}
		}
		stop()
		load.Wait()
		if after := s.pid(t, "kept", session); after != before {
			t.Errorf("the server that was not changed is %s, and was %s", after, before)
		}
		if got := r.metric(`swpd_mcp_child_starts_total{server="kept"}`); got != "1" {
			t.Errorf("the server that was not changed was started %s times, want once", got)
		}
	})
}

func TestAChangedServerServesWhatComesAndItsSessionsStay(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "child", "1", ", ROUND: '0'"))
		s, other := r.mustDial(r.addrs[transport]), r.mustDial(r.addrs[transport])
		session := s.begin(t, "child")
		before := s.pid(t, "child", session)
		r.rewrite("ROUND: '0'", "ROUND: '1'")
		r.reloaded()
		if got := s.pid(t, "child", session); got != before {
			t.Errorf("the session is at %s, want %s", got, before)
		}
		if got := s.pid(t, "child", ""); got != before { // the current one of this connection
			t.Errorf("the current session is at %s, want %s", got, before)
		}
		if got := other.pid(t, "child", other.begin(t, "child")); got == before {
			t.Error("a new session is at the server that was there before")
		}
		if got := r.status(); !slices.Equal(got.Departing, []string{"child"}) || !slices.Equal(got.Servers, []string{"child"}) {
			t.Errorf("status %+v", got)
		}
		if got := r.metric(`swpd_mcp_children{server="child"}`); got != "2" {
			t.Errorf("%s children, want those of both", got)
		}
		s.leave(t, "child", session)
		r.eventually("the end of the server", func() bool { return len(r.status().Departing) == 0 })
		r.counts(`swpd_mcp_children{server="child"}`, "1")
	})
}

func TestARemovedServerEndsWithWhatIsUnderWay(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "kept", "1")+serverYAML(t, "gone", "1"))
		s := r.mustDial(r.addrs[transport])
		session := s.begin(t, "gone")
		pid := s.pid(t, "gone", session)
		answer, release := s.waits(t, "gone", session)
		r.rewrite(serverYAML(t, "gone", "1"), "")
		r.reloaded()
		late := r.mustDial(r.addrs[transport]).mustAsk(t, "gone", initialize)
		if want := `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"unknown target; choose one of: kept","data":{"code":"ERR_NOT_FOUND","retryable":false,"endpoint":"spiffe://localhost/swpd"}}}`; late != want {
			t.Errorf("a new session: %s, want %s", late, want)
		}
		if got := s.tools(t); slices.ContainsFunc(got, func(id string) bool { return strings.HasPrefix(id, "gone/") }) {
			t.Errorf("tools %v", got)
		}
		release()
		if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":"waited"}`; got != want {
			t.Errorf("the call under way: %s, want %s", got, want)
		}
		for _, name := range []string{session, ""} { // named, and the current one of this connection
			if got := s.pid(t, "gone", name); got != pid {
				t.Errorf("the session %q is at %s, want %s", name, got, pid)
			}
		}
		s.leave(t, "gone", session)
		r.eventually("the end of the server", func() bool { return len(r.status().Departing) == 0 })
		if _, text := r.get("/metrics"); strings.Contains(text, `server="gone"`) {
			t.Error("the metrics still name the server that was removed")
		}
		if got := r.mustDial(r.addrs[transport]).mustAsk(t, "kept", initialize); !strings.Contains(got, `"result"`) {
			t.Errorf("the server that stays: %s", got)
		}
	})
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// What would never end by itself is ended, so that the server is not kept for good.
func TestWhoListensToAServerThatLeavesIsToldToComeAgain(t *testing.T) {
	r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "modern", "modern", ", ROUND: '0'"))
	s := r.mustDial(r.addrs[0])
	answer := make(chan string, 1)
	go func() {
		result, err := s.ask(t, mcpmap.Call{Target: "modern", Octets: []byte(modernListen)})
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(result.Octets)
	}()
	r.await("listening 3")
	r.rewrite("ROUND: '0'", "ROUND: '1'")
	r.reloaded()
	if got, want := <-answer, `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"this server was changed or removed","data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true,"endpoint":"spiffe://localhost/swpd"}}}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	r.eventually("the end of the server", func() bool { return len(r.status().Departing) == 0 })
	if got := s.mustAsk(t, "modern", modernCall); !strings.Contains(got, sayTool) {
		t.Errorf("the server as it is now: %s", got)
	}
}

// What is only declared of a server changes without the server.
func TestDefaultAndHintsOfAServerChangeUnderItsHands(t *testing.T) {
	r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "one", "1")+serverYAML(t, "two", "1"))
	s := r.mustDial(r.addrs[0])
	session := s.begin(t, "two")
	before := s.pid(t, "two", session)
	r.rewrite("    two:\n", "    two:\n      default: true\n      hints: {region: eu}\n")
	r.reloaded()
	if got := s.pid(t, "", session); got != before {
		t.Errorf("the session is at %s, want %s", got, before)
	}
	if got := r.mustDial(r.addrs[0]).mustAsk(t, "", initialize); !strings.Contains(got, `"result"`) {
		t.Errorf("without a target: %s", got)
	}
	if got := r.status().Departing; len(got) > 0 {
		t.Errorf("%q leave", got)
	}
}

func TestServersThatCannotBeUsedLeaveThoseThatAreThere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "a\nb")
	r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "child", "1"))
	r.rewrite("  servers:\n", "  servers:\n    far: {url: 'http://127.0.0.1:1/', headers_from: {Authorization: '"+file+"'}}\n")
	if got := r.reloads(); len(got.Problems) != 1 || !strings.HasPrefix(got.Problems[0], "mcp.servers.far: ") || len(got.Changed)+len(got.Later) > 0 {
		t.Errorf("answer %+v", got)
	}
	if body := r.warned(); !strings.Contains(body, "mcp servers not reloaded, the old ones stay: mcp.servers.far: ") {
		t.Errorf("warnings %q", body)
	}
	if got := r.mustDial(r.addrs[0]).mustAsk(t, "", initialize); !strings.Contains(got, `"result"`) {
		t.Errorf("the server that was there: %s", got)
	}
	write(t, file, "a") // found without being asked for
	r.eventually("the new server", func() bool { return slices.Equal(r.status().Servers, []string{"child", "far"}) })
}

// Rules that name it are about the partner from then on.
func TestWhatIsUnderWayEndsWhenAPartnerTakesTheNameOfAServer(t *testing.T) {
	r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "x", "1"))
	s := r.mustDial(r.addrs[0])
	session := s.begin(t, "x")
	s.pid(t, "x", session)
	r.rewrite("mcp:\n  servers:\n"+serverYAML(t, "x", "1"), "partners: {x: {identity: 'spiffe://b.example/swpd'}}\n")
	r.reloaded()
	r.eventually("the end of the server", func() bool { return len(r.status().Departing) == 0 })
	result, err := s.ask(t, mcpmap.Call{Target: "x", Session: session, Octets: []byte(askPID)})
	if err != nil || result.Status != 404 {
		t.Errorf("the session: %+v, %v", result, err)
	}
}

func TestToolsFollowTheirServers(t *testing.T) {
	r := start(t, "mcp:\n  servers:\n"+serverYAML(t, "one", "1"))
	s := r.mustDial(r.addrs[0])
	if got := s.tools(t); !slices.Equal(got, []string{"one/pid", "one/say"}) {
		t.Errorf("tools %v", got)
	}
	r.rewrite("    one:\n", "    two:\n")
	r.rewrite("mcp:\n", "tooldisc: {tools: [{tool_id: one/x, version: '1', schema_ref: 'urn:x'}]}\nmcp:\n")
	r.reloaded()
	if got := s.tools(t); !slices.Equal(got, []string{"one/x", "two/pid", "two/say"}) {
		t.Errorf("tools %v", got)
	}
	r.eventually("the end of the server", func() bool { return len(r.status().Departing) == 0 })
}
