package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bearer is one who calls agents over HTTP, with a token of their own.
type bearer struct {
	t     *testing.T
	token string
}

// callersYAML configures an HTTP front for callers, whose tokens are their names.
func callersYAML(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%s: {tokens: [%x]}", name, sha256.Sum256([]byte(name))))
	}
	return "http: {address: '127.0.0.1:0', callers: {" + strings.Join(list, ", ") + "}}\n"
}

// ask makes a call of JSON-RPC, and returns the octets of the answer or of the stream.
func (c bearer) ask(url, method, params string) string {
	c.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	r, err := http.NewRequestWithContext(within(c.t), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	octets, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(octets)
}

// taskIn returns the id of the task in an answer.
func taskIn(t *testing.T, answer string) string {
	t.Helper()
	var found struct {
		Result struct{ Task struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(answer), &found); err != nil || found.Result.Task.ID == "" {
		t.Fatalf("no task in %s", answer)
	}
	return found.Result.Task.ID
}

// Two callers of one swpd are one identity to the partner behind which the agent is.
// Of each other's tasks they learn nothing, before and after a restart of their swpd.
func TestPR04CallersDoNotReachEachOthersTasksBehindAPartner(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	agent := &sdkAgent{steps: make(chan struct{}, 8)}
	url := serveAgents(t, agent)
	far, near := prepared(t, "--name", "spiffe://far.example/swpd"), prepared(t, "--name", "spiffe://near.example/swpd")
	trust := func(n *node) string { return fmt.Sprintf("trust: [%q]", filepath.Join(n.dir, "pki", "ca.crt")) }
	far.more = fmt.Sprintf("a2a: {agents: {worker: {url: %q, binding: jsonrpc}}}\n", url+"/worker") +
		"partners:\n  near: {identity: spiffe://near.example/swpd, " + trust(near) + "}\n"
	far.untilEnd(t)
	near.more = fmt.Sprintf("partners:\n  far: {identity: spiffe://far.example/swpd, %s, addresses: [%q]}\n", trust(far), far.tls) +
		callersYAML("one", "two")
	near.launch(t)
	one, two := bearer{t, "one"}, bearer{t, "two"}
	const work = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"work"}]},"configuration":{"returnImmediately":true}}`
	at := near.http + "/a2a/far/worker"
	mine, theirs := taskIn(t, one.ask(at, "SendMessage", work)), taskIn(t, two.ask(at, "SendMessage", work))
	alone := func() {
		t.Helper()
		at := near.http + "/a2a/far/worker"
		for method, params := range map[string]string{
			"GetTask": `{"id":%q}`, "CancelTask": `{"id":%q}`, "SubscribeToTask": `{"id":%q}`,
			"CreateTaskPushNotificationConfig": `{"taskId":%q,"id":"c","url":"https://example.com/hook"}`,
			"GetTaskPushNotificationConfig":    `{"taskId":%q,"id":"c"}`, "ListTaskPushNotificationConfigs": `{"taskId":%q}`,
			"DeleteTaskPushNotificationConfig": `{"taskId":%q,"id":"c"}`,
			"SendMessage":                      `{"message":{"messageId":"n","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":%q}}`,
			"SendStreamingMessage":             `{"message":{"messageId":"n","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":[%q]}}`,
		} {
			foreign, unknown := two.ask(at, method, fmt.Sprintf(params, mine)), two.ask(at, method, fmt.Sprintf(params, "no-such-task"))
			if foreign != unknown || !strings.Contains(foreign, "-32001") {
				t.Errorf("%s of a task of another caller: %s\nof none: %s", method, foreign, unknown)
			}
		}
		for c, id := range map[bearer]string{one: mine, two: theirs} {
			if got := c.ask(at, "GetTask", fmt.Sprintf(`{"id":%q}`, id)); !strings.Contains(got, `"result"`) || !strings.Contains(got, id) {
				t.Errorf("own task: %s", got)
			}
			list := c.ask(at, "ListTasks", `{}`)
			if strings.Contains(list, mine) != (id == mine) || strings.Contains(list, theirs) != (id == theirs) {
				t.Errorf("list of %s: %s", id, list)
			}
		}
	}
	alone()
	near.kill(t)
	near.untilEnd(t)
	alone()
	if got := one.ask(near.http+"/a2a/far/worker", "CancelTask", fmt.Sprintf(`{"id":%q}`, mine)); !strings.Contains(got, "TASK_STATE_CANCELED") {
		t.Errorf("%s", got)
	}
}

// The question that a hint has for the operator of a partner is about the caller whom the partner denies, as the
// partner knows that caller, so its answer is no.
func TestTheHintAboutADenialByAPartnerNamesTheCaller(t *testing.T) {
	t.Parallel()
	for _, tell := range []string{"pseudonym", "caller"} {
		t.Run(tell, func(t *testing.T) {
			t.Parallel()
			far, near := prepared(t, "--name", "spiffe://far.example/swpd"), prepared(t, "--name", "spiffe://near.example/swpd")
			trust := func(n *node) string { return fmt.Sprintf("trust: [%q]", filepath.Join(n.dir, "pki", "ca.crt")) }
			far.access = "access: {rules: [{identity: '**'}], deny: [{identity: spiffe://near.example/swpd, for: ['spiffe://near.example/*', 'pseudonym:*']}]}"
			far.more = "partners:\n  near: {identity: spiffe://near.example/swpd, " + trust(near) + "}\n"
			far.untilEnd(t)
			near.more = fmt.Sprintf("partners:\n  far: {identity: spiffe://far.example/swpd, %s, addresses: [%q], tell: %s}\n", trust(far), far.tls, tell)
			near.untilEnd(t)
			for name, address := range near.transports() {
				out, err := near.client("rpc", "call", address+"/far", "orders.create").CombinedOutput()
				_, hint, found := strings.Cut(string(out), "with: swpd ")
				hint, _, _ = strings.Cut(hint, "\n")
				if err == nil || !found || !strings.Contains(hint, "--for "+map[string]string{"caller": "spiffe://near.example/", "pseudonym": "pseudonym:"}[tell]) {
					t.Fatalf("%s: %v, %s", name, err, out)
				}
				check := exec.Command(far.bin+"/swpd", strings.Fields(strings.Replace(hint, "FILE", filepath.Join(far.dir, "swpd.yaml"), 1))...)
				if answer, err := check.CombinedOutput(); err == nil || !strings.Contains(string(answer), "the identity is denied everything: access.deny") {
					t.Errorf("%s: swpd %s: %v, %s", name, hint, err, answer)
				}
			}
		})
	}
}
