package swp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
)

// A wait inside another one ends within two thirds of it. With equal waits the outer side gives up
// first half of the time, and loses what the inner one has collected.
// docs/architecture.md has the table.
func TestInnerWaitsAreBelowOuterOnes(t *testing.T) {
	var b strings.Builder
	b.WriteString("| outer wait: inner wait | outer | inner |\n|---|---|---|\n")
	short := func(d time.Duration) string { // 3m and not 3m0s
		return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
	}
	for _, pair := range []struct {
		name         string
		outer, inner time.Duration
	}{
		{"a client lists tools: an endpoint waits for its servers and partners", profiles.AnswerWait, profiles.ListWait},
		{"an endpoint lists tools: its partner waits for servers", profiles.ListWait, profiles.BehindWait},
		{"a client lists agents: an endpoint waits for its partners", profiles.AnswerWait, profiles.BehindWait},
		{"an operator reads the tools of a partner: the partner waits for servers", profiles.PageWait, profiles.BehindWait},
		{"a partner lists tools: servers are read in turn", profiles.BehindWait, profiles.TurnWait},
		{"a client asks for a card: an endpoint asks the agent", profiles.AnswerWait, profiles.CardWait},
		{"a client calls through a link: the link is down", profiles.AnswerWait, profiles.LinkWait},
		{"a handler lists tools", profiles.HandlerWait, profiles.ListWait},
		{"a handler asks an agent for its card", profiles.HandlerWait, profiles.CardWait},
		{"a large frame is written: the peer waits for room", profiles.LargeWait, profiles.RoomWait},
		{"a page of an operator is written", profiles.AnswerWait, profiles.PageWait},
		{"tools are read: the server starts, and its era is asked", profiles.ReadWait, profiles.ProbeWait},
		{"tools are read: both questions about the era of a URL", profiles.ReadWait, 2 * profiles.QuestionWait},
		{"the era is asked: a command answers the first question", profiles.ProbeWait, profiles.DiscoverWait},
		{"a first start by npx, which was measured at 23 s", profiles.ProbeWait, 23 * time.Second},
		{"a call: its server waits for the client", profiles.WorkWait, profiles.UnreadWait},
		{"a session: a connection whose peer does not read ends", profiles.UnreadWait, profiles.WriteWait},
		{"a session: a server with several clients", profiles.UnreadWait, profiles.SharedWait},
		{"a call: the reader of tools", profiles.WorkWait, profiles.ReadWait},
		{"a call behind a partner: its owner allows the most", profiles.BehindWork, profiles.MostWork},
		{"the longest call: the default", profiles.MostWork, profiles.WorkWait},
		{"a call altogether: without a message", profiles.WholeWork(profiles.WorkWait), profiles.WorkWait},
	} {
		if pair.inner*3/2 > pair.outer {
			t.Errorf("%s: %v in a wait of %v, want at most two thirds", pair.name, pair.inner, pair.outer)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", pair.name, short(pair.outer), short(pair.inner))
	}
	printed(t, "docs/architecture.md", "waits", b.String())
}
