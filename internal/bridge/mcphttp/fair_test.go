package mcphttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestRS22CallsOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	for _, era := range []string{"stateless", "session"} {
		t.Run(era, func(t *testing.T) {
			release, arrived := make(chan struct{}), make(chan struct{}, 8)
			s := behind(t, script(t, func(w http.ResponseWriter, p *posted) {
				if p.Method != http.MethodPost {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				arrived <- struct{}{}
				<-release
				respond(w, p.msg.ID(), `{}`)
			}), mcphttp.BackendOptions{MaxCalls: 8})
			c := s.dial("mallory")
			session := ""
			if era == "session" {
				session = c.open(mcpmap.Events{})
			}
			for i := range 7 {
				c.start(t.Context(), &mcpmap.Call{Session: session, Octets: []byte(stateless(fmt.Sprint(i+1), "tools/list", ""))})
				await(t, "request", arrived)
			}
			if p := problemOf(t, c.in(session, stateless(`8`, "tools/list", "")).Octets); !p.Data.Retryable || p.Data.Code != "ERR_RATE_LIMIT_EXCEEDED" {
				t.Errorf("the eighth of eight: %+v", p)
			}
			out := s.dial("alice").start(t.Context(), &mcpmap.Call{Octets: []byte(stateless(`1`, "tools/list", ""))})
			await(t, "the request of alice", arrived)
			close(release)
			if got := await(t, "the answer to alice", out); got.err != nil {
				t.Error(got.err)
			}
		})
	}
}
