package mcpmap_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestTasksOfASessionAreCountedWhileTheyWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tasks mcpmap.Tasks
		working := func(when string, is bool, messages ...string) {
			t.Helper()
			for _, m := range messages {
				tasks.See([]byte(m))
			}
			want(t, when, tasks.Working(), is)
		}
		working("nothing", false, `{`, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","status":"working"}}`)
		working("made", true, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working","ttl":60000}}}`)
		time.Sleep(time.Minute)
		working("after its time", false)
		working("made", true, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"u","ttlMs":null}}`)
		working("told of", false, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"u","status":"failed"}}`)
		for i := range 1025 {
			tasks.See(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"%d"}}}`, i))
		}
		for i := range 1024 {
			tasks.See(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"%d","status":"completed"}}`, i))
		}
		working("at the bound", false)
	})
}
