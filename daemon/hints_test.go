package daemon

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/rpc"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport/endpoint"
)

// hintedSession is a connection of somebody who hears of violations.
func (r *running) hintedSession(address string) (*session, <-chan string) {
	r.t.Helper()
	return r.hintedSessionOf(address, devpki.Client(filepath.Join(r.dir, "pki")))
}

func (r *running) hintedSessionOf(address string, f devpki.Files) (*session, <-chan string) {
	r.t.Helper()
	told := make(chan string, 16)
	set, err := all.New(all.Options{Hints: policyhint.Options{Told: func(_ *profiles.Peer, v *policyhint.ViolationError) {
		told <- v.Key + " " + v.Scope + " " + v.Reason
	}}})
	if err != nil {
		r.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := connect(r.t, address, f)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return &session{ep.Attach(conn), set.MCP, set.A2A, set.Relay}, told
}

// put sets hints, written "MUST region=eu scope".
func (s *session) put(t *testing.T, on profiles.Caller, texts ...string) {
	t.Helper()
	var hints []profiles.Hint
	for _, text := range texts {
		f := strings.SplitN(text, " ", 3)
		mode, _ := profiles.ParseMode(f[0])
		key, value, _ := strings.Cut(f[1], "=")
		h := profiles.Hint{Key: key, Value: value, Mode: mode}
		if len(f) > 2 {
			h.Scope = f[2]
		}
		hints = append(hints, h)
	}
	if err := policyhint.Put(t.Context(), on, hints...); err != nil {
		t.Fatal(err)
	}
}

// heard returns what was told until now.
func heard(t *testing.T, s *session, told <-chan string) string {
	t.Helper()
	s.sync(t) // what came before the answer of an exchange came before this
	var list []string
	for {
		select {
		case one := <-told:
			list = append(list, one)
		default:
			return strings.Join(list, ", ")
		}
	}
}

// hintsYAML has one of each kind of target, of which region eu-west-1 and no
// external network are declared, and one more of which nothing is.
func hintsYAML(t *testing.T, url string) string {
	const declared = "hints: {external_network: false, region: eu-west-1, cost: 0.02 EUR}"
	return strings.Replace(childYAML(t), "      command:", "      "+declared+"\n      command:", 1) +
		strings.Replace(workerYAML(`echo "$SWP_POLICY"`, ", "+declared), "workers: {", "workers: {two: {kinds: bare, command: 'true'}, ", 1) +
		fmt.Sprintf("rpc: {backends: {demo: {url: '%s', methods: demo.echo, %s}, bare: {url: '%s', methods: demo.bare}}}\n", url, declared, url)
}

func TestAPolicyHintStopsWhatWouldBreakIt(t *testing.T) {
	asked := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Swp-Policy")
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	r := start(t, hintsYAML(t, server.URL))
	for i, address := range r.addrs[:2] {
		s, told := r.hintedSession(address)
		// What is declared lets everything through, and what is no MUST goes along.
		s.put(t, s.Session, "MUST region=eu", "MUST no_external_network=true", "SHOULD no_pii=true", "MAY colour=red")
		const along = "region=eu;MUST, no_external_network=true;MUST, no_pii=true;SHOULD, colour=red;MAY"
		if got := s.tool(t, "", "say", `{}`); strings.Contains(got, "ERR_") {
			t.Errorf("the tool: %s", got)
		}
		if got, err := rpc.Call(t.Context(), s.Session, "demo.echo", []byte("x")); err != nil || string(got) != "x" {
			t.Errorf("the method: %q, %v", got, err)
		}
		if got := <-asked; got != "/demo.echo "+along {
			t.Errorf("the back end was asked %q", got)
		}
		if messages, result := s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{}); !result.OK || strings.Join(messages, "|") != along {
			t.Errorf("the task: %q, %+v", messages, result)
		}
		if got := heard(t, s, told); got != "" {
			t.Errorf("told %q", got)
		}
		// What is not declared does not.
		if _, err := rpc.Call(t.Context(), s.Session, "demo.bare", nil); !isRPC(err, "unauthorized") {
			t.Errorf("a method of which nothing is declared: %v", err)
		}
		if _, err := (rpc.Invocation{Method: "demo.bare", IdempotencyKey: fmt.Sprint(i)}).Call(t.Context(), s.Session); !isRPC(err, "unauthorized") {
			t.Errorf("under a key: %v", err)
		}
		if _, result := s.hand(t, &a2a.Task{Kind: "bare"}, a2a.SendOptions{}); result.OK || !strings.Contains(result.Reason, "UNDECLARED") {
			t.Errorf("a task of which nothing is declared: %+v", result)
		}
		const undeclared = " connection UNDECLARED"
		if got, want := heard(t, s, told), "region"+undeclared+", region"+undeclared+", region"+undeclared; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		// Nor what contradicts.
		s.put(t, s.Session, "MUST region=us target:child", "MUST cost_limit=0.01 target:k")
		if got := s.tool(t, "", "say", `{}`); !strings.Contains(got, "ERR_SECURITY_POLICY") || !strings.Contains(got, "UNSATISFIED") {
			t.Errorf("the tool elsewhere: %s", got)
		}
		if _, result := s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{}); result.OK || !strings.Contains(result.Reason, "cost_limit") {
			t.Errorf("the task without a price in that unit: %+v", result)
		}
		if got, want := heard(t, s, told), "region target:child UNSATISFIED, cost_limit target:k UNDECLARED"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		// Built-in methods, and other connections, are as before.
		if err := echo(t, s); err != nil {
			t.Error(err)
		}
		if got := r.mustDial(address).tool(t, "", "say", `{}`); strings.Contains(got, "ERR_") {
			t.Errorf("another connection: %s", got)
		}
	}
	if n := len(asked); n != 0 {
		t.Errorf("the back end was asked %d times more", n)
	}
}

func TestAPolicyHintForOneTaskIsForNoOther(t *testing.T) {
	r := start(t, workerYAML(`echo "$SWP_POLICY"`, ""))
	s, told := r.hintedSession(r.addrs[0])
	s.put(t, s.Session, "MUST no_pii=true task:0a0b", "SHOULD region=eu task:0a0c")
	if _, result := s.hand(t, &a2a.Task{ID: []byte{10, 11}, Kind: "k"}, a2a.SendOptions{}); result.OK {
		t.Errorf("%+v", result)
	}
	if messages, result := s.hand(t, &a2a.Task{ID: []byte{10, 12}, Kind: "k"}, a2a.SendOptions{}); !result.OK || strings.Join(messages, "|") != "region=eu;SHOULD" {
		t.Errorf("%q, %+v", messages, result)
	}
	if messages, result := s.hand(t, &a2a.Task{ID: []byte{10, 13}, Kind: "k"}, a2a.SendOptions{}); !result.OK || strings.Join(messages, "|") != "" {
		t.Errorf("%q, %+v", messages, result)
	}
	if got := heard(t, s, told); got != "no_pii task:0a0b UNDECLARED" {
		t.Errorf("told %q", got)
	}
}

// The others are in TestEveryProfileAsksTheRules: the log has so many lines a
// second and no more.
func TestStatesAndHintsAskTheRules(t *testing.T) {
	r := start(t, "access: {}\n")
	s := r.mustDial(r.addrs[2])
	id := stateprofile.IDOf([]byte("a"))
	s.send(t, stateprofile.ProfileID, stateprofile.TypePut, (&stateprofile.Put{StateID: id[:], Blob: []byte("a")}).Append(nil))
	_, _ = stateprofile.Fetch(t.Context(), s.Session, id)
	s.send(t, stateprofile.ProfileID, stateprofile.TypeDelta, (&stateprofile.Delta{StateID: id[:], Delta: []byte("d")}).Append(nil))
	_ = policyhint.Put(t.Context(), s.Session)
	s.sync(t)
	name := hex.EncodeToString(id[:])
	for _, want := range []string{
		`"profile":"state","operation":"put","name":"` + name + `"`,
		`"profile":"state","operation":"get","name":"` + name + `"`,
		`"profile":"state","operation":"delta","name":"` + name + `"`,
		`"profile":"policyhint","operation":"set","name":""`,
	} {
		if n := strings.Count(r.log.String(), `"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"loopback",`+want); n != 1 {
			t.Errorf("%d audit events with %s, want 1\n%s", n, want, r.log)
		}
	}
}
