package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/config"
)

// asking sends a modern request to a front, with the headers that it needs.
func (o *organisation) asking(path, method, name, params string, more ...string) string {
	o.t.Helper()
	headers := append([]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}, more...)
	if name != "" {
		headers = append(headers, "Mcp-Name: "+name)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, method, params)
	_, _, answer := post(o.t, o.front()+"/mcp/"+path, body, headers...)
	return answer
}

// The server behind the partner sees one client; the callers of the front stay apart.
func TestGW05ATaskBehindAPartnerBelongsToOneCaller(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", modernYAML(t)), open(t, "a", httpYAML)
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	const alice = "Authorization: Bearer secret-a"
	made := a.asking("b/modern", "tools/call", "task", `"name":"task"`, alice)
	var answer struct{ Result struct{ TaskID string } }
	if err := json.Unmarshal([]byte(made), &answer); err != nil || answer.Result.TaskID == "" {
		t.Fatalf("no task: %s", made)
	}
	task := answer.Result.TaskID
	about := fmt.Sprintf(`"taskId":%q`, task)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := a.asking("b/modern", method, task, about, alice); !strings.Contains(got, sayTool) {
			t.Errorf("%s of the owner: %s", method, got)
		}
		stolen, unknown := a.asking("b/modern", method, task, about), a.asking("b/modern", method, "task-x", `"taskId":"task-x"`)
		if stolen != unknown || !strings.Contains(stolen, `"code":-32602`) {
			t.Errorf("%s of another caller: %s, of an unknown task: %s", method, stolen, unknown)
		}
	}
	if got := a.asking("b/modern", "subscriptions/listen", "", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, task)); !strings.Contains(got, `"code":-32602`) {
		t.Errorf("another caller listens: %s", got)
	}
	if got := a.asking("b/modern", "tasks/get", "", about, alice); !strings.Contains(got, `"code":-32020`) {
		t.Errorf("without Mcp-Name: %s", got)
	}
	// At the partner the task is of this organisation, and of nobody there.
	s := b.mustDial(b.addrs[0])
	get := strings.Replace(strings.Replace(modernCall, "tools/call", "tasks/get", 1), `"name":"\u0065xact"`, about, 1)
	if got := s.mustAsk(t, "modern", get); !strings.Contains(got, `"code":-32602`) {
		t.Errorf("a caller of the partner: %s", got)
	}
}

// A right to call a tool includes the tasks that the tool starts, at each endpoint on the way; a partner
// gets it by an offer.
func TestACallerOfAToolMayAskAboutTheTaskThatItStarts(t *testing.T) {
	t.Parallel()
	offer, err := config.ParseOffer("mcp:modern/task")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := json.Marshal(offer)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, "b", modernYAML(t)+fmt.Sprintf("access: {rules: [%s]}\n", strings.Replace(string(rule), "{", `{"identity":"spiffe://a.example/swpd",`, 1)))
	a := open(t, "a", httpYAML+"access: {rules: [{identity: 'http:alice', profile: mcp, operation: tools/call, name: b/modern/task}]}\n")
	b.trusting("a", a)
	a.trusting("b", b, b.addrs[0])
	a.connected("b")
	const alice = "Authorization: Bearer secret-a"
	made := a.asking("b/modern", "tools/call", "task", `"name":"task"`, alice)
	var answer struct{ Result struct{ TaskID string } }
	if err := json.Unmarshal([]byte(made), &answer); err != nil || answer.Result.TaskID == "" {
		t.Fatalf("no task: %s", made)
	}
	about := fmt.Sprintf(`"taskId":%q`, answer.Result.TaskID)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := a.asking("b/modern", method, answer.Result.TaskID, about, alice); !strings.Contains(got, sayTool) {
			t.Errorf("%s: %s", method, got)
		}
	}
	if got := a.asking("b/modern", "tools/call", "say", `"name":"say"`, alice); !strings.Contains(got, "do not allow") {
		t.Errorf("another tool: %s", got)
	}
}
