package mcpstdio_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// exits returns the events of children that have ended.
func (s *site) exits() (list []mcpstdio.Event) {
	for _, e := range s.all() {
		if e.What == mcpstdio.Exited {
			list = append(list, e)
		}
	}
	return list
}

func TestTheEndOfAChildHasItsLastLines(t *testing.T) {
	for name, call := range map[string]string{"stateless": modern("1", "pid", ""), "a session": `{"jsonrpc":"2.0","id":"i","method":"initialize"}`} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "exit", mcpstdio.Config{})
			c := s.dial("alice")
			c.start(&mcpmap.Call{Octets: []byte(call)})
			await(t, func() bool { return s.count(mcpstdio.Exited) > 0 })
			e := s.exits()[0]
			if e.Err == nil || e.Err.Error() != "exit status 3" || !slices.Equal(e.Output, []string{"token=[masked]", "FATAL: API_KEY is not set"}) {
				t.Errorf("%v, %q", e.Err, e.Output)
			}
			want(t, "answers", s.answers.Load(), 0)
		})
	}
}

func TestAChildThatLeavesACallUnansweredHasFailed(t *testing.T) {
	s := serve(t, "leave", mcpstdio.Config{})
	s.dial("alice").start(&mcpmap.Call{Octets: []byte(modern("1", "pid", ""))})
	await(t, func() bool { return s.count(mcpstdio.Exited) > 0 })
	if err := s.exits()[0].Err; err == nil || !strings.Contains(err.Error(), "exit status 0 before it had answered") {
		t.Errorf("the end is %v", err)
	}
}

func TestResponsesOfChildrenAreTold(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	c.do(modern("1", "burst", "3"))
	c.do(modern("2", "pid", ""))
	want(t, "answers", s.answers.Load(), 3) // one of them to server/discover
	want(t, "calls without a message", s.count(mcpstdio.Silent), 0)
}

func TestACallWithoutAMessageInItsWholeTimeIsTold(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{Timeouts: mcpmap.Timeouts{Tools: map[string]time.Duration{"silent": time.Second}}})
	c := s.dial("alice")
	c.do(modern("1", "pid", "")) // a call that waits for the start of a child has less time there
	c.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{%s,"name":"silent"}}`, meta))
	await(t, func() bool { return s.count(mcpstdio.Silent) == 1 })
}
