package mcphttp_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/internal/fair/fairtest"
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

func TestFairnessOfRequestsToAServerAtAURL(t *testing.T) {
	for pool, c := range map[string]struct {
		request string
		options mcphttp.BackendOptions
	}{
		"calls":   {"tools/list", mcphttp.BackendOptions{MaxCalls: 16, MaxStreams: 64}},
		"streams": {"subscriptions/listen", mcphttp.BackendOptions{MaxCalls: 64, MaxStreams: 16}},
	} {
		fairtest.Places(t, "mcp: "+pool+" of a server at a URL", pool+" of 16", func(t *testing.T) (func(string) bool, func(string)) {
			arrived := make(chan struct{}, 1)
			s := behind(t, stuck(t, arrived), c.options)
			callers, open, n := map[string]*backCaller{}, map[string][]func(){}, 0
			take := func(who string) bool {
				if callers[who] == nil {
					callers[who] = s.dial(who)
				}
				n++
				ctx, cancel := context.WithCancel(t.Context())
				out := callers[who].start(ctx, &mcpmap.Call{Octets: []byte(stateless(fmt.Sprint(n), c.request, ""))})
				select {
				case <-arrived:
					open[who] = append(open[who], cancel)
					return true
				case got := <-out:
					cancel()
					if p := problemOf(t, got.Octets); p.Data.Code != "ERR_RATE_LIMIT_EXCEEDED" {
						t.Errorf("a request without a place: %+v", p)
					}
					return false
				case <-time.After(time.Minute):
					t.Fatal("no answer")
				}
				panic("unreachable")
			}
			return take, func(who string) {
				before := s.server.Stats().InFlight
				open[who][0]()
				open[who] = open[who][1:]
				for s.server.Stats().InFlight == before {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}
