package crash

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/slimwire/swp/profiles/relay"
)

// asked is something that was asked of a relay about one delivery, or that a
// relay did with it.
type asked struct {
	what    string // see the constants of entries; died: it may die from now on
	payload string // digest
}

const died = "died"

// standing is how a delivery stands. The zero value is unknown to the relay.
type standing struct {
	payload string
	state   relay.State // Queued as long as it is delivered
}

// relayModel is what one delivery looks like from outside. What has no answer may
// have happened at any time since, or never: it ends at forever, where the model
// lets it happen without a trace.
var relayModel = porcupine.Model{
	Init: func() any { return standing{} },
	Step: func(s, in, out any) (bool, any) {
		now, do, answer := s.(standing), in.(asked), out.(string)
		switch do.what {
		case didPublish:
			return now.publish(do.payload, answer)
		case didGet:
			return now.state == relay.Queued && now.payload == do.payload, now
		case didAsk:
			return now.answers(answer), now
		case didAck:
			now.end(relay.Acked)
		case died:
			now.end(relay.DeadState)
		}
		return true, now
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
}

// forever is after all that happens.
const forever = 1<<63 - 1

func (s standing) publish(payload, answer string) (bool, standing) {
	unknown := s.state == ""
	taken := standing{payload, relay.Queued}
	switch answer {
	case answerFresh:
		return unknown, taken
	case answerTwice:
		return !unknown && s.payload == payload, s
	case answerClash:
		return !unknown && s.payload != payload, s
	}
	if unknown {
		return true, taken
	}
	return true, s
}

func (s standing) answers(state string) bool {
	switch s.state {
	case "":
		return state == answerNone
	case relay.Queued:
		return state == string(relay.Queued) || state == string(relay.Retry)
	}
	return state == string(s.state)
}

func (s *standing) end(state relay.State) {
	if s.state == relay.Queued {
		s.state = state
	}
}
