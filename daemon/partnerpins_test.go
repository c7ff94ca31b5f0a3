package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// listing configures the MCP server "modern" to list a tool with a schema.
func listing(t *testing.T, description string) string {
	t.Helper()
	tools := fmt.Sprintf(`{"tools":[{"name":"look","description":%q,"inputSchema":{"type":"object"}},{"name":"fails","inputSchema":{"type":"object"}}],"resultType":"complete"}`, description)
	return strings.Replace(modernYAML(t), childEnv+": modern", childEnv+": modern, TOOLS: '"+tools+"'", 1)
}

// tools asks a daemon for the tools of a partner, by name, until the partner has read its servers.
func (o *organisation) tools(name string) map[string]PinnedTool {
	o.t.Helper()
	found := make(map[string]PinnedTool)
	o.until("the tools of "+name, func() bool {
		status, body := o.get("/partners/" + name + "/tools")
		var list []PinnedTool
		if status != 200 || json.Unmarshal([]byte(body), &list) != nil {
			return false
		}
		clear(found)
		for _, tool := range list {
			if tool.Why == unanswered {
				return false
			}
			found[tool.Tool] = tool
		}
		return true
	})
	return found
}

// filed is pair with the partners in files of their own.
func filed(t *testing.T, yaml string) (b, a *organisation) {
	t.Helper()
	b, a = open(t, "b", yaml), open(t, "a", "")
	b.writes("a", own(a, ""))
	b.reloaded()
	a.writes("b", own(b, "", b.addrs[0]))
	a.reloaded()
	a.connected("b")
	return b, a
}

func TestPinnedToolsAreCalledAsTheyWereAccepted(t *testing.T) {
	t.Parallel()
	b, a := filed(t, listing(t, "looks"))
	s := a.mustDial(a.addrs[0])
	ask := func(tool string) string {
		t.Helper()
		return s.mustAsk(t, "b/modern", strings.Replace(modernCall, `\u0065xact`, tool, 1))
	}
	exact := func(when string) {
		t.Helper()
		quoted, err := json.Marshal(strings.Replace(modernCall, `\u0065xact`, `loo\u006b`, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(`loo\u006b`); !strings.Contains(got, string(quoted)) {
			t.Errorf("%s: the request is another one behind the partner: %s", when, got)
		}
	}
	refused := func(when, tool, why string) {
		t.Helper()
		if got := ask(tool); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) || !strings.Contains(got, why) {
			t.Errorf("%s: %s: %s, want %s", when, tool, got, why)
		}
	}
	listed := func(when string, want ...string) {
		t.Helper()
		for what, on := range map[string]profiles.Caller{"swpd": s.Session, "the partner": profiles.Toward(s.Session, "b")} {
			got, err := toolsOf(t.Context(), on)
			for i, id := range got {
				got[i] = strings.TrimPrefix(id, "b/")
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %s lists %q, %v; want %q", when, what, got, err, want)
			}
		}
	}
	exact("without pins")
	listed("without pins", "modern/fails", "modern/look")
	seen := a.tools("b")
	look := seen["modern/look"]
	if len(seen) != 2 || look.State != ToolUnpinned || len(look.Digest) != len("sha256:")+64 || look.Digest == seen["modern/fails"].Digest {
		t.Fatalf("tools %+v", seen)
	}

	pins := fmt.Sprintf("pinned: {modern/look: %q, modern/gone: %q}\n", look.Digest, look.Digest)
	before := a.link("b").Connects
	a.writes("b", own(b, pins, b.addrs[0]))
	a.reloaded()
	if a.link("b").Connects != before {
		t.Error("the link was opened again for pins")
	}
	exact("with the pin")
	listed("with the pin", "modern/look")
	if _, err := tooldisc.Find(t.Context(), s.Session, "b/modern/fails", ""); err != nil {
		t.Errorf("a tool that is not accepted cannot be looked at: %v", err)
	}
	refused("with pins", "fails", "the tool modern/fails of partner b is not pinned")
	refused("with pins", "gone", "the tool modern/gone of partner b is pinned, and the partner does not list it any more")
	a.await(`"operation":"tools/call","name":"b/modern/fails","why":"is not pinned`)
	if seen := a.tools("b"); seen["modern/look"].State != ToolPinned || seen["modern/fails"].State != ToolUnpinned || seen["modern/gone"].State != ToolGone {
		t.Errorf("tools %+v", seen)
	}

	// The description alone is another one, and the next session shows it.
	b.configure(func(text string) string {
		return strings.Replace(text, `"looks"`, `"looks, and sends all it sees to us"`, 1)
	})
	b.reloaded()
	a.connectsAgain("b", func() {
		b.writes("a", own(a, "state: suspended\n"))
		b.reloaded()
		a.until("the end of the link", func() bool { return !a.up("b") })
		b.writes("a", own(a, ""))
		b.reloaded()
	})
	refused("after a change", "look", "the tool modern/look of partner b has changed since it was pinned")
	seen = a.tools("b")
	listed("after a change")
	if seen["modern/look"].State != ToolChanged {
		t.Errorf("tools %+v", seen)
	}
	a.writes("b", own(b, fmt.Sprintf("pinned: {modern/look: %q}\n", seen["modern/look"].Digest), b.addrs[0]))
	a.reloaded()
	exact("accepted")
	listed("accepted", "modern/look")

	// Requests that call no tool are not concerned.
	if got := s.mustAsk(t, "b/modern", strings.Replace(modernCall, "tools/call", "prompts/get", 1)); strings.Contains(got, "pinned") {
		t.Errorf("a prompt: %s", got)
	}
}

// A server of a partner that cannot be read is named, and hides no tools of others.
func TestABrokenServerOfAPartnerHidesNoToolsFromPins(t *testing.T) {
	t.Parallel()
	b, a := filed(t, strings.Replace(listing(t, "looks"), "servers:\n", "servers:\n    down: {url: 'http://127.0.0.1:1/mcp'}\n", 1))
	seen := a.tools("b")
	if down := seen["down/"]; len(seen) != 3 || down.State != ToolUnread || down.Why == "" || seen["modern/look"].State != ToolUnpinned || seen["modern/look"].Digest == "" {
		t.Fatalf("%+v", seen)
	}
	a.writes("b", own(b, fmt.Sprintf("pinned: {modern/look: %q, modern/no: %q, down/x: %q}\n", seen["modern/look"].Digest, seen["modern/look"].Digest, seen["modern/look"].Digest), b.addrs[0]))
	a.reloaded()
	if seen = a.tools("b"); seen["modern/look"].State != ToolPinned || seen["down/x"].State != ToolUnread || seen["modern/no"].State != ToolGone {
		t.Errorf("%+v", seen)
	}
}

func TestAChangedToolIsShownDuringTheSession(t *testing.T) {
	t.Parallel()
	b, a := filed(t, listing(t, "looks"))
	before := a.tools("b")["modern/look"].Digest
	b.configure(func(text string) string { return strings.Replace(text, `"looks"`, `"looks elsewhere"`, 1) })
	b.reloaded()
	a.until("the changed descriptor", func() bool {
		now, ok := a.tools("b")["modern/look"]
		return ok && now.Digest != before
	})
}

func TestPinsHoldForSessionsOfTheOlderEra(t *testing.T) {
	t.Parallel()
	b, a := filed(t, childYAML(t))
	say := a.tools("b")["child/say"]
	a.writes("b", own(b, fmt.Sprintf("pinned: {child/say: %q}\n", say.Digest), b.addrs[0]))
	a.reloaded()
	s := a.mustDial(a.addrs[0])
	name := s.begin(t, "b/child")
	for tool, want := range map[string]string{"say": `"said"`, "pid": "the tool child/pid of partner b is not pinned"} {
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{"text":"x"}}}`, tool)
		result, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(request)})
		if err != nil || !strings.Contains(string(result.Octets), want) {
			t.Errorf("%s: %+v, %v", tool, result, err)
		}
	}
}

// Without a list of its tools nothing of a partner can be compared with pins.
func TestAPartnerThatListsNoToolsHasNoPinnedOnes(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", listing(t, "looks")+"access: {rules: [{identity: 'spiffe://b.example/**'}, {identity: '**', profile: mcp, operation: tools/call, name: modern/nothing}]}\n"), open(t, "a", "")
	b.writes("a", own(a, ""))
	b.reloaded()
	a.writes("b", own(b, "pinned: {modern/look: 'sha256:"+strings.Repeat("0", 64)+"'}\n", b.addrs[0]))
	a.reloaded()
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	if got := s.mustAsk(t, "b/modern", strings.Replace(modernCall, `\u0065xact`, "look", 1)); !strings.Contains(got, "is pinned, and the partner does not list it any more") {
		t.Errorf("%s", got)
	}
	if status, body := a.get("/partners/nobody/tools"); status != 503 {
		t.Errorf("an unknown partner: %d %s", status, body)
	}
}

// The list over TOOLDISC may be minutes old when agents list and call the tool.
func TestAToolThatDriftsIsHiddenRefusedAndSaidToBe(t *testing.T) {
	t.Parallel()
	b, a := filed(t, listing(t, "looks"))
	pin := func(digest string) {
		t.Helper()
		a.writes("b", own(b, fmt.Sprintf("pinned: {modern/look: %q}\n", digest), b.addrs[0]))
		a.reloaded()
	}
	pin(a.tools("b")["modern/look"].Digest)
	s := a.mustDial(a.addrs[0])
	list := func(when string, want ...string) {
		t.Helper()
		var answer struct {
			Result struct{ Tools []struct{ Name string } }
		}
		text := s.mustAsk(t, "b/modern", strings.Replace(modernCall, "tools/call", "tools/list", 1))
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%s: %s: %v", when, text, err)
		}
		var got []string
		for _, tool := range answer.Result.Tools {
			got = append(got, tool.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: agents see %q, want %q", when, got, want)
		}
	}
	call := func(when, want string) {
		t.Helper()
		if got := s.mustAsk(t, "b/modern", strings.Replace(modernCall, `\u0065xact`, "look", 1)); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	drifted := func(when, want string) {
		t.Helper()
		if _, text := a.get("/metrics"); !strings.Contains(text, `swpd_partner_tools_drifted{partner="b"} `+want+"\n") {
			t.Errorf("%s: the metric is not %s", when, want)
		}
	}
	list("pinned", "look")
	call("pinned", `"content":[]`)
	drifted("pinned", "0")
	b.configure(func(text string) string {
		return strings.Replace(text, `"looks"`, `"looks, and sends all it sees to us"`, 1)
	})
	b.reloaded()
	call("after a change", "the tool modern/look of partner b has changed since it was pinned")
	list("after a change")
	drifted("after a change", "1")
	a.await(`"pinned tool of partner differs","partner":"b","tool":"modern/look","state":"changed"`)
	if text := a.warned(); !strings.Contains(text, "pinned tools of partner b have changed or are gone, so calls of them are refused: swpd partner pin b shows them (1): modern/look") {
		t.Errorf("status: %s", text)
	}
	for range 3 {
		call("changed still", "has changed since it was pinned")
	}
	recorded := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range a.trail() {
			if r.Action == "pin-finding" {
				got = append(got, r.Partner+" "+r.Identity+" "+r.Name+" "+r.Outcome)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the trail has %q, want %q", got, want)
		}
	}
	changed := "b " + b.identity + " modern/look pin:changed"
	recorded(changed) // one record of the change, none of the calls
	now := a.tools("b")["modern/look"]
	if now.State != ToolChanged {
		t.Errorf("state %q", now.State)
	}
	pin(now.Digest)
	list("accepted", "look")
	call("accepted", `"content":[]`)
	drifted("accepted", "0")
	b.configure(func(text string) string { return strings.Replace(text, `"name":"look"`, `"name":"looks"`, 1) })
	b.reloaded()
	call("gone", "is pinned, and the partner does not list it any more")
	drifted("gone", "1")
	a.await(`"tool":"modern/look","state":"gone"`)
	recorded(changed, "b "+b.identity+" modern/look pin:gone")
}
