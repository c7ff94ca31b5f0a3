package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/relay"
)

// script writes journals for the judge, in seconds of a clock of its own.
type script struct {
	*history
	readers map[string]*reader
}

func newScript() *script {
	s := &script{history: newHistory(), readers: make(map[string]*reader)}
	s.relays = []life{{from: at(0), killed: span{at(100), at(101)}}, {from: at(102)}}
	return s
}

func at(second float64) int64 { return int64(second * float64(time.Second)) }

// say adds an entry to the journal of a process.
func (s *script) say(who string, second float64, e entry) {
	r := s.readers[who]
	if r == nil {
		r = s.reader(who)
		s.readers[who] = r
	}
	e.At = at(second)
	if e.Since != 0 {
		e.Since = at(second) - e.Since
	}
	r.read(&e)
}

func (s *script) publish(second float64, op uint64, made parcel, answer string) {
	s.say("publisher", second, entry{Op: op, What: didPublish, ID: made.id, Topic: made.topic(), Payload: digest(made.payload()), TTL: made.ttl()})
	if answer != "" {
		s.say("publisher", second+0.1, entry{Op: op, What: hadAnswer, ID: made.id, Text: answer})
	}
}

// connect opens the one connection of a consumer.
func (s *script) connect(who string, second float64) {
	s.say(who, second, entry{Op: 1, What: didConnect, Since: int64(time.Millisecond)})
}

// get has a consumer get a delivery and say what it will answer half a second later.
func (s *script) get(who string, second float64, op uint64, made parcel, answer string) {
	s.say(who, second, entry{Op: op, What: didGet, ID: made.id, Topic: made.topic(), Payload: digest(made.payload()), Conn: 1})
	if answer != "" {
		s.say(who, second+0.5, entry{Op: op, What: answer, ID: made.id})
	}
}

func (s *script) ask(second float64, id, answer string) {
	s.say("auditor", second, entry{Op: 1000, What: didAsk, ID: id, Since: int64(time.Millisecond), Text: answer})
}

// died has a delivery dead in the end, and its publisher told.
func (s *script) died(made parcel, d relay.Dead) {
	d.Topic, d.Told = made.topic(), true
	s.dead[made.id] = grave{Dead: d}
	s.say("publisher", 8, entry{Op: 900, What: hadNotice, ID: made.id, Text: string(d.Reason)})
	s.ask(9, made.id, string(relay.DeadState))
}

// faults returns what the judge finds wrong.
func (s *script) faults() (list []string) {
	for _, r := range s.readers {
		r.end()
	}
	s.judge(func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) })
	return list
}

// The checks that the crash test of the relay rests on: each of these histories
// is judged as it should be.
func TestTheJudgeOfTheRelayFindsWhatIsWrong(t *testing.T) {
	one, refused, short := parcel{id: "one-a"}, parcel{id: "one-r"}, parcel{id: "one-t"}
	acked, dead := string(relay.Acked), relay.Dead{Reason: relay.Rejected}
	// c1 and c2 are connected all the time that the first swpd runs.
	ready := func(s *script) {
		s.connect("c1", 1)
		s.connect("c2", 1)
	}
	once := func(s *script) {
		ready(s)
		s.publish(2, 1, one, answerFresh)
		s.get("c1", 3, 2, one, didAck)
	}
	for name, test := range map[string]struct {
		tell func(*script)
		want string // empty: nothing is wrong
	}{
		"processed": {func(s *script) { once(s); s.ask(9, one.id, acked) }, ""},
		"published twice": {func(s *script) {
			once(s)
			s.publish(5, 2, one, answerTwice)
			s.ask(9, one.id, acked)
		}, ""},
		"the ACK lost": {func(s *script) {
			ready(s)
			s.publish(2, 1, one, "")
			s.publish(3, 2, one, answerTwice)
			s.get("c1", 4, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"never arrived": {func(s *script) { ready(s); s.publish(2, 1, one, ""); s.ask(9, one.id, answerNone) }, ""},
		"another payload refused": {func(s *script) {
			once(s)
			s.publish(5, 2, parcel{one.id, 1}, answerClash)
			s.ask(9, one.id, acked)
		}, ""},
		"refused once too often": {func(s *script) {
			ready(s)
			refusedAlways := parcel{id: "one-x"}
			s.publish(2, 1, refusedAlways, answerFresh)
			for i := range maxAttempts + 1 {
				s.get("c1", 3+float64(i), uint64(2+i), refusedAlways, didNack)
			}
			s.dead[refusedAlways.id] = grave{Dead: relay.Dead{Reason: relay.MaxAttempts, Attempts: maxAttempts, Topic: refusedAlways.topic(), Told: true}}
			s.say("publisher", 50, entry{Op: 900, What: hadNotice, ID: refusedAlways.id, Text: string(relay.MaxAttempts)})
			s.ask(60, refusedAlways.id, string(relay.DeadState))
		}, "consumers saw 21 and 21 have to count"},
		"lost": {func(s *script) { ready(s); s.publish(2, 1, one, answerFresh); s.ask(9, one.id, answerNone) }, "is lost"},
		"lost, and known to be": {func(s *script) {
			ready(s)
			s.publish(2, 1, one, answerFresh)
			s.ask(9, one.id, acked)
		}, "no consumer has acknowledged it"},
		"not asked for": {func(s *script) { once(s) }, "nobody knows"},
		"left over":     {func(s *script) { once(s); s.ask(9, one.id, string(relay.Retry)) }, "in the end"},
		"invented": {func(s *script) {
			ready(s)
			s.get("c1", 3, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, "was never published"},
		"altered": {func(s *script) {
			ready(s)
			s.publish(2, 1, one, answerFresh)
			s.get("c1", 3, 2, parcel{one.id, 1}, didAck)
			s.ask(9, one.id, acked)
		}, "was altered"},
		"delivered with what was refused": {func(s *script) {
			once(s)
			s.publish(2.5, 2, parcel{one.id, 1}, answerClash)
			s.get("c1", 3.1, 3, parcel{one.id, 1}, didAck)
			s.ask(9, one.id, acked)
		}, "no order"},
		"new again":         {func(s *script) { once(s); s.publish(5, 2, one, answerFresh); s.ask(9, one.id, acked) }, "no order"},
		"clash of the same": {func(s *script) { once(s); s.publish(5, 2, one, answerClash); s.ask(9, one.id, acked) }, "no order"},
		"duplicate of another": {func(s *script) {
			once(s)
			s.publish(5, 2, parcel{one.id, 1}, answerTwice)
			s.ask(9, one.id, acked)
		}, "no order"},
		"twice": {func(s *script) {
			once(s)
			s.get("c2", 6, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, "without a cause"},
		"twice after it was settled": {func(s *script) {
			once(s)
			s.ask(5, one.id, acked)
			s.connect("c3", 110) // to the next swpd, so there would be a cause
			s.get("c3", 111, 2, one, didAck)
			s.ask(120, one.id, acked)
		}, "no order"},
		"twice, because swpd was killed": {func(s *script) {
			s.relays[0].killed, s.relays[1].from = span{at(4), at(4.1)}, at(4.2)
			once(s)
			s.connect("c3", 6)
			s.get("c3", 8, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"twice, and swpd was killed long after": {func(s *script) {
			once(s)
			s.connect("c3", 110)
			s.get("c3", 111, 2, one, didAck)
			s.ask(120, one.id, acked)
		}, "without a cause"},
		"twice, because the first came late over a link that was cut": {func(s *script) {
			s.relays[0].killed, s.relays[0].stalls = span{at(1.5), at(1.9)}, true
			s.relays[1].from = at(1.9)
			once(s)
			s.get("c2", 6, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"twice, long after a link was cut": {func(s *script) {
			s.relays[0].killed, s.relays[0].stalls = span{at(1.5), at(1.9)}, true
			s.relays[1].from = at(1.9)
			ready(s)
			s.publish(2, 1, one, answerFresh)
			s.get("c1", 7, 2, one, didAck)
			s.get("c2", 8, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, "without a cause"},
		"twice, because the consumer was killed": {func(s *script) {
			once(s)
			s.kills["c1"] = span{at(4), at(4.1)}
			s.get("c2", 6, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"twice, and the consumer was killed later": {func(s *script) {
			once(s)
			s.kills["c1"] = span{at(7), at(7.1)}
			s.get("c2", 6, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, "without a cause"},
		"twice, because the connection ended": {func(s *script) {
			once(s)
			s.say("c1", 4, entry{Op: 1, What: didDrop})
			s.get("c2", 6, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"twice, because of a NACK": {func(s *script) {
			ready(s)
			s.publish(2, 1, one, answerFresh)
			s.get("c1", 3, 2, one, didNack)
			s.get("c1", 4, 3, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"twice, because of silence": {func(s *script) {
			ready(s)
			s.publish(2, 1, one, answerFresh)
			s.get("c1", 3, 2, one, didIgnore)
			s.get("c2", 8.1, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, ""},
		"too soon after silence": {func(s *script) {
			ready(s)
			s.publish(2, 1, one, answerFresh)
			s.get("c1", 3, 2, one, didIgnore)
			s.get("c2", 4, 2, one, didAck)
			s.ask(9, one.id, acked)
		}, "without a cause"},
		"a connection lost for no reason": {func(s *script) {
			once(s)
			s.say("c1", 4, entry{Op: 1, What: wasDropped, Text: "why"})
			s.ask(9, one.id, acked)
		}, "lost a connection"},
		"refused": {func(s *script) {
			ready(s)
			s.publish(2, 1, refused, answerFresh)
			s.get("c1", 3, 2, refused, didReject)
			s.died(refused, dead)
		}, ""},
		"dead without a refusal": {func(s *script) {
			ready(s)
			s.publish(2, 1, refused, answerFresh)
			s.died(refused, dead)
		}, "no consumer has refused it"},
		"dead for no reason": {func(s *script) { once(s); s.died(one, dead) }, "is dead for"},
		"dead too soon": {func(s *script) {
			ready(s)
			s.publish(2, 1, short, answerFresh)
			s.died(short, relay.Dead{Reason: relay.TTLExpired, Taken: 2000, Died: 2500})
		}, "is dead after 500 ms"},
		"dead in time": {func(s *script) {
			ready(s)
			s.publish(2, 1, short, answerFresh)
			s.died(short, relay.Dead{Reason: relay.TTLExpired, Taken: 2000, Died: 4000})
		}, ""},
		"dead and not listed": {func(s *script) {
			ready(s)
			s.publish(2, 1, refused, answerFresh)
			s.get("c1", 3, 2, refused, didReject)
			s.ask(9, refused.id, string(relay.DeadState))
		}, "is not in"},
		"dead, and nobody was told": {func(s *script) {
			ready(s)
			s.publish(2, 1, refused, answerFresh)
			s.get("c1", 3, 2, refused, didReject)
			s.died(refused, dead)
			s.of(refused.id).noticed = nil
		}, "was told [] of its death"},
		"dead while somebody asked, and told by the answer": {func(s *script) {
			ready(s)
			s.publish(2, 1, short, answerFresh)
			s.say("auditor", 3, entry{What: didAskAll, Since: int64(time.Second)}) // what say takes from 3 s
			s.died(short, relay.Dead{Reason: relay.TTLExpired, Taken: at(2), Died: at(4)})
			s.of(short.id).noticed = nil
		}, ""},
		"said to be dead": {func(s *script) {
			once(s)
			s.say("publisher", 5, entry{Op: 900, What: hadNotice, ID: one.id, Text: string(relay.Rejected)})
			s.ask(9, one.id, acked)
		}, "was said to be dead"},
		"answered while the relay had no database": {func(s *script) {
			s.relays = []life{{from: at(0), killed: span{at(20), at(24)}}, {from: at(24)}}
			s.connect("c1", 1)
			s.connect("c2", 1)
			s.publish(19, 1, one, answerFresh)
			s.get("c1", 21, 2, one, didAck)
			s.get("c2", 23, 2, one, didAck)
			s.ask(50, one.id, acked)
		}, ""},
		"a fault that a process saw": {func(s *script) {
			once(s)
			s.say("publisher", 5, entry{Op: 901, What: sawFault, ID: one.id, Text: "published: odd"})
			s.ask(9, one.id, acked)
		}, "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			test.tell(s)
			got := strings.Join(s.faults(), "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
