package daemon

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// A link has 128 streams over QUIC, and one connection over TLS. Its callers have 64 legacy sessions each, together six
// times its streams; one more of a caller ends the least recently used idle one of its own, and no other.
func TestRS31HundredsOfSessionsCanBeHadOverOneLink(t *testing.T) {
	t.Parallel()
	effort.Unwatched(t)
	const each, link = 64, 12 * 64 // of 1,024 that an endpoint serves
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", sessionsYAML(t))
		p := newPeople(t)
		type caller struct {
			*session
			opened []string
		}
		near := make([]*organisation, 2)
		for i := range near {
			near[i] = open(t, string(rune('c'+i)), "")
			p.admit(near[i])
			b.trusting(near[i].name, near[i])
			near[i].trusting("b", b, b.addrs[transport])
			near[i].connected("b")
		}
		dial := func(o *organisation, n int) *caller {
			return &caller{session: p.dial(o, transport, fmt.Sprintf("spiffe://people.example/%s%d", o.name, n))}
		}
		begin := func(c *caller) {
			result, err := c.ask(t, mcpmap.Call{Target: "b/tools", Octets: []byte(floodInitialize)})
			if err != nil || result.Session == "" {
				t.Errorf("session %d: %v, %+v", len(c.opened)+1, err, result)
				return
			}
			c.opened = append(c.opened, result.Session)
		}
		lives := func(c *caller, session string) bool {
			result, err := c.ask(t, mcpmap.Call{Target: "b/tools", Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)})
			if err != nil || result.Status != 404 && !strings.Contains(string(result.Octets), `"result":{"tools":[]}`) {
				t.Errorf("%v, %+v", err, result)
			}
			return err == nil && result.Status != 404
		}
		together := func(callers []*caller, f func(*caller)) {
			var wg sync.WaitGroup
			for _, c := range callers {
				wg.Go(func() { f(c) })
			}
			wg.Wait()
		}
		// living asks in each session, and wants so many of them to be there.
		living := func(callers []*caller, want int) {
			t.Helper()
			var mu sync.Mutex
			n := 0
			together(callers, func(c *caller) {
				for _, session := range c.opened {
					if lives(c, session) {
						mu.Lock()
						n++
						mu.Unlock()
					}
				}
			})
			if n != want {
				t.Errorf("%d sessions are there, want %d", n, want)
			}
		}
		var callers []*caller
		for n := range link / each {
			callers = append(callers, dial(near[0], n))
		}
		together(callers, func(c *caller) {
			for range each {
				begin(c)
			}
		})
		living(callers, link)
		// One more of a caller ends one of its own.
		begin(callers[0])
		if lives(callers[0], callers[0].opened[0]) || !lives(callers[0], callers[0].opened[each]) {
			t.Error("one more session of a caller did not take the place of its first")
		}
		living(callers, link)
		// Another caller has its own, and ends none of others.
		callers = append(callers, dial(near[0], link))
		begin(callers[len(callers)-1])
		living(callers, link+1)
		// Another link has room for its own, and takes nothing away.
		other := []*caller{dial(near[1], 0)}
		for range each {
			begin(other[0])
		}
		living(callers, link+1)
		living(other, each)
	})
}
