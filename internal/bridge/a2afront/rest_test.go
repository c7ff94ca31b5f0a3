package a2afront_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles/a2a"
)

func TestEveryRouteIsItsOperation(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{"x": 1.0}`))
	for _, row := range []struct {
		method, path, body string
		kind, input        string
	}{
		{"POST", "/message:send", `{ "message":{}}`, "SendMessage", `{ "message":{}}`},
		{"POST", "/message:send", "", "SendMessage", `{}`},
		{"POST", "/message:stream", `{ "message":{}}`, "SendStreamingMessage", `{ "message":{}}`},
		{"GET", "/tasks/t-1", "", "GetTask", `{"id":"t-1"}`},
		{"GET", "/tasks/t-1?historyLength=007", "", "", ``},
		{"GET", "/tasks/t-1?historyLength=7&A2A-Version=1.0&other=1", "", "GetTask", `{"historyLength":7,"id":"t-1"}`},
		{"GET", "/tasks/a%2Fb%3Acancel%22", "", "GetTask", `{"id":"a/b:cancel\""}`},
		{"GET", "/tasks", "", "ListTasks", `{}`},
		{
			"GET", "/tasks?contextId=c&status=TASK_STATE_NEW&pageSize=9007199254740993&pageToken=p%20q&historyLength=0&statusTimestampAfter=2026-01-01T00:00:00Z&includeArtifacts=true", "",
			"ListTasks", `{"contextId":"c","status":"TASK_STATE_NEW","pageSize":9007199254740993,"pageToken":"p q","historyLength":0,"statusTimestampAfter":"2026-01-01T00:00:00Z","includeArtifacts":true}`,
		},
		{"GET", "/tasks?lastUpdatedAfter=2026-01-01T00:00:00Z", "", "ListTasks", `{"statusTimestampAfter":"2026-01-01T00:00:00Z"}`},
		{"GET", "/tasks?pageSize=1&pageSize=2", "", "", ``},
		{"GET", "/tasks?includeArtifacts=yes", "", "", ``},
		{"GET", "/tasks?pageSize=1.5", "", "", ``},
		{"POST", "/tasks/t-1:cancel", "", "CancelTask", `{"id":"t-1"}`},
		{"POST", "/tasks/t-1:cancel", `{"metadata" :{"n":9007199254740993}}`, "CancelTask", `{"id":"t-1","metadata" :{"n":9007199254740993}}`},
		{"POST", "/tasks/t-1:subscribe", "", "SubscribeToTask", `{"id":"t-1"}`},
		{"GET", "/tasks/t-1:subscribe", "", "SubscribeToTask", `{"id":"t-1"}`},
		{"POST", "/tasks/t-1/pushNotificationConfigs", `{"url":"https://x.example"}`, "CreateTaskPushNotificationConfig", `{"taskId":"t-1","url":"https://x.example"}`},
		{"POST", "/tasks/t-1/pushNotificationConfigs", ` { "taskId":"t\u002d1" }`, "CreateTaskPushNotificationConfig", ` { "taskId":"t\u002d1" }`},
		{"POST", "/tasks/t-1/pushNotificationConfigs", `{"taskId":"t-2"}`, "", ``},
		{"POST", "/tasks/t-1/pushNotificationConfigs", `{"task_id":"t-2"}`, "", ``},
		{"POST", "/tasks/t-1/pushNotificationConfigs", `{"taskId":"t-1","taskId":"t-2"}`, "", ``},
		{"POST", "/tasks/t-1/pushNotificationConfigs", `{"taskId":"t-1","TASKID":"t-1"}`, "", ``},
		{"GET", "/tasks/t-1/pushNotificationConfigs", "", "ListTaskPushNotificationConfigs", `{"taskId":"t-1"}`},
		{"GET", "/tasks/t-1/pushNotificationConfigs?pageSize=3&pageToken=x", "", "ListTaskPushNotificationConfigs", `{"pageSize":3,"pageToken":"x","taskId":"t-1"}`},
		{"GET", "/tasks/t-1/pushNotificationConfigs/c%202", "", "GetTaskPushNotificationConfig", `{"taskId":"t-1","id":"c 2"}`},
		{"DELETE", "/tasks/t-1/pushNotificationConfigs/c", "", "DeleteTaskPushNotificationConfig", `{"taskId":"t-1","id":"c"}`},
		{"GET", "/extendedAgentCard", "", "GetExtendedAgentCard", `{}`},
	} {
		for _, tenant := range []string{"", "acme%2F1"} {
			path, input := "/a2a/weather"+row.path, row.input
			if tenant != "" {
				path = "/a2a/weather/" + tenant + row.path
				input = withTenant(row.input, row.body)
			}
			got := b.do(row.method, path, row.body)
			if row.kind == "" {
				if got.status != 400 || !strings.Contains(got.body, `"reason":"INVALID_PARAMS"`) {
					t.Errorf("%s %s %s: %d %s", row.method, path, row.body, got.status, got.body)
				}
				b.untouched(path)
				continue
			}
			task := b.given()
			if task.Kind != "a2a/1.0/"+row.kind || string(task.Input) != input {
				t.Errorf("%s %s: %s %s, want %s %s", row.method, path, task.Kind, task.Input, row.kind, input)
			}
			if want := `{"x": 1.0}`; got.status != 200 || got.body != want && got.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s %s: %d %q", row.method, path, got.status, got.body)
			}
		}
	}
}

// withTenant is an input with the member that a tenant is, behind those of the path
// and before those of the body.
func withTenant(input, body string) string {
	const member = `"tenant":"acme/1"`
	own := strings.TrimPrefix(strings.TrimSpace(body), "{")
	switch {
	case input == "{}":
		return "{" + member + "}"
	case body == "":
		return strings.TrimSuffix(input, "}") + "," + member + "}"
	case strings.HasPrefix(input, "{"+own) || strings.HasPrefix(input, " { "):
		from := strings.Index(input, "{") + 1
		return input[:from] + member + "," + input[from:]
	}
	return strings.TrimSuffix(input, own) + member + "," + own
}

func TestWhatIsNoRouteIsServedByNothing(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	for _, row := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/a2a", 404, ""},
		{"GET", "/a2a/", 404, ""},
		{"GET", "/.well-known/agent-card.json", 404, ""},
		{"POST", "/a2a/weather/", 200, ""},
		{"GET", "/a2a/weather", 405, "POST"},
		{"PUT", "/a2a/weather/tasks/x", 405, "GET"},
		{"DELETE", "/a2a/weather/tasks/x:subscribe", 405, "POST, GET"},
		{"GET", "/a2a/weather/message:send", 405, "POST"},
		{"POST", "/a2a/weather/message:sent", 404, ""},
		{"GET", "/a2a/weather/tasks/", 404, ""},
		{"GET", "/a2a/weather/tasks/:subscribe", 404, ""},
		{"GET", "/a2a/weather/tasks/x/pushNotificationConfigs/", 404, ""},
		{"GET", "/a2a/weather/tasks/x/pushNotificationConfigs/y/z", 404, ""},
		{"GET", "/a2a/weather/tasks/x/history", 404, ""},
		{"GET", "/a2a/weather/one/two/tasks", 404, ""},
		{"GET", "/a2a/we%2Father/tasks", 404, ""},
		{"GET", "/a2a/weather//tasks", 404, ""},
		{"GET", "/a2a/weather/tenant/.well-known/agent-card.json", 404, ""},
	} {
		got := b.do(row.method, row.path, "")
		if row.status == 200 {
			if got.status == 404 || got.header.Get("Allow") != "" {
				t.Errorf("%s %s: %d, allow %q", row.method, row.path, got.status, got.header.Values("Allow"))
			}
			continue
		}
		if got.status != row.status || strings.Join(got.header.Values("Allow"), ", ") != row.allow {
			t.Errorf("%s %s: %d, allow %q", row.method, row.path, got.status, got.header.Values("Allow"))
		}
		b.untouched(row.path)
	}
}

// Clients of SLIP write /v1/ before the path.
func TestV1IsNoTenantUnlessItIsOne(t *testing.T) {
	for _, row := range []struct {
		tenant      bool
		path, input string // empty: nothing is there
	}{
		{false, "/v1/message:send", `{}`},
		{false, "/v1/tasks/v1", `{"id":"v1"}`},
		{false, "/v1/acme/tasks", `{"tenant":"acme"}`},
		{false, "/v1/v1/tasks", `{"tenant":"v1"}`},
		{false, "/v2/tasks", `{"tenant":"v2"}`},
		{false, "/v1/acme/v1/tasks", ""},
		{true, "/v1/message:send", `{"tenant":"v1"}`},
		{true, "/v1/acme/tasks", ""},
	} {
		b := newBench(t, "", a2a.Options{}, a2afront.Options{TenantV1: row.tenant}, fixed(`{}`))
		method := "GET"
		if strings.HasSuffix(row.path, ":send") {
			method = "POST"
		}
		got := b.do(method, "/a2a/weather"+row.path, "")
		if row.input == "" {
			if got.status != 404 {
				t.Errorf("%s: %d %s", row.path, got.status, got.body)
			}
			b.untouched(row.path)
			continue
		}
		if input := string(b.given().Input); input != row.input {
			t.Errorf("%s, a tenant: %t: %s, want %s", row.path, row.tenant, input, row.input)
		}
	}
}

func TestAgentsOfPartnersHaveTwoNames(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{Partner: func(name string) bool { return name == "acme" }}, fixed(`{}`))
	got := b.do("GET", "/a2a/acme/weather/tenant/tasks", "")
	if got.status != 502 || !strings.Contains(got.body, "NO_ROUTE") { // nobody here passes it on
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := b.do("GET", "/a2a/acme", ""); got.status != 404 {
		t.Errorf("a partner without an agent: %d", got.status)
	}
	if got := b.do("GET", "/a2a/weather/acme/tasks", ""); got.status != 200 || string(b.given().Input) != `{"tenant":"acme"}` {
		t.Errorf("a tenant of the name of a partner: %d %s", got.status, got.body)
	}
}
