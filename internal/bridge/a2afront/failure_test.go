package a2afront_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// saying is an agent that fails with an error object as it is.
func saying(object string) agent {
	return func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
		return nil, &a2a.Failure{Reason: "said", Output: []byte(object)}
	}
}

func TestErrorsOfTheAgentKeepTheirOctets(t *testing.T) {
	var object string
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(ctx context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		return saying(object)(ctx, task, event)
	})
	for code, status := range map[int]int{
		-32001: 404, -32002: 400, -32003: 400, -32004: 400, -32005: 400, -32006: 500, -32007: 400, -32008: 400, -32009: 400,
		-32602: 400, -32603: 500, 17: 500,
	} {
		details := fmt.Sprintf(`[ {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"R%d","domain":"a2a-protocol.org", "n":9007199254740993}]`, code)
		object = fmt.Sprintf(`{ "data":%s, "code":%d,"message":"why \u003c" , "more":1}`, details, code)
		got := b.rpc("GetTask", `{"id":"x"}`)
		if want := `{"jsonrpc":"2.0","id":1,"error":` + object + `}`; got.status != 200 || got.body != want {
			t.Errorf("%d: %d %s", code, got.status, got.body)
		}
		got = b.rpc("SubscribeToTask", `{"id":"x"}`)
		if want := "data: " + `{"jsonrpc":"2.0","id":1,"error":` + object + "}\n\n"; got.status != 200 || got.body != want {
			t.Errorf("%d in a stream: %d %q", code, got.status, got.body)
		}
		for _, path := range []string{"/a2a/weather/tasks/x", "/a2a/weather/tasks/x:subscribe"} {
			got = b.do("GET", path, "")
			if got.status != status || !strings.Contains(got.body, `"details":`+details) || !json.Valid([]byte(got.body)) {
				t.Errorf("%d by %s: %d %s", code, path, got.status, got.body)
			}
		}
	}
}

// reason is the reason of an error of the front's own, as REST and JSON-RPC tell it.
func reason(t *testing.T, body string) string {
	t.Helper()
	var says struct {
		Error struct {
			Details, Data []struct{ Reason, Domain string }
		}
	}
	if err := json.Unmarshal([]byte(body), &says); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, d := range append(says.Error.Details, says.Error.Data...) {
		return d.Domain + "/" + d.Reason
	}
	return ""
}

// without is access for everyone but one identity.
type without string

func (w without) Allowed(identity, _, _, _ string) bool { return identity != string(w) }

func TestOwnFailuresAreToldApart(t *testing.T) {
	hang := func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b := newBench(t, "", a2a.Options{Access: without("http:mallory")}, a2afront.Options{Deadline: 2 * time.Second, MaxBody: 64}, hang)
	for _, row := range []struct {
		what, method, path, body string
		header                   []string
		status                   int
		reason                   string
	}{
		{"no such agent", "GET", "/a2a/nobody/tasks", "", nil, 502, "NO_ROUTE"},
		{"denied", "GET", "/a2a/weather/tasks", "", []string{callerHeader + ": mallory"}, 403, "DENIED"},
		{"no answer", "GET", "/a2a/weather/tasks", "", nil, 504, "DEADLINE"},
		{"too large", "POST", "/a2a/weather/message:send", `{"x":"` + strings.Repeat("x", 57) + `"}`, nil, 413, "TOO_LARGE"},
	} {
		got := b.do(row.method, row.path, row.body, row.header...)
		if got.status != row.status || reason(t, got.body) != "slimwire/"+row.reason {
			t.Errorf("%s: %d %s", row.what, got.status, got.body)
		}
	}
	if got := b.do("POST", "/a2a/weather/message:send", `{"x":"`+strings.Repeat("x", 56)+`"}`); got.status != 504 {
		t.Errorf("at the limit: %d %s", got.status, got.body)
	}
	if got := b.rpc("GetTask", `{}`, callerHeader+": mallory"); got.status != 200 || reason(t, got.body) != "slimwire/DENIED" {
		t.Errorf("denied: %d %s", got.status, got.body)
	}
}

func TestStreamsHaveALimitOfTheirOwn(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{Stream: 50 * time.Millisecond}, func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if got := b.do("GET", "/a2a/weather/tasks/x:subscribe", ""); got.status != 504 || got.header.Get("Allow") != "" || reason(t, got.body) != "slimwire/DEADLINE" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestALinkThatDoesNotComeBackIsGivenUp(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{Patience: time.Millisecond}, fixed(`{}`))
	b.link("http:alice").refuse(profiles.ErrFinished)
	if got := b.do("GET", "/a2a/weather/tasks", ""); got.status != 503 || reason(t, got.body) != "slimwire/LINK_LOST" {
		t.Errorf("no link: %d %s", got.status, got.body)
	}
}

func TestGW06OnlyWhatEveryParserReadsAlikeIsPassedOn(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	const good = `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}`
	if got := b.do("POST", "/a2a/weather", good); got.status != 200 || got.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Fatalf("%d %s", got.status, got.body)
	}
	b.given()
	for _, row := range []struct {
		body string
		code int
	}{
		{`[` + good + `]`, -32600},
		{` [` + good + `,` + good + `]`, -32600},
		{`[]`, -32600},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","\u006dethod":"CancelTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","Method":"CancelTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"METHOD":"GetTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{},"params":{}}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","result":{}}`, -32600},
		{`{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, -32600},
		{`{"id":1,"method":"GetTask"}`, -32600},
		{`{"jsonrpc":"2.0","method":"GetTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":null,"method":"GetTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, -32600},
		{"\ufeff" + good, -32700},
		{good + `x`, -32700},
		{good + good, -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask` + "\xff" + `"}`, -32700},
		{``, -32700},
		{`x`, -32700},
	} {
		got := b.do("POST", "/a2a/weather", row.body, "Content-Type: application/json")
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,`, row.code); got.status != 400 || !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: %d %s", row.body, got.status, got.body)
		}
		b.untouched(row.body)
	}
	for _, row := range []struct {
		body string
		code int
	}{
		{`{"jsonrpc":"2.0","id":7,"method":"gettask"}`, -32601},
		{`{"jsonrpc":"2.0","id":7,"method":"GetTask\u0000"}`, -32601},
		{`{"jsonrpc":"2.0","id":7,"method":"message/send"}`, -32601},
		{`{"jsonrpc":"2.0","id":7,"method":"GetTask","params":[]}`, -32602},
		{`{"jsonrpc":"2.0","id":7,"method":"GetTask","params":"{}"}`, -32602},
	} {
		got := b.do("POST", "/a2a/weather", row.body)
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"error":{"code":%d,`, row.code); got.status != 200 || !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: %d %s", row.body, got.status, got.body)
		}
		b.untouched(row.body)
	}
	for _, body := range []string{`[]`, `"x"`, `{} {}`, "{\"x\":\"\xff\"}", "\ufeff{}", `{`} {
		if got := b.do("POST", "/a2a/weather/message:send", body); got.status != 400 {
			t.Errorf("REST %q: %d %s", body, got.status, got.body)
		}
		b.untouched(body)
	}
}

func TestBodiesOfOtherTypesAreRefused(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	for _, path := range []string{"/a2a/weather", "/a2a/weather/message:send"} {
		for header, want := range map[string]int{
			"Content-Type: application/json; charset=utf-8": 200,
			"Content-Type: application/a2a+json":            200,
			"Content-Type: text/plain":                      415,
			"Content-Type":                                  415,
			"Content-Encoding: gzip":                        415,
			"Content-Encoding: identity":                    200,
		} {
			got := b.do("POST", path, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}`, header)
			if got.status != want || want == 415 && !strings.Contains(got.body, "CONTENT_TYPE_NOT_SUPPORTED") {
				t.Errorf("%s %s: %d %s", path, header, got.status, got.body)
			}
			if code := fmt.Sprintf(`{"error":{"code":%d,`, want); want != 200 && path != "/a2a/weather" && !strings.HasPrefix(got.body, code) {
				t.Errorf("%s %s: the body %s has another status than the answer", path, header, got.body)
			}
		}
	}
}

func TestPR04TasksOfAnotherCallerAreNotThere(t *testing.T) {
	owner := map[string]string{"t-alice": "http:alice"}
	notFound := a2abinding.Fail(a2abinding.CodeTaskNotFound, "task not found").Result()
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		var input struct {
			ID     string `json:"id"`
			TaskID string `json:"taskId"`
		}
		_ = json.Unmarshal(task.Input, &input)
		if owner[input.ID+input.TaskID] != task.Peer {
			return nil, notFound
		}
		return []byte(`{}`), nil
	})
	for _, caller := range []string{"alice", "bob"} {
		for _, header := range [][]string{
			{callerHeader + ": " + caller},
			{callerHeader + ": " + caller, "Swp-Peer: http:alice", "A2A-Peer: http:alice", "From: http:alice"},
		} {
			for _, id := range []string{"t-alice", "t-unknown"} {
				found := caller == "alice" && id == "t-alice"
				rest := b.do("GET", "/a2a/weather/tasks/"+id, "", header...)
				rpc := b.rpc("CancelTask", `{"id":"`+id+`"}`, header...)
				push := b.do("GET", "/a2a/weather/tasks/"+id+"/pushNotificationConfigs", "", header...)
				if found != (rest.status == 200) || found != (push.status == 200) || found == strings.Contains(rpc.body, `"code":-32001`) {
					t.Errorf("%s asks for %s: %d %s, %s", caller, id, rest.status, rest.body, rpc.body)
				}
				if !found && (rest.status != 404 || !strings.Contains(rest.body, "TASK_NOT_FOUND")) {
					t.Errorf("%s asks for %s: %d %s", caller, id, rest.status, rest.body)
				}
			}
		}
	}
}

func TestTL11NoHeaderMakesACallerSomebodyElse(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	for _, header := range []string{"Swp-Peer: http:alice", "X-Forwarded-User: http:alice", "A2A-Caller: http:alice", "From: http:alice", "Authorization: http:alice"} {
		b.do("GET", "/a2a/weather/tasks", "", callerHeader+": mallory", header)
		b.rpc("ListTasks", `{"caller":"http:alice"}`, callerHeader+": mallory", header)
		for range 2 {
			if task := b.given(); task.Peer != "http:mallory" {
				t.Errorf("%s: the agent sees %q", header, task.Peer)
			}
		}
	}
}

func TestAnswersThatAreNoJSONAreTheAgentsFault(t *testing.T) {
	for _, output := range []string{``, `{`, `{}{}`, `{},"error":{}`, "\"\xff\""} {
		b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(output))
		if got := b.do("GET", "/a2a/weather/tasks/x", ""); got.status != http.StatusInternalServerError || !strings.Contains(got.body, "INVALID_AGENT_RESPONSE") {
			t.Errorf("%q: %d %s", output, got.status, got.body)
		}
	}
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(``))
	for _, got := range []answer{
		b.do("DELETE", "/a2a/weather/tasks/x/pushNotificationConfigs/y", ""),
		b.do("GET", "/a2a/weather/tasks/x:subscribe", ""),
		b.rpc("DeleteTaskPushNotificationConfig", `{}`),
	} {
		if got.status != 200 || strings.Contains(got.body, "error") {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}
