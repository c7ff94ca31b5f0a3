package a2ahttp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// members are members of objects that an encoder would not write as they stand.
var members = map[string]string{
	"numbers":     `"n":9007199254740993,"f":1.0,"e":1E400,"z":-0`,
	"white space": "\t \"a\" :\r [ 1 ,2 ]",
	"duplicates":  `"metadata":{"a":1,"a":2},"metadata":{}`,
	"escapes":     `"\u0061\/":"\u003c\ud83d\ude00<>&"`,
	"unknown":     `"future":{"deep":[[{}]]},"":null`,
	"long":        `"text":"` + strings.Repeat("x", 1<<20) + `"`,
}

func TestGW07OctetsPassUnchanged(t *testing.T) {
	for name, m := range members {
		for _, binding := range []Binding{JSONRPC, REST} {
			t.Run(name+" "+string(binding), func(t *testing.T) {
				result, event := `{"message":{`+m+`}}`, `{"statusUpdate":{"taskId":"t",`+m+`}}`
				agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
					switch {
					case strings.Contains(r.Header.Get("Accept"), "event-stream"):
						begin(w)
						say(w, q, event)
						say(w, q, event)
					case binding == REST:
						_, _ = w.Write([]byte(result + "\n"))
					default:
						answer(w, q, result)
					}
				})
				b := newBack(t, BackOptions{URL: agent.URL + "/base", Binding: binding})
				input := `{"message":{"messageId":"1"},` + m + `}`
				_, output := b.mustRun(taskFrom(alice, a2abinding.SendMessage, input))
				if want := result; strings.TrimSuffix(output, "\n") != want {
					t.Errorf("output %.200q, want %.200q", output, want)
				}
				events, output := b.mustRun(taskFrom(alice, a2abinding.SendStreamingMessage, input))
				if output != "" {
					t.Errorf("output of a stream %q", output)
				}
				// Line breaks of a stream are its framing; JSON has none inside of values.
				want := strings.ReplaceAll(event, "\r", "\n")
				if diff := cmp.Diff([]string{want, want}, events); diff != "" {
					t.Errorf("events: %.500s", diff)
				}
				for _, q := range agent.asked() {
					want := input
					if binding == JSONRPC {
						want = `"params":` + input + `}`
					}
					if !strings.HasSuffix(q.body, want) || binding == REST && q.body != input {
						t.Errorf("sent %.300q, want %.300q", q.body, want)
					}
				}
			})
		}
	}
}

func TestErrorsOfTheAgentPassUnchanged(t *testing.T) {
	const object = `{ "message":"no\u003c", "code":-32004,"data":[{"@type":"x","n":9007199254740993, "u":1.0}],"more":1}`
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		object := `{"jsonrpc":"2.0","id":"` + q.id + `","error":` + object + `}`
		switch r.URL.Path {
		case "/late":
			begin(w)
			_, _ = w.Write([]byte(": hello\nevent: x\nid: 7\ndata: " + object + "\n\n"))
			return
		case "/400":
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(object))
	})
	for _, path := range []string{"/", "/400", "/late"} {
		b := newBack(t, BackOptions{URL: agent.URL + path, Binding: JSONRPC})
		_, _, err := b.run(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`))
		if octetsOf(err) != object || !strings.Contains(err.Error(), "no<") {
			t.Errorf("%s: %v, %s", path, err, octetsOf(err))
		}
	}
}

func TestRESTErrorsBecomeErrorObjects(t *testing.T) {
	const details = `[{"@type":"x","n":9007199254740993},{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"EXTENSION_SUPPORT_REQUIRED","domain":"a2a-protocol.org"}]`
	const body = `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"need it","details":` + details + `}}`
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
		if r.URL.Path == "/message:stream" {
			begin(w)
			say(w, q, body)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(body))
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: REST})
	for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
		_, _, err := b.run(taskFrom(alice, operation, `{}`))
		f := failure(t, err)
		if f.Code != a2abinding.CodeNeedsExtension || f.Message != "need it" || string(f.Data) != details {
			t.Errorf("%s: %+v", operation, f)
		}
	}
}

func TestInputsThatAreNoObjectAreNotSent(t *testing.T) {
	agent := newAgent(t, func(http.ResponseWriter, *http.Request, asked) {})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	for _, input := range []string{``, `[]`, `null`, `"x"`, `{}},"method":"x"`, `{"a":}`, `{} {}`, "\xef\xbb\xbf{}"} {
		for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
			if _, _, err := b.run(taskFrom(alice, operation, input)); failure(t, err).Code != a2abinding.CodeInvalidParams {
				t.Errorf("%q: %v", input, err)
			}
		}
	}
	if n := len(agent.asked()); n != 0 {
		t.Errorf("the agent was asked %d times", n)
	}
}

func TestAnswersThatAreNoneAreRefused(t *testing.T) {
	for body, code := range map[string]int{
		``:  a2abinding.CodeInvalidResponse,
		`x`: a2abinding.CodeInvalidResponse,
		`{"jsonrpc":"2.0","id":"another","result":{}}`:   a2abinding.CodeInvalidResponse,
		`{"jsonrpc":"2.0","result":{}}`:                  a2abinding.CodeInvalidResponse,
		`{"jsonrpc":"2.0","id":"ID"}`:                    a2abinding.CodeInvalidResponse,
		`{"jsonrpc":"2.0","id":"ID","error":"x"}`:        a2abinding.CodeInvalidResponse,
		`[{"jsonrpc":"2.0","id":"ID","result":{}}]`:      a2abinding.CodeInvalidResponse,
		`{"jsonrpc":"2.0","id":null,"error":{"code":7}}`: 7,
	} {
		agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) {
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "ID", q.id)))
		})
		b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
		if _, _, err := b.run(taskFrom(alice, a2abinding.ListTasks, `{}`)); failure(t, err).Code != code {
			t.Errorf("%s: %s", body, octetsOf(err))
		}
	}
}

func TestRESTPathsAndQueries(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ asked) {
		if strings.Contains(r.Header.Get("Accept"), "event-stream") {
			begin(w)
			return
		}
		_, _ = w.Write([]byte(`{}`))
	})
	b := newBack(t, BackOptions{URL: agent.URL + "/v1/", Binding: REST})
	for _, task := range [][2]string{{"", "t"}, {"", "a/b?c:d %"}, {"a/b", "t"}, {".", "t"}, {"..", "t"}} {
		b.own(alice, task[0], task[1])
	}
	for _, row := range []struct{ operation, input, want string }{
		{a2abinding.SendMessage, `{"tenant":"acme"}`, "POST /v1/acme/message:send"},
		{a2abinding.GetTask, `{"id":"t","historyLength":10,"other":1}`, "GET /v1/tasks/t?historyLength=10"},
		{a2abinding.GetTask, `{"id":"a/b?c:d %","historyLength":null}`, "GET /v1/tasks/a%2Fb%3Fc%3Ad%20%25"},
		{
			a2abinding.ListTasks, `{"contextId":"c d","status":"TASK_STATE_WORKING","pageSize":5,"pageToken":"+","includeArtifacts":true,"statusTimestampAfter":"2026-01-01T00:00:00Z"}`,
			"GET /v1/tasks?contextId=c+d&includeArtifacts=true&pageSize=5&pageToken=%2B&status=TASK_STATE_WORKING&statusTimestampAfter=2026-01-01T00%3A00%3A00Z",
		},
		{a2abinding.CancelTask, `{"id":"t"}`, "POST /v1/tasks/t:cancel"},
		{a2abinding.SubscribeToTask, `{"id":"t","tenant":"a/b"}`, "POST /v1/a%2Fb/tasks/t:subscribe"},
		{a2abinding.CreatePushConfig, `{"taskId":"t","url":"http://x"}`, "POST /v1/tasks/t/pushNotificationConfigs"},
		{a2abinding.GetPushConfig, `{"taskId":"t","id":"c"}`, "GET /v1/tasks/t/pushNotificationConfigs/c"},
		{a2abinding.ListPushConfigs, `{"taskId":"t","pageSize":1}`, "GET /v1/tasks/t/pushNotificationConfigs?pageSize=1"},
		{a2abinding.DeletePushConfig, `{"taskId":"t","id":"c"}`, "DELETE /v1/tasks/t/pushNotificationConfigs/c"},
		{a2abinding.GetExtendedAgentCard, `{}`, "GET /v1/extendedAgentCard"},
	} {
		b.mustRun(taskFrom(alice, row.operation, row.input))
		list := agent.asked()
		got := list[len(list)-1]
		if got.method+" "+got.uri != row.want {
			t.Errorf("%s %s: %s %s, want %s", row.operation, row.input, got.method, got.uri, row.want)
		}
		if body := map[bool]string{true: row.input}[got.method == "POST"]; got.body != body {
			t.Errorf("%s: body %q, want %q", row.operation, got.body, body)
		}
	}
	for _, input := range []string{`{"id":"t","tenant":".."}`, `{"id":"t","tenant":"."}`, `{"id":"t","historyLength":{}}`, `{}`, `{"id":7}`} {
		if _, _, err := b.run(taskFrom(alice, a2abinding.GetTask, input)); failure(t, err).Code != a2abinding.CodeInvalidParams {
			t.Errorf("%s: %s", input, octetsOf(err))
		}
	}
}

func TestServiceParametersAreAClosedList(t *testing.T) {
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, q asked) { answer(w, q, `{}`) })
	b := newBack(t, BackOptions{URL: agent.URL, Binding: JSONRPC})
	b.mustRun(taskFrom(alice, a2abinding.ListTasks, `{}`, "a2a-version=1.1", "a2a-extensions=https://a", "a2a-extensions=https://b",
		"authorization=Bearer x", "cookie=x", "host=evil", "x-forwarded-for=1", "forwarded=x", "A2A-Version=9", "transfer-encoding=chunked"))
	h := agent.asked()[0].header
	if diff := cmp.Diff(http.Header{
		"A2a-Version": {"1.1"}, "A2a-Extensions": {"https://a", "https://b"}, "Accept": {"application/json"}, "Content-Type": {"application/json"},
		"User-Agent": {"swpd"}, "Accept-Encoding": {"gzip"}, "Content-Length": h["Content-Length"],
	}, h); diff != "" {
		t.Error(diff)
	}
	for _, value := range []string{"1.0\r\nx: y", "\x00", "\x7f"} {
		if _, _, err := b.run(taskFrom(alice, a2abinding.ListTasks, `{}`, "a2a-version="+value)); failure(t, err).Code != a2abinding.CodeInvalidRequest {
			t.Errorf("%q: %v", value, err)
		}
	}
}
