package profiles_test

import (
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
)

// A wait inside another one ends within two thirds of it. With equal waits the outer side gives up
// first half of the time, and loses what the inner one has collected.
func TestInnerWaitsAreBelowOuterOnes(t *testing.T) {
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
	}
}

func TestTheWholeOfACallIsAnHourOrSixTimesItsTimeout(t *testing.T) {
	for silence, want := range map[time.Duration]time.Duration{
		time.Second: time.Hour, 10 * time.Minute: time.Hour, 11 * time.Minute: 66 * time.Minute,
		profiles.MostWork: 6 * profiles.MostWork, profiles.MostWork + 1: profiles.MostWork + 1, 1<<63 - 1: 1<<63 - 1,
	} {
		if got := profiles.WholeWork(silence); got != want {
			t.Errorf("%v: %v, want %v", silence, got, want)
		}
	}
}
