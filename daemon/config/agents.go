package config

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
)

// A2AAgent is an agent of A2A 1.0 at a URL.
type A2AAgent struct {
	URL       string            `yaml:"url" form:"url"`
	Binding   string            `yaml:"binding" choice:"jsonrpc,rest"` // empty: as the card says
	Card      string            `yaml:"card" form:"url"`               // empty: /.well-known/agent-card.json on the host of URL
	Headers   map[string]string `yaml:"headers"`                       // of every request, such as credentials
	Calls     int               `yaml:"calls"`                         // operations at once
	Streams   int               `yaml:"streams"`                       // limit of concurrent streams
	Timeout   time.Duration     `yaml:"timeout"`                       // without an answer or an event
	Deadline  time.Duration     `yaml:"deadline"`
	Retention time.Duration     `yaml:"retention"` // of the owner of a task, after its last use
	Hints     Hints             `yaml:"hints"`
	Slip      SlipA2A           `yaml:"slip"`
}

// SlipA2A checks messages in SLIP before the agent gets them.
type SlipA2A struct {
	Mismatch    string `yaml:"mismatch" choice:"refuse,fallback"` // empty: SLIP is the agent's own affair
	RequireHash bool   `yaml:"require_hash"`                      // messages without ucrHash are refused
	Required    bool   `yaml:"required"`                          // refuse messages of clients that have not opted in
}

func (s *SlipA2A) check(p *problems, key string, absent bool) {
	if s.Mismatch == "" && !absent {
		p.add(key+".mismatch", "missing; set refuse or fallback for messages with other anchors")
	}
}

// defaultAgent has the defaults of an entry.
var defaultAgent = A2AAgent{Calls: 64, Streams: 256, Timeout: profiles.WorkWait, Retention: 30 * 24 * time.Hour}

// Header is the headers of the agent.
func (a *A2AAgent) Header() http.Header {
	h := make(http.Header, len(a.Headers))
	for name, value := range a.Headers {
		h.Set(name, value)
	}
	return h
}

// managed are headers of the transfer of a request, which the configuration cannot set.
var managed = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
	"Keep-Alive", "Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "A2a-Version", "A2a-Extensions", "Traceparent", "Tracestate",
	"Swp-Policy", "Swp-Delegation",
}

var (
	headerName  = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

func (c *Config) checkAgents(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Agents)) {
		a, key := c.A2A.Agents[name], "a2a.agents."+name
		checkName(p, key, name, "; '/' separates a partner from its agent")
		if _, taken := c.AGDISC.Cards[name]; taken && a.Card != "" {
			p.add(key+".card", "is set while agdisc.cards.%s holds the card of this agent; remove one", name)
		}
		if a.URL == "" {
			p.add(key+".url", "missing; name where the agent is, such as http://127.0.0.1:8080/a2a")
		} else if hasQuery(a.URL) {
			p.add(key+".url", "%.200q has a query, and paths are appended to it; remove it", a.URL)
		}
		a.Slip.check(p, key+".slip", a.Slip == SlipA2A{})
		checkHeaders(p, key+".headers", a.Headers, make(map[string]bool))
		for k, n := range map[string]int{"calls": a.Calls, "streams": a.Streams} {
			if n < 1 || n > MaxTasks {
				p.add(key+"."+k, "is %d, want 1 to %d", n, MaxTasks)
			}
		}
		checkTimeout(p, key+".timeout", a.Timeout)
		if a.Retention <= 0 {
			p.add(key+".retention", "is 0, want a duration above 0, such as 720h")
		}
		if a.Deadline <= 0 && p.isSet(key+".deadline") {
			p.add(key+".deadline", "is 0, want a duration above 0, such as 5m; without it a2a.deadline holds")
		}
	}
}
