package guard

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

func TestHeldBackEventsAreSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Options{Access: &config.Default().Access, Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		reg.MustRegister(g.denials)
		count := func() int {
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			return int(families[0].GetMetric()[0].GetCounter().GetValue())
		}
		for range 3 {
			g.Allowed("a", "events", "subscribe", "orders.new")
			g.Allowed("b", "events", "subscribe", "orders.new")
			g.Allowed("a", "events", "publish", "orders.new")
		}
		if n := count(); n != 1+1+3 {
			t.Errorf("%d denials, want one of each subscriber and three of the publisher", n)
		}
		time.Sleep(time.Minute) // virtual
		g.Allowed("a", "events", "subscribe", "orders.new")
		if n := count(); n != 6 {
			t.Errorf("%d denials after a minute, want 6", n)
		}
		for i := range 3 * maxHeldBack {
			g.Allowed("a", "events", "subscribe", strconv.Itoa(i))
		}
		if n := len(g.held.last); n > maxHeldBack {
			t.Errorf("%d event_types are remembered, want at most %d", n, maxHeldBack)
		}
	})
}

// A rule for a tool alone is enough for a client that calls it.
func TestARuleForAToolImpliesTheSession(t *testing.T) {
	for name, row := range map[string]struct {
		rule     config.AccessRule
		may, not []string // OPERATION NAME
	}{
		"tools of a server": {
			config.AccessRule{Operation: config.List{"tools/call"}, Name: config.List{"files/read*"}},
			[]string{"tools/call files/read_file", "initialize files", "ping files", "notifications/initialized files", "server/discover files", "tools/list files"},
			[]string{"tools/call files/write", "resources/read files", "prompts/list files", "initialize other", "tools/list filesystem", "initialize file", "logging/setLevel files"},
		},
		"the tasks that the tools start": {
			config.AccessRule{Operation: config.List{"tools/call"}, Name: config.List{"files/read*"}},
			[]string{"tasks/get files", "tasks/update files", "tasks/cancel files", "tasks/result files", "tasks/list files", "subscriptions/listen files"},
			[]string{"tasks/get other", "tasks/other files", "resources/subscribe files"},
		},
		"tasks of tools of a partner's server": {
			config.AccessRule{Name: config.List{"east/files/read"}},
			[]string{"tasks/get east/files", "subscriptions/listen east/files"}, []string{"tasks/get east/other", "tasks/get files"},
		},
		"no tasks without tools": {
			config.AccessRule{Operation: config.List{"prompts/get", "resources/read"}, Name: config.List{"files"}},
			[]string{"prompts/list files"}, []string{"tasks/get files", "subscriptions/listen files"},
		},
		"a tool of a partner's server": {
			config.AccessRule{Profile: config.List{"mcp"}, Operation: config.List{"tools/*"}, Name: config.List{"east/files/read"}},
			[]string{"tools/call east/files/read", "initialize east/files", "tools/list east/files"},
			[]string{"tools/call east/files/write", "initialize east/other", "initialize files"},
		},
		"every operation on tools": {
			config.AccessRule{Profile: config.List{"mc*"}, Name: config.List{"files/**"}},
			[]string{"tools/call files/a/b", "initialize files", "tools/list files"},
			[]string{"initialize other"},
		},
		"tools of every server": {
			config.AccessRule{Operation: config.List{"tools/call"}, Name: config.List{"*/read"}},
			[]string{"tools/call a/read", "initialize a", "tools/list b"}, []string{"tools/call a/write", "initialize a/b/c"},
		},
		"names across servers": {
			config.AccessRule{Operation: config.List{"tools/call"}, Name: config.List{"fi**read"}},
			[]string{"tools/call files/read", "initialize files", "initialize five/files"}, []string{"initialize other"},
		},
		"prompts": {
			config.AccessRule{Operation: config.List{"prompts/get"}, Name: config.List{"files"}},
			[]string{"prompts/get files", "prompts/list files", "initialize files"}, []string{"tools/list files", "initialize other", "tools/call files/read"},
		},
		"a name that is no tool": {
			config.AccessRule{Operation: config.List{"tools/call"}, Name: config.List{"files"}}, nil, []string{"initialize files", "tools/list files", "tools/call files/read"},
		},
		"another profile": {
			config.AccessRule{Profile: config.List{"rpc"}, Name: config.List{"files/read"}}, nil, []string{"initialize files", "tools/list files"},
		},
		"a use of no session": {
			config.AccessRule{Operation: config.List{"ping"}, Name: config.List{"files"}}, []string{"ping files"}, []string{"initialize files"},
		},
	} {
		row.rule.Identity = config.List{"spiffe://a.example/x"}
		policy, err := NewPolicy(&config.Access{Rules: []config.AccessRule{row.rule}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for want, list := range map[bool][]string{true: row.may, false: row.not} {
			for _, request := range list {
				operation, on, _ := strings.Cut(request, " ")
				if got := policy.Allowed("spiffe://a.example/x", "mcp", operation, on); got != want {
					t.Errorf("%s: %s is allowed: %v", name, request, got)
				}
			}
		}
		if policy.Allowed("spiffe://a.example/y", "mcp", "initialize", "files") {
			t.Errorf("%s: another identity is allowed", name)
		}
	}
}
