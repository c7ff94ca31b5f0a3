package conformance

import (
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Which of the two comes first is up to the scheduler, and no verdict depends on it.
func TestACallerMayJudgeAnAnswerBeforeTheEndpointDoes(t *testing.T) {
	id := []byte("0123456789abcdef")
	bad := profiles.Errorf(profiles.InvalidProfilePayload, "not what was asked for")
	for name, order := range map[string]func(judge, verdict func()){
		"the endpoint first": func(judge, verdict func()) { verdict(); judge() },
		"the caller first":   func(judge, verdict func()) { judge(); verdict() },
	} {
		s := newStage(&Input{})
		c := s.called(id)
		session := new(endpoint.Session)
		order(
			func() { s.judged(c, bad); s.over(id) },
			func() { s.Verdict(endpoint.Verdict{Session: session, Seq: 1, MsgID: id}) },
		)
		s.Verdict(endpoint.Verdict{Session: session, Seq: 2, MsgID: id})
		if got := s.verdicts["a"]; got[1].Code != profiles.InvalidProfilePayload || got[2].Code != profiles.OK || len(got) != 2 {
			t.Errorf("%s: verdicts %v", name, got)
		}
		if len(s.calls) != 0 {
			t.Errorf("%s: the call is still known", name)
		}
	}
}
