package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/internal/operator"
	"github.com/slimwire/swp/daemon/internal/page"
)

// localToken is the token in the data directory.
func (r *running) localToken() string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "data", AdminToken))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// act asks for an action, and returns the status and the text of the answer.
func (r *running) act(token, action string, on operator.Target, header ...string) (int, string) {
	r.t.Helper()
	body, err := json.Marshal(on)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.admin+"/actions/"+action, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	own := &http.Transport{}
	if token == "" {
		own = r.socket()
	}
	defer own.CloseIdleConnections()
	resp, err := (&http.Client{Transport: own}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var result operator.Result
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, strings.TrimSpace(string(text))
	}
	if err := json.Unmarshal(text, &result); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, result.Said
}

// mustAct does an action with the local token.
func (r *running) mustAct(action string, on operator.Target) {
	r.t.Helper()
	if status, said := r.act(r.localToken(), action, on); status != http.StatusOK {
		r.t.Fatalf("%s of %v: %d %s", action, on, status, said)
	}
}

// stored returns the rows of a kind; query is name, value, name, value, ….
func (r *running) stored(kind string, query ...string) []*operator.Row {
	r.t.Helper()
	return r.page(kind, query...).Rows
}

// page returns a page of rows.
func (r *running) page(kind string, query ...string) (page operator.Rows) {
	r.t.Helper()
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	status, body := r.get("/store/" + kind + "?" + values.Encode())
	if err := json.Unmarshal([]byte(body), &page); status != http.StatusOK || err != nil {
		r.t.Fatalf("%s: %d %s, %v", kind, status, body, err)
	}
	return page
}

// operators is a configuration with an operator alice, whose token is "secret".
func operators(address string) string {
	return fmt.Sprintf("{address: '%s', actions: {alice: {tokens: [%x]}}}", address, sha256.Sum256([]byte("secret")))
}

// allow makes alice an operator, by a reload.
func (r *running) allow() {
	r.t.Helper()
	file := filepath.Join(r.dir, "swpd.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("admin: 127.0.0.1:0"), []byte("admin: "+operators("127.0.0.1:0")), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.mustAct("reload", operator.Target{})
}

func TestActionsAreOffUntilTheConfigurationNamesAnOperator(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	if status, said := r.act("", "reload", operator.Target{}); status != http.StatusForbidden || !strings.Contains(said, "actions are off") {
		t.Errorf("without operators: %d %s", status, said)
	}
	if status, said := r.act("secret", "reload", operator.Target{}); status != http.StatusUnauthorized {
		t.Errorf("with a token that nobody has: %d %s", status, said)
	}
	r.allow()
	if status, said := r.act("", "reload", operator.Target{}); status != http.StatusUnauthorized || !strings.Contains(said, "needs the token") {
		t.Errorf("without a token: %d %s", status, said)
	}
	if status, said := r.act("secret", "reload", operator.Target{}); status != http.StatusOK || !strings.Contains(said, "nothing is new") {
		t.Errorf("with the token: %d %s", status, said)
	}
}

func TestAnActionIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	r.allow()
	for name, tt := range map[string]struct {
		token, action string
		on            operator.Target
		header        []string
		status        int
		said          string
	}{
		"a wrong token":            {"wrong", "reload", operator.Target{}, nil, 401, "a session or a token"},
		"another origin":           {"secret", "reload", operator.Target{}, []string{"Origin", "http://evil.example"}, 403, "cross-origin"},
		"an opaque origin":         {"secret", "reload", operator.Target{}, []string{"Origin", "null"}, 403, "cross-origin"},
		"a page of another site":   {"secret", "reload", operator.Target{}, []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
		"another port":             {"secret", "reload", operator.Target{}, []string{"Origin", "http://127.0.0.1:1"}, 403, "cross-origin"},
		"DNS rebinding":            {"secret", "reload", operator.Target{}, []string{"Host", "evil.example", "Origin", "http://evil.example"}, 403, "for this machine"},
		"the token in a cookie":    {"", "reload", operator.Target{}, []string{"Cookie", "token=secret"}, 401, "needs the token"},
		"no such action":           {"secret", "explode", operator.Target{}, nil, 404, "no action"},
		"a target for none":        {"secret", "reload", operator.Target{Owner: "a", ID: "b"}, nil, 400, "no owner"},
		"no target":                {"secret", "tasks.cancel", operator.Target{}, nil, 400, "needs the owner"},
		"a session that is gone":   {"secret", "sessions.end", operator.Target{Owner: "spiffe://a", ID: "1 at x"}, nil, 404, "no such session"},
		"a task that is none":      {"secret", "tasks.cancel", operator.Target{Owner: "spiffe://a", ID: "t"}, nil, 404, "no such task"},
		"a delivery that is none":  {"secret", "dead.drop", operator.Target{Owner: "spiffe://a", ID: "00"}, nil, 404, "no such delivery"},
		"an id that is none":       {"secret", "dead.retry", operator.Target{Owner: "spiffe://a", ID: "xyz"}, nil, 409, "invalid byte"},
		"an artifact that is none": {"secret", "artifacts.delete", operator.Target{Owner: "spiffe://a", ID: "x"}, nil, 404, "no such artifact"},
		"a state that is none":     {"secret", "state.delete", operator.Target{Owner: "spiffe://a", ID: strings.Repeat("00", 32)}, nil, 404, "no such state"},
		"a stream that is none":    {"secret", "streams.forget", operator.Target{Owner: "spiffe://a", ID: "x"}, nil, 404, "no such named"},
		"more than a body may be":  {"secret", "tasks.cancel", operator.Target{Owner: strings.Repeat("a", 17<<10), ID: "t"}, nil, 400, "too large"},
	} {
		if status, said := r.act(tt.token, tt.action, tt.on, tt.header...); status != tt.status || !strings.Contains(said, tt.said) {
			t.Errorf("%s: %d %s; want %d %s", name, status, said, tt.status, tt.said)
		}
	}
	if status, body := r.get("/actions/reload?token=secret"); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", status, body)
	}
	if status, said := r.act("secret", "reload", operator.Target{}, "Origin", r.admin, "Sec-Fetch-Site", "same-origin"); status != http.StatusOK {
		t.Errorf("from the page: %d %s", status, said)
	}
}

func TestAnActionIsInTheLogAndInTheAuditTrail(t *testing.T) {
	t.Parallel()
	r := start(t, "audit: {exchanges: denials}\n")
	r.allow()
	if status, said := r.act("secret", "tasks.cancel", operator.Target{Owner: "spiffe://a", ID: "t"}); status != http.StatusNotFound {
		t.Fatal(status, said)
	}
	if status, said := r.act("secret", "reload", operator.Target{}); status != http.StatusOK {
		t.Fatal(status, said)
	}
	for _, want := range []string{`"operator":"alice","action":"tasks.cancel","target":"t of spiffe://a"`, `"operator":"alice","action":"reload"`, `"operator":"local","action":"reload"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	_, body := r.get("/audit?profile=admin&identity=admin:alice")
	var found page.Found
	if err := json.Unmarshal([]byte(body), &found); err != nil || len(found.Records) != 2 {
		t.Fatalf("records %s, %v", body, err)
	}
	for i, want := range []string{`"swp.operation":"reload"`, `"swp.name":"t of spiffe://a"`} {
		if !strings.Contains(string(found.Records[i]), want) {
			t.Errorf("record %s, want %s", found.Records[i], want)
		}
	}
	if strings.Contains(string(found.Records[0]), `"swp.name":"of"`) {
		t.Errorf("record %s, want no target", found.Records[0])
	}
	if status, body := r.get("/audit?profile=admin&profile=mcp"); status == http.StatusOK || !strings.Contains(body, "want it once") {
		t.Errorf("a field twice: %d %s", status, body)
	}
	if status, body := r.get("/audit?profile=admin&outcome=failed"); status != http.StatusOK || !strings.Contains(body, "no such task") {
		t.Errorf("the failed action: %d %s", status, body)
	}
	if strings.Contains(r.log.String(), "secret") || strings.Contains(body, "secret") {
		t.Error("the token is written somewhere")
	}
}

func TestARemovedOperatorActsNoMore(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	r.allow()
	file := filepath.Join(r.dir, "swpd.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte(operators("127.0.0.1:0")), []byte("127.0.0.1:0"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, said := r.act("secret", "reload", operator.Target{}); status != http.StatusOK || !strings.Contains(said, "admin.actions.alice") {
		t.Fatalf("the last action: %d %s", status, said)
	}
	if status, said := r.act("secret", "reload", operator.Target{}); status != http.StatusUnauthorized {
		t.Errorf("after the removal: %d %s", status, said)
	}
}

func TestAnOperatorEndsASession(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	peer := r.mustDial(r.addrs[0])
	var snapshot page.Snapshot
	if err := json.Unmarshal([]byte(r.event()), &snapshot); err != nil || len(snapshot.Sessions) != 1 {
		t.Fatalf("%+v, %v", snapshot.Sessions, err)
	}
	one := snapshot.Sessions[0]
	r.mustAct("sessions.end", operator.Target{Owner: one.Identity, ID: one.ID})
	select {
	case <-peer.Session.Context().Done():
	case <-t.Context().Done():
		t.Error("the session is still there")
	}
	// The peer can see the end a moment earlier than the list of sessions.
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		status, said := r.act(r.localToken(), "sessions.end", operator.Target{Owner: one.Identity, ID: one.ID})
		if status == http.StatusNotFound {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("again: %d %s", status, said)
		}
	}
}

// event returns the next event of the page.
func (r *running) event() string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.admin+"/live", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: r.socket()}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 1<<20)
	n, err := io.ReadAtLeast(resp.Body, buf, 1)
	for err == nil && !bytes.Contains(buf[:n], []byte("\n\n")) {
		var more int
		more, err = resp.Body.Read(buf[n:])
		n += more
	}
	if err != nil {
		r.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(buf[:n]), "\n\n")
	return strings.TrimPrefix(line, "data: ")
}

func TestAnOperatorDrains(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	r.mustAct("drain", operator.Target{})
	<-r.done
	if r.err != nil || !strings.Contains(r.log.String(), `"action":"drain"`) {
		t.Errorf("%v", r.err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "data", AdminToken)); !os.IsNotExist(err) {
		t.Errorf("the token is still there: %v", err)
	}
}
