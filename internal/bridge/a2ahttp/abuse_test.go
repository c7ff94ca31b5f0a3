package a2ahttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/effort"
)

// elsewhere is a server that nobody must reach.
func elsewhere(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was asked") }))
	t.Cleanup(s.Close)
	return s.URL
}

func TestGW08NothingLeadsToAnotherHost(t *testing.T) {
	other := elsewhere(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) {
			w.Header().Set("Location", other)
			w.WriteHeader(status)
		})
		for _, binding := range []Binding{JSONRPC, REST, ""} { // the card, too
			b := newBack(t, BackOptions{URL: agent.URL, Binding: binding})
			for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
				if _, _, err := b.run(taskFrom(alice, operation, `{}`)); reason(t, err) != "NO_ROUTE" || strings.Contains(octetsOf(err), "127.0.0.1") {
					t.Errorf("%d, %q: %s", status, binding, octetsOf(err))
				}
			}
		}
	}
}

// A server may take %2F for a slash, and then go up: the request would have the headers of the
// configuration.
func TestGW08NothingLeadsOutOfThePathOfTheAgent(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) { _, _ = w.Write([]byte(`{}`)) })
	b := newBack(t, BackOptions{URL: agent.URL + "/agents/one", Binding: REST})
	b.own(alice, "", "t")
	for _, value := range []string{".", "..", "../two", "a/../../two", "a/..", `..\\two`, `a\\..\\two`, "./a", "a/./b", "..//two", `a\u0000`, `a\r\nX: y`, `\u0085`} {
		for operation, input := range map[string]string{
			a2abinding.SendMessage:      `{"tenant":"` + value + `","message":{}}`,
			a2abinding.ListTasks:        `{"tenant":"` + value + `"}`,
			a2abinding.GetPushConfig:    `{"taskId":"t","id":"` + value + `"}`,
			a2abinding.DeletePushConfig: `{"taskId":"t","id":"` + value + `"}`,
		} {
			if _, _, err := b.run(taskFrom(alice, operation, input)); failure(t, err).Code != a2abinding.CodeInvalidParams {
				t.Errorf("%s %s: %s", operation, input, octetsOf(err))
			}
		}
	}
	if list := agent.asked(); len(list) != 0 {
		t.Errorf("%d requests have reached the agent, the first to %s", len(list), list[0].uri)
	}
	for _, value := range []string{"a/b", "...", "a..b/c", "..a", "a.", "größe"} {
		b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{"tenant":"`+value+`","message":{}}`))
	}
}

func TestGW08ACardLeadsToNoOtherHost(t *testing.T) {
	other := elsewhere(t)
	for name, interfaces := range map[string]string{
		"another port": `{"url":"` + other + `","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`,
		"a scheme":     `{"url":"HTTPS_HERE/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`,
		"a user":       `{"url":"http://HOST@` + strings.TrimPrefix(other, "http://") + `","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`,
		"another name": `{"url":"http://localhost.:PORT/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`,
		"metadata":     `{"url":"http://169.254.169.254/latest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}`,
		"decimal":      `{"url":"http://2130706433:PORT/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`,
		"a version":    `{"url":"HERE/a2a","protocolBinding":"JSONRPC","protocolVersion":"0.3"}`,
		"gRPC":         `{"url":"HERE/a2a","protocolBinding":"GRPC","protocolVersion":"1.0"}`,
		"a tenant":     `{"url":"HERE/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"x"}`,
		"nothing":      ``,
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ asked) {
				if r.URL.Path != cardPath {
					t.Errorf("%s was asked", r.URL)
				}
				here := "http://" + r.Host
				_, _ = io.WriteString(w, strings.NewReplacer("HTTPS_HERE", "https://"+r.Host, "HERE", here, "HOST", "127.0.0.1", "PORT", here[strings.LastIndex(here, ":")+1:]).
					Replace(`{"supportedInterfaces":[`+interfaces+`]}`))
			})
			b := newBack(t, BackOptions{URL: agent.URL + "/a2a"})
			if _, _, err := b.run(taskFrom(alice, a2abinding.SendMessage, `{}`)); reason(t, err) != "NO_ROUTE" {
				t.Error(octetsOf(err))
			}
		})
	}
}

func TestGW09ASlowAgentCostsItsCall(t *testing.T) {
	drip := func(release <-chan struct{}, w io.Writer, text string) {
		for {
			for _, c := range []byte(text) {
				if _, err := w.Write([]byte{c}); err != nil {
					return
				}
				select {
				case <-release:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}
	for name, handle := range map[string]func(release <-chan struct{}, w http.ResponseWriter){
		"headers": func(release <-chan struct{}, w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: ")
			drip(release, conn, "a")
		},
		"a body": func(release <-chan struct{}, w http.ResponseWriter) {
			drip(release, flushing{w}, " ")
		},
		"an event": func(release <-chan struct{}, w http.ResponseWriter) {
			begin(w)
			drip(release, flushing{w}, "data: x\n")
		},
		"silence": func(release <-chan struct{}, w http.ResponseWriter) {
			begin(w)
			<-release
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) { handle(release, w) })
			t.Cleanup(func() { close(release) })
			b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC, Silence: 100 * time.Millisecond})
			if _, _, err := b.run(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`)); reason(t, err) != "DEADLINE" {
				t.Error(octetsOf(err))
			}
		})
	}
}

// flushing sends what is written at once.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

func TestGW09CommentsKeepAStreamAlive(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		begin(w)
		for range 300 { // for longer than Silence, far more often than it asks for
			_, _ = io.WriteString(flushing{w}, ": still here\n\n")
			select {
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		say(w, q, ended)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC, Silence: 2 * time.Second})
	if events, _ := b.mustRun(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`)); len(events) != 1 {
		t.Errorf("%q", events)
	}
}

func TestGW09LargeAnswersAreRefused(t *testing.T) {
	effort.Unwatched(t)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte{' '}, maxBody+1))
	_ = z.Close()
	endless := func(w io.Writer, text string) {
		for range 4 * maxBody / len(text) {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	chunk := strings.Repeat("x", 64<<10)
	for name, handle := range map[string]func(w http.ResponseWriter){
		"announced": func(w http.ResponseWriter) { w.Header().Set("Content-Length", fmt.Sprint(1<<30)); endless(w, chunk) },
		"a body":    func(w http.ResponseWriter) { endless(w, chunk) },
		"compressed": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
		"a line": func(w http.ResponseWriter) { begin(w); endless(w, chunk) },
		"lines":  func(w http.ResponseWriter) { begin(w); endless(w, "data: "+chunk+"\n") },
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) { handle(w) })
			b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
			if _, _, err := b.run(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`)); reason(t, err) != "TOO_LARGE" {
				t.Error(octetsOf(err))
			}
		})
	}
}

func TestGW09TheLargestEventPasses(t *testing.T) {
	effort.Unwatched(t)
	event := `{"statusUpdate":{"x":"` + strings.Repeat("x", maxBody-len(`{"statusUpdate":{"x":""}}`)) + `"}}`
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ asked) {
		more := ""
		if r.URL.Path != "/message:stream" {
			more = " "
		}
		begin(w)
		say(w, asked{}, event+more)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: REST})
	if events, _ := b.mustRun(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`)); len(events) != 1 || events[0] != event {
		t.Errorf("%d events", len(events))
	}
	b.own(alice, "", "t")
	if _, _, err := b.run(taskFrom(alice, a2abinding.SubscribeToTask, `{"id":"t"}`)); reason(t, err) != "TOO_LARGE" {
		t.Error(octetsOf(err))
	}
}

func TestGW09TooManyOperationsAtOnceAreRefused(t *testing.T) {
	started := make(chan struct{}, 8)
	agent := newAgent(t, func(_ http.ResponseWriter, r *http.Request, _ asked) {
		started <- struct{}{}
		<-r.Context().Done()
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC, Calls: 1, Streams: 1})
	for _, r := range b.Registrations() {
		if r.Tasks != 1 || r.Agent != "agent" {
			t.Errorf("%+v", r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 3)
	for range 3 { // and one for the card
		go func() {
			_, err := b.worker(a2abinding.SendMessage).Run(ctx, taskFrom(alice, a2abinding.SendMessage, `{}`), nil)
			done <- err
		}()
		<-started
	}
	if _, _, err := b.run(taskFrom(alice, a2abinding.SendMessage, `{}`)); reason(t, err) != "NO_ROUTE" {
		t.Error(octetsOf(err))
	}
	cancel() // closes the calls at the agent, too
	for range 3 {
		<-done
	}
}

func TestGW09CredentialsStayOnTheirSide(t *testing.T) {
	const canary = "canary-of-ours"
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ asked) {
		w.Header().Set("Set-Cookie", canary)
		w.Header().Set("WWW-Authenticate", canary)
		if r.URL.Path == cardPath {
			if r.Header.Get("Authorization") != "" {
				t.Error("credentials were sent for the card")
			}
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Header.Get("Authorization") != canary || len(r.Header.Values("Authorization")) != 1 {
			t.Errorf("authorization %q", r.Header.Values("Authorization"))
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, canary)
	})
	for _, binding := range []Binding{JSONRPC, REST, ""} {
		b := newBack(t, BackOptions{URL: agent.URL, Binding: binding, Header: http.Header{"Authorization": {canary}}})
		for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
			events, output, err := b.run(taskFrom(alice, operation, `{}`, "authorization=theirs"))
			if reason(t, err) != "NO_ROUTE" || strings.Contains(fmt.Sprint(events, output, err, octetsOf(err)), canary) {
				t.Errorf("%v, %s", err, octetsOf(err))
			}
		}
	}
}

// only allows one operation of an identity.
type only [4]string

func (o only) Allowed(identity, profile, operation, name string) bool {
	return o == only{identity, profile, operation, name}
}

func TestTL11StoredCredentialsFetchNoExtendedCardWithoutARuleOfItsOwn(t *testing.T) {
	var times atomic.Int32
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) {
		times.Add(1)
		answer(w, q, `{"name":"x"}`)
	})
	b := newBack(t, BackOptions{
		URL: agent.URL, Binding: JSONRPC, Header: http.Header{"Authorization": {"x"}}, Access: only{alice, "a2a", "extended_card", "agent"},
	})
	if _, output := b.mustRun(taskFrom(alice, a2abinding.GetExtendedAgentCard, `{}`)); output != `{"name":"x"}` {
		t.Error(output)
	}
	if _, _, err := b.run(taskFrom(bob, a2abinding.GetExtendedAgentCard, `{}`)); reason(t, err) != "DENIED" || times.Load() != 1 {
		t.Error(octetsOf(err))
	}
	b = newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC, Access: only{}})
	b.mustRun(taskFrom(bob, a2abinding.GetExtendedAgentCard, `{}`)) // without credentials it is nobody's
}

func TestAnAgentThatCanNotBeReached(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	b := newBack(t, BackOptions{URL: s.URL, Binding: JSONRPC})
	for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
		_, _, err := b.run(taskFrom(alice, operation, `{}`))
		if reason(t, err) != "NO_ROUTE" || !strings.Contains(octetsOf(err), "agent "+b.opts.Name+" cannot be reached") || strings.Contains(octetsOf(err), "127.0.0.1") {
			t.Error(octetsOf(err))
		}
		<-b.troubles
	}
}
