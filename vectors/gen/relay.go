package main

import (
	"strings"

	"github.com/slimwire/swp/vectors"
)

const (
	relay = 19

	// Extensions of a delivery: the identity of its publisher, and how many
	// endpoints it has passed.
	publishedBy = 16
	passed      = 48

	// What peers are called.
	peerA = "spiffe://peer.invalid/a"
	peerC = "spiffe://peer.invalid/c"

	orders = "orders" // a topic

	sec  = 1000
	week = 7 * day
)

func relayPublish(msgID, id, topic, payload string, more ...[]byte) message {
	return of(relay, 1, msgID, opaque(1, id), opaque(2, topic), opaque(3, payload), join(more...))
}

func ttl(ms uint64) []byte { return number(4, ms) }

func relayAck(msgID, id string) message { return of(relay, 2, msgID, opaque(1, id)) }

// relayNack is a RELAY_NACK of a consumer for d-1 that writes retryable even if false.
func relayNack(msgID string, retryable uint64) message {
	return of(relay, 3, msgID, opaque(1, "d-1"), number(2, retryable), opaque(3, "busy"))
}

// relayStatus asks how a delivery stands.
func relayStatus(id string) message { return of(relay, 4, "status 1", opaque(1, id)) }

// stands is the answer.
func stands(why, id, state string, attempts uint64) step {
	return answered(why, of(relay, 4, usualID, opaque(1, id), opaque(2, state), number(3, attempts)))
}

// relayErr is a RELAY_ERR of a code.
func relayErr(why, code string) step {
	return out(why, of(relay, 5, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// publishes hands over a delivery to orders, of which the endpoint takes custody.
func publishes(id string, more ...[]byte) []step {
	return []step{
		in("a delivery", relayPublish("publish "+id, id, orders, "payload of "+id, more...).frame(), accept),
		answered("custody is taken", relayAck(usualID, id)),
	}
}

// again hands over the same once more, which is told which attempt it is in.
func again(id string, attempts uint64, ms int) []step {
	return []step{
		in("the same again", relayPublish("publish once more", id, orders, "payload of "+id).frame(), accept).at(ms),
		duplicate(id, attempts),
	}
}

// conflict hands over something else under the id of a delivery.
func conflict(why, topic, payload string) []step {
	return []step{
		in(why, relayPublish("publish else", "d-1", topic, payload).frame(), badPayload),
		relayErr("is refused", "CONFLICT"),
	}
}

func duplicate(id string, attempts uint64) step {
	return stands("it is a duplicate", id, "duplicate", attempts)
}

// asks wants a delivery to stand so.
func asks(id, state string, attempts uint64) []step {
	return []step{in("how does it stand", relayStatus(id).frame(), accept), stands("so", id, state, attempts)}
}

// unknown expects that a delivery is not known to the asking peer.
func unknown(why, id string) []step {
	return []step{in(why, relayStatus(id).frame(), reject("NOT_FOUND", "")), relayErr("it is not known", "NOT_FOUND")}
}

// attaches makes a consumer of a topic, here with the params as the answer has
// them.
func attaches(msgID, id, params string) []step {
	return []step{
		in("a consumer attaches", rpcReq(msgID, id, "swp.relay.attach", opaque(3, params)).frame(), accept),
		answered("which is confirmed", rpcItem(id, 1, params)),
	}
}

const two = `{"topic":"orders","max_in_flight":2}`

// consumer is an ordinary one.
func consumer(conn string) []step { return on(conn, attaches("attach 1", rpc1, two)...) }

// on is steps on another connection.
func on(conn string, list ...step) []step {
	for i := range list {
		if list[i].Conn == "" {
			list[i].Conn = conn
		}
	}
	return list
}

// deliveryOf is a delivery as its consumer gets it.
func deliveryOf(publisher, id, topic, payload string, more ...[]byte) message {
	return relayPublish(usualID, id, topic, payload, more...).withExtension(publishedBy, publisher).withExtension(passed, "\x01")
}

// comes expects a delivery of the first peer, with a new msg_id.
func comes(why, id string, more ...[]byte) step {
	return out(why, deliveryOf(peerA, id, orders, "payload of "+id, more...).frame(), vectors.Expect{FreshMsgID: new(true)}).on("b")
}

// What is stored of how a delivery went.
func processed(id string) step {
	return learns("it is stored that it is processed", relayAck(usualID, id).frame())
}
func failedOnce(id string) step {
	return learns("it is stored that the attempt has failed", of(relay, 3, usualID, opaque(1, id), number(2, yes)).frame())
}
func isDead(id string) step {
	return learns("it is stored that it is dead", of(relay, 3, usualID, opaque(1, id)).frame())
}
func isKnown(id string) step {
	return learns("it is stored that the publisher knows", of(relay, 4, usualID, opaque(1, id), opaque(2, "dead-letter")).frame())
}

// processes acknowledges the last delivery.
func processes(id string) []step { return processesOn("b", id) }

func processesOn(conn, id string) []step {
	return []step{in("which is processed", relayAck(usualID, id).frame(), accept).answers().on(conn), processed(id)}
}

// refuses answers the last delivery, of d-1, with a NACK.
func refuses(retryable uint64) []step {
	const id = "d-1"
	end := isDead(id)
	if retryable == yes {
		end = failedOnce(id)
	}
	return []step{in("which is not processed", relayNack(usualID, retryable).frame(), accept).answers().on("b"), end}
}

// detaches ends an attachment.
func detaches() []step {
	return []step{
		in("the consumer detaches", of(rpc, 5, "cancel 1", opaque(1, rpc1)).frame(), accept),
		out("which ends its call", rpcErr(rpc1, "cancelled", 0, "any").frame(), vectors.Expect{SameMsgID: new(false), Free: []uint64{4}}),
	}
}

// waits advances the clock to ms, at which an alarm of the endpoint is due.
func waits(why string, ms int) step {
	return step{Step: vectors.Step{Why: why, Dir: vectors.Wait, AtMs: ms}}
}

// hangsUp ends a connection.
func hangsUp(why string) step {
	return in(why, nil, verdict{outcome: "none"}, vectors.Expect{Close: new(true)}).end()
}

// dueAt are the instants of the attempts when nobody answers: 30 s each, and then
// a pause of 1 s that doubles.
var dueAt = []int{0, 31 * sec, 63 * sec, 97 * sec, 135 * sec}

// unanswered are attempts, from 1, that nobody answers. They end with the last
// ack timeout.
func unanswered(first, last int, id string) (all []step) {
	for n := first; n <= last; n++ {
		state := "retry"
		if n == 1 {
			state = "queued"
		} else {
			all = append(all, waits("the pause is over", dueAt[n-1]))
		}
		end := failedOnce(id)
		if n == len(dueAt) {
			end = isDead(id)
		}
		all = steps(all, one(comes("the next attempt", id)), asks(id, state, uint64(n)),
			one(waits("nobody answers", dueAt[n-1]+30*sec), end))
	}
	return all
}

// notice is what a publisher is told of a delivery that is dead. retryable, which
// is false, is the default value.
func notice(why, id, reason string) step {
	return out(why, of(relay, 3, usualID, opaque(1, id), opaque(3, reason)).frame(), vectors.Expect{FreshMsgID: new(true)})
}

// noted answers a notice.
func noted(id string) []step { return []step{notes(id), isKnown(id)} }

func notes(id string) step {
	return in("the publisher has noted it", of(relay, 4, usualID, opaque(1, id), opaque(2, "dead-letter"), number(3, 1)).frame(), accept).answers()
}

// deadList asks for the dead deliveries of a peer.
func deadList(why, params, page string) []step {
	return []step{
		in(why, rpcReq("dead 001", rpc2, "swp.relay.dead", opaque(3, params)).frame(), accept),
		answered("so", rpcResp(rpc2, page)),
	}
}

// settlesAt asks twice for the state of d-1 at a time, so that effects of the clock have
// arrived before the second answer.
func settlesAt(ms int, state string, attempts uint64) []step {
	const id = "d-1"
	first := asks(id, state, attempts)
	first[0] = first[0].at(ms)
	return steps(first, asks(id, state, attempts))
}

// dies wants d-1 to die after one attempt, or none, for a reason, and nothing to follow.
func dies(why, reason string, afterMs int) []step {
	const id, attempts = "d-1", 1
	return steps(
		one(notice(why, id, reason)), noted(id),
		asks(id, "dead-letter", attempts),
		settlesAt(afterMs, "dead-letter", attempts),
	)
}

// badRelay is a message that is refused, with RELAY_ERR.
func badRelay(why string, m message) sibling {
	return scene(why, in("it", m.frame(), badPayload), relayErr("is refused", "INVALID_PROFILE_PAYLOAD"))
}

var relays = []vector{
	{
		id: "relay_0001_at_least_once", about: "a delivery is made again until a consumer acknowledges it",
		expect: accept, bin: relayPublish("publish 1", "d-1", orders, "payload of d-1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: steps(
			consumer("b"),
			one(mainStep("a delivery"), answered("custody is taken", relayAck(usualID, "d-1"))),
			one(comes("it comes to the consumer", "d-1"), hangsUp("who is gone without a word").on("b"), failedOnce("d-1")),
			consumer("b.again"),
			one(waits("after a pause", 1*sec), comes("it comes again", "d-1").on("b.again")),
			asks("d-1", "retry", 2),
			on("b.again", detaches()...), on("b.again", attaches("attach 2", rpc2, two)...),
			one(waits("what it was sent it does not answer", 31*sec), failedOnce("d-1")),
			one(waits("and after a pause", 33*sec), comes("it comes again", "d-1").on("b.again")),
			processesOn("b.again", "d-1"),
			settlesAt(35*sec, "acked", 3), settlesAt(day-1, "acked", 3),
		),
		siblings: []sibling{
			scene("what is published before anybody is there is kept", steps(
				publishes("d-1"), publishes("d-2"), settlesAt(6*day, "queued", 1),
				consumer("b"),
				one(comes("in the order of custody", "d-1"), comes("and under ids of their own", "d-2")), processes("d-2"),
				asks("d-1", "queued", 1), unknown("what is processed after its window is forgotten", "d-2"),
			)...),
			scene("one consumer gets it", steps(
				consumer("b"), consumer("c"), publishes("d-1"), one(comes("the first", "d-1")), processes("d-1"),
				publishes("d-2"), one(comes("they take turns", "d-2").on("c")),
				asks("d-2", "queued", 1),
			)...),
			scene("who does not have it cannot say how it went", steps(
				consumer("b"), consumer("c"), publishes("d-1"),
				one(
					comes("one of two consumers", "d-1"),
					in("the other says that it is processed", relayAck("stranger", "d-1").frame(), accept).on("c"),
					in("so does the publisher", relayAck("stranger", "d-1").frame(), accept),
					in("and says that it is not", relayNack("stranger", 0).frame(), reject("NOT_FOUND", "")),
					relayErr("of which nothing is known", "NOT_FOUND"),
				),
				asks("d-1", "queued", 1),
				one(waits("nobody else answers", 30*sec), failedOnce("d-1"), waits("after a pause", 31*sec)),
				one(comes("it comes to the other one, who was not silent", "d-1").on("c")),
				asks("d-1", "retry", 2),
			)...),
			scene("an acknowledgement of something else is none", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")),
				on("b", in("another id under its msg_id", relayAck(usualID, "d-2").frame(), accept).answers(), failedOnce("d-1")),
				one(waits("after a pause", 1*sec), comes("it comes again", "d-1")),
				on("b", in("an error", of(relay, 5, usualID, opaque(1, "INTERNAL_ERROR")).frame(), accept).answers(), failedOnce("d-1")),
				one(waits("after a pause", 3*sec), comes("it comes again", "d-1")),
				on("b", in("how it stands elsewhere", of(relay, 4, usualID, opaque(1, "d-1"), opaque(2, "queued"), number(3, 1)).frame(), accept).answers(), failedOnce("d-1")),
				one(waits("after a pause", 7*sec), comes("it comes again", "d-1")), processes("d-1"),
				settlesAt(9*sec, "acked", 4),
			)...),
			scene("an acknowledgement may have a msg_id of its own", steps(
				consumer("b"), publishes("d-1"),
				one(comes("a delivery", "d-1"), in("which is processed", relayAck("ack no 1", "d-1").frame(), accept).on("b"), processed("d-1")),
				publishes("d-2"), one(comes("the next", "d-2")), settlesAt(29*sec, "acked", 1),
			)...),
			scene("two publishers may have chosen the same id: then the publisher says which is meant", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), on("c", publishes("d-1")...),
				one(out("another of that id", deliveryOf(peerC, "d-1", orders, "payload of d-1").frame(), vectors.Expect{FreshMsgID: new(true)}).on("b")),
				one(in("one is processed, and nobody knows which", relayAck("ack no 1", "d-1").frame(), accept).on("b")),
				one(in("this one", relayAck("ack no 2", "d-1").withExtension(publishedBy, peerA).frame(), accept).on("b"), processed("d-1")),
				asks("d-1", "acked", 1), on("c", asks("d-1", "queued", 1)...), on("c", settlesAt(29*sec, "queued", 1)...),
			)...),
			scene("a consumer that is a relay and has it already", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")),
				on("b", in("is a duplicate there", of(relay, 4, usualID, opaque(1, "d-1"), opaque(2, "duplicate"), number(3, 1)).frame(), accept).answers(), processed("d-1")),
				asks("d-1", "acked", 1),
			)...),
			scene("a topic is literal text", steps(
				on("b", attaches("attach 1", rpc1, `{"topic":"orders.*","max_in_flight":2}`)...),
				on("c", attaches("attach 1", rpc1, `{"topic":"\u003e","max_in_flight":2}`)...),
				one(in("another topic", relayPublish("publish 1", "d-1", "orders.new", "p").frame(), accept), answered("custody is taken", relayAck(usualID, "d-1"))),
				one(in("that topic", relayPublish("publish 2", "d-2", "orders.*", "p").frame(), accept), answered("custody is taken", relayAck(usualID, "d-2"))),
				one(out("comes", deliveryOf(peerA, "d-2", "orders.*", "p").frame(), vectors.Expect{FreshMsgID: new(true)}).on("b")),
				asks("d-1", "queued", 1), asks("d-1", "queued", 1),
			)...),
			scene("a publisher is who the channel says, and nobody else", steps(
				one(in("in the name of another", relayPublish("publish 1", "d-1", orders, "p").withExtension(publishedBy, peerC).frame(), reject("SECURITY_POLICY", ""))),
				one(relayErr("is refused", "SECURITY_POLICY")),
				unknown("and not stored", "d-1"), on("c", unknown("nor for the other", "d-1")...),
			)...),
			scene("a delivery passes eight endpoints and no more", steps(
				consumer("b"),
				one(in("it has passed seven", relayPublish("publish 1", "d-1", orders, "p").withExtension(passed, "\x07").frame(), accept)),
				one(answered("custody is taken", relayAck(usualID, "d-1"))),
				one(out("the eighth says so", relayPublish(usualID, "d-1", orders, "p").withExtension(publishedBy, peerA).withExtension(passed, "\x08").frame(),
					vectors.Expect{FreshMsgID: new(true)}).on("b")), processes("d-1"),
				one(in("it has passed eight", relayPublish("publish 2", "d-2", orders, "p").withExtension(passed, "\x08").frame(), badPayload)),
				one(relayErr("and stops here", "INVALID_PROFILE_PAYLOAD")),
				unknown("it is not stored", "d-2"),
			)...),
		},
	},
	{
		id: "relay_0002_dedupe_delivery_id", about: "a delivery_id of a publisher is one delivery for as long as the window lasts",
		expect: accept, bin: relayPublish("publish again", "d-1", orders, "payload of d-1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Clock: &vectors.Clock{NowUnixMs: now}},
		transcript: steps(
			consumer("b"), publishes("d-1"), one(comes("the consumer gets it", "d-1")),
			one(mainStep("the same again").at(10*sec), duplicate("d-1", 1)), processes("d-1"),
			again("d-1", 1, 11*sec),
			conflict("another payload", orders, "payload of d-2"),
			conflict("another topic", "ORDERS", "payload of d-1"),
			conflict("a border shifted", orders+"p", "ayload of d-1"),
			on("c", unknown("another publisher does not know it", "d-1")...),
			on("c", in("its own is another", relayPublish("publish 1", "d-1", orders, "of c").frame(), accept), answered("custody is taken", relayAck(usualID, "d-1"))),
			one(out("and comes", deliveryOf(peerC, "d-1", orders, "of c").frame(), vectors.Expect{FreshMsgID: new(true)}).on("b")), processes("d-1"),
			again("d-1", 1, day-1),
			one(in("after the window", relayPublish("publish anew", "d-1", orders, "payload of d-1").frame(), accept).at(day), answered("it is new", relayAck(usualID, "d-1"))),
			one(comes("and comes", "d-1")), processes("d-1"),
			asks("d-1", "acked", 1), again("d-1", 1, 2*day-1),
		),
		siblings: []sibling{
			scene("after the window even another payload is new", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), processes("d-1"),
				one(in("something else", relayPublish("publish 2", "d-1", "order", "else").frame(), accept).at(day), answered("is new", relayAck(usualID, "d-1"))),
				asks("d-1", "queued", 1),
			)...),
			scene("another time to live makes no other delivery of it", steps(
				publishes("d-1"), one(in("the same for a moment", relayPublish("publish 2", "d-1", orders, "payload of d-1", ttl(5)).frame(), accept), duplicate("d-1", 1)),
				settlesAt(1*sec, "queued", 1),
			)...),
			scene("what waits is known for longer", steps(
				publishes("d-1"), again("d-1", 1, 2*day), conflict("another payload", orders, "payload of d-2"),
				consumer("b"), one(comes("it comes once", "d-1")), processes("d-1"), publishes("d-2"), one(comes("then the next", "d-2")),
			)...),
			scene("a duplicate is told which attempt it is in", steps(
				// The clock stands still until the refusal is noted, which shows in the alarm of the pause.
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), refuses(yes),
				one(waits("after a pause", 1*sec), comes("it comes again", "d-1")), again("d-1", 2, 2*sec), processes("d-1"),
				again("d-1", 2, 3*sec),
			)...),
			scene("what is dead is known", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), refuses(0),
				one(notice("is dead", "d-1", "rejected")), noted("d-1"), again("d-1", 1, 2*sec),
				conflict("another payload", orders, "payload of d-2"), asks("d-1", "dead-letter", 1),
			)...),
			badRelay("no delivery_id", of(relay, 1, usualID, opaque(2, orders), opaque(3, "p"))),
			badRelay("an empty delivery_id", relayPublish(usualID, "", orders, "p")),
			badRelay("a delivery_id that is too long", relayPublish(usualID, strings.Repeat("i", 257), orders, "p")),
			badRelay("no topic", of(relay, 1, usualID, opaque(1, "d-1"), opaque(3, "p"))),
			badRelay("a topic that is too long", relayPublish(usualID, "d-1", strings.Repeat("t", 257), "p")),
			badRelay("a topic that is not UTF-8", relayPublish(usualID, "d-1", "\xff", "p")),
			badRelay("an acknowledgement of nothing", of(relay, 2, usualID, opaque(1, ""))),
			badRelay("a refusal of nothing", of(relay, 3, usualID, number(2, yes))),
			badRelay("a question about nothing", of(relay, 4, usualID, opaque(2, "queued"))),
			badRelay("the body of another message", typical.withProfile(relay).withPayload(string(relayAck(usualID, "d-1").payload))),
			badRelay("no wrapper", typical.withProfile(relay).withPayload("")),
			like("an answer that nobody asked for is no message of its own", of(relay, 5, usualID, opaque(1, "CONFLICT")).frame(), accept, vectors.Expect{Detail: "unsolicited"}),
			like("the longest names", relayPublish(usualID, strings.Repeat("i", 256), strings.Repeat("t", 256), "p").frame(), accept),
			like("octets that are no text, no payload, fields that nobody knows", of(relay, 1, usualID, opaque(1, "\x00\xff"), opaque(2, "é"), unlisted).frame(), accept),
		},
	},
	{
		id: "relay_0003_ack_timeout_retry", about: "what is not acknowledged in time is attempted again, with growing pauses",
		expect: accept, bin: relayAck(usualID, "d-1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: steps(
			consumer("b"), publishes("d-1"), unanswered(1, 4, "d-1"),
			one(waits("the pause is over", dueAt[4]), comes("the last attempt", "d-1"), mainStep("is acknowledged").answers().on("b"), processed("d-1")),
			settlesAt(dueAt[4]+29*sec, "acked", 5), settlesAt(day-1, "acked", 5),
		),
		siblings: []sibling{
			scene("a refusal that is worth another attempt does not wait for the timeout", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), settlesAt(10*sec, "queued", 1), refuses(yes),
				one(waits("the pause", 11*sec), comes("the next attempt", "d-1")), asks("d-1", "retry", 2),
				one(in("is refused under a msg_id of its own", relayNack("nack no 1", yes).frame(), accept).at(12*sec).on("b"), failedOnce("d-1")),
				one(stands("and counted", "d-1", "retry", 3).on("b")),
				one(waits("a longer pause", 14*sec), comes("the next attempt", "d-1")), asks("d-1", "retry", 3),
			)...),
			scene("an acknowledgement that comes too late is none", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1"), waits("is not answered in time", 30*sec), failedOnce("d-1")),
				one(in("but later", relayAck(usualID, "d-1").frame(), accept, vectors.Expect{Detail: "unsolicited"}).answers().on("b")),
				one(in("and under a msg_id of its own", relayAck("ack no 1", "d-1").frame(), accept).on("b")),
				one(waits("the pause is over", 31*sec), comes("it comes again", "d-1")), processes("d-1"),
				settlesAt(33*sec, "acked", 2),
			)...),
			scene("each attempt says what is left of the time to live", steps(
				consumer("b"), publishes("d-1", ttl(90*sec)),
				one(comes("all of it", "d-1", ttl(90*sec)), waits("nobody answers", 30*sec), failedOnce("d-1")),
				one(waits("the pause is over", 31*sec), comes("the rest", "d-1", ttl(59*sec))), processes("d-1"),
				asks("d-1", "acked", 2),
			)...),
			scene("a consumer that does not answer is passed over while there is another", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), consumer("c"),
				one(waits("is not answered", 30*sec), failedOnce("d-1"), waits("the pause is over", 31*sec), comes("and comes to another", "d-1").on("c")), processesOn("c", "d-1"),
				publishes("d-2"), one(comes("which is sent the next", "d-2").on("c")), processesOn("c", "d-2"),
			)...),
			scene("who detaches may still answer, and is sent nothing more", steps(
				consumer("b"), publishes("d-1"), one(comes("a delivery", "d-1")), on("b", detaches()...),
				publishes("d-2"), on("b", in("the first is processed", relayAck("ack no 1", "d-1").frame(), accept), processed("d-1")),
				consumer("c"), one(comes("the second comes to another", "d-2").on("c")), settlesAt(29*sec, "acked", 1),
			)...),
		},
	},
	{
		id: "relay_0004_dead_letter_reason", about: "what can not be delivered is dead, and its publisher is told why",
		expect: accept, bin: of(relay, 4, usualID, opaque(2, "dead-letter"), number(3, 1), opaque(1, "d-1")).frame(), // what is read comes last
		assertions: vectors.Assertions{MsgType: new(uint64(4)), Clock: &vectors.Clock{NowUnixMs: now}},
		transcript: steps(
			consumer("b"), publishes("d-1"), unanswered(1, 5, "d-1"),
			one(
				notice("five attempts are all", "d-1", "max_attempts"),
				waits("the publisher does not answer", 195*sec), waits("after a pause", 196*sec), notice("it is told again", "d-1", "max_attempts"),
				waits("nor now", 226*sec), waits("after a longer pause", 228*sec), notice("and again", "d-1", "max_attempts"),
				mainStep("until it says that it knows").answers(), isKnown("d-1"),
			),
			asks("d-1", "dead-letter", 5),
			deadList("it is listed", "", `{"dead":[{"delivery_id":"ZC0x","topic":"orders","reason_code":"max_attempts","attempt_count":5,`+
				`"taken_unix_ms":1771512916261,"died_unix_ms":1771513081261,"told":true,"size":14}]}`),
			settlesAt(300*sec, "dead-letter", 5), settlesAt(day-1, "dead-letter", 5),
		),
		siblings: []sibling{
			scene("the time to live is over, counted from custody", steps(
				settled(5*sec), publishes("d-1", ttl(60*sec)), one(waits("nobody has come", 65*sec), isDead("d-1")),
				dies("it is dead", "ttl_expired", 200*sec), consumer("b"), asks("d-1", "dead-letter", 1), asks("d-1", "dead-letter", 1),
			)...),
			scene("it is over between two attempts", steps(
				consumer("b"), publishes("d-1", ttl(30_500)),
				one(comes("an attempt", "d-1", ttl(30_500)), waits("is not answered", 30*sec), failedOnce("d-1"), waits("the pause is too long", 30_500), isDead("d-1")),
				dies("it is dead", "ttl_expired", 200*sec),
			)...),
			scene("it is over at the very instant of the next attempt", steps(
				consumer("b"), publishes("d-1", ttl(31*sec)),
				one(comes("an attempt", "d-1", ttl(31*sec)), waits("is not answered", 30*sec), failedOnce("d-1"), waits("the pause is over, and so is its time", 31*sec), isDead("d-1")),
				dies("it is dead", "ttl_expired", 200*sec),
			)...),
			scene("an attempt under way has until it is answered", steps(
				consumer("b"), publishes("d-1", ttl(10*sec)), one(comes("an attempt", "d-1", ttl(10*sec))), settlesAt(20*sec, "queued", 1),
				processes("d-1"), settlesAt(21*sec, "acked", 1),
			)...),
			scene("a consumer says that another attempt is of no use", steps(
				consumer("b"), publishes("d-1"), one(comes("an attempt", "d-1")), refuses(0),
				dies("it is dead", "rejected", 200*sec),
			)...),
			scene("it says so under a msg_id of its own, and retryable is left out", steps(
				consumer("b"), publishes("d-1"),
				one(comes("an attempt", "d-1"), in("is refused for good", of(relay, 3, "nack no 1", opaque(1, "d-1")).frame(), accept).on("b"), isDead("d-1"),
					stands("it is told that this is the end", "d-1", "dead-letter", 1).on("b")),
				dies("and so is the publisher", "rejected", 200*sec),
			)...),
			scene("nobody comes for a week", steps(
				publishes("d-1"), one(waits("a week", week), isDead("d-1")), dies("it is dead", "no_consumer", week+200*sec),
			)...),
			scene("it was tried, and then nobody came for a week", steps(
				consumer("b"), publishes("d-1"), one(comes("an attempt", "d-1")), on("b", detaches()...),
				on("b", in("nor is it processed", relayNack("nack no 1", yes).frame(), accept), failedOnce("d-1"), stands("it is tried again", "d-1", "retry", 2)),
				one(waits("a week", week), isDead("d-1")), dies("it is dead", "limit_exceeded", week+200*sec),
			)...),
			scene("a publisher is told when it comes back", steps(
				publishes("d-1", ttl(60*sec)), one(hangsUp("the publisher is gone"), waits("the time to live is over", 60*sec), isDead("d-1")),
				on("c", unknown("another publisher hears nothing of it", "d-1")...),
				on("c", deadList("nor is it listed there", "", `{"dead":[]}`)...),
				on("a.again", in("it says anything of this profile", relayAck("ack no 1", "d-2").frame(), accept),
					notice("and is told", "d-1", "ttl_expired"), notes("d-1"), isKnown("d-1")),
				on("a.again", asks("d-1", "dead-letter", 1)...),
			)...),
			scene("a publisher that asks meanwhile knows", steps(
				publishes("d-1", ttl(60*sec)), one(waits("the time to live is over", 60*sec), isDead("d-1")),
				one(notice("it is told", "d-1", "ttl_expired")), asks("d-1", "dead-letter", 1), one(isKnown("d-1")),
				settlesAt(61*sec, "dead-letter", 1), settlesAt(200*sec, "dead-letter", 1),
			)...),
			scene("an answer that is no STATUS of the delivery is none", steps(
				publishes("d-1", ttl(60*sec)), one(waits("the time to live is over", 60*sec), isDead("d-1")),
				one(notice("it is told", "d-1", "ttl_expired"), in("an error", of(relay, 5, usualID, opaque(1, "NOT_FOUND")).frame(), accept).answers()),
				one(waits("after a pause", 61*sec), notice("it is told again", "d-1", "ttl_expired"), notes("d-2")),
				one(waits("after a longer pause", 63*sec), notice("it is told again", "d-1", "ttl_expired")), noted("d-1"),
				settlesAt(68*sec, "dead-letter", 1),
			)...),
			scene("the dead keep what they were", steps(
				consumer("b"), publishes("d-1"), one(comes("an attempt", "d-1")), refuses(0),
				one(notice("it is dead", "d-1", "rejected")),
				deadList("it is listed", `{"payload":true}`, `{"dead":[{"delivery_id":"ZC0x","topic":"orders","reason_code":"rejected","attempt_count":1,`+
					`"taken_unix_ms":1771512916261,"died_unix_ms":1771512916261,"told":false,"size":14,"payload":"cGF5bG9hZCBvZiBkLTE="}]}`),
			)...),
		},
	},
	{
		id: "relay_0005_limits", about: "a queue that is full refuses, and discards nothing",
		expect: accept, bin: relayStatus("d-1").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: steps(
			publishes("d-1"), publishes("d-2"), publishes("d-3"), publishes("d-4"),
			tooMany("the queue is full", "d-5"), unknown("nothing is stored", "d-5"), tooMany("nor later", "d-5"),
			again("d-4", 1, 1*sec),
			one(mainStep("what was accepted first is there"), stands("it waits", "d-1", "queued", 1)),
			consumer("b"), one(comes("the oldest comes first", "d-1"), comes("then the next", "d-2")),
			tooMany("what is not acknowledged takes room", "d-5"), processes("d-2"), one(comes("acknowledging makes room", "d-3")),
			publishes("d-5"), tooMany("for as many", "d-7"),
			processes("d-3"), one(comes("and on", "d-4")), processes("d-4"), one(comes("what was refused before", "d-5")), processes("d-5"),
			asks("d-5", "acked", 1), asks("d-1", "queued", 1),
		),
		siblings: []sibling{
			scene("each topic has room of its own", steps(
				publishes("d-1"), publishes("d-2"), publishes("d-3"), publishes("d-4"), tooMany("this one has none", "d-5"),
				one(in("another has", relayPublish("publish 6", "d-6", "else", "p").frame(), accept), answered("custody is taken", relayAck(usualID, "d-6"))),
				on("c", tooMany("for another publisher there is none, either", "d-1")...), asks("d-6", "queued", 1),
			)...),
			scene("the dead do not take the room of the living", steps(
				publishes("d-1"), publishes("d-2"), publishes("d-3"), publishes("d-4", ttl(60*sec)), tooMany("the queue is full", "d-5"),
				one(waits("one dies", 60*sec), isDead("d-4"), notice("its publisher is told", "d-4", "ttl_expired")), noted("d-4"), publishes("d-5"), tooMany("for one", "d-6"),
			)...),
			scene("a consumer gets as many as it wants at once", steps(
				on("b", attaches("attach 1", rpc1, `{"topic":"orders","max_in_flight":1}`)...),
				publishes("d-1"), one(comes("the first", "d-1")), publishes("d-2"), publishes("d-3"), asks("d-3", "queued", 1), asks("d-3", "queued", 1),
				processes("d-1"), one(comes("the second after it", "d-2")), processes("d-2"), one(comes("and the third", "d-3")),
				asks("d-3", "queued", 1),
			)...),
			scene("attachments have bounds", on("b",
				in("a consumer wants too much", rpcReq("attach 1", rpc1, "swp.relay.attach", opaque(3, `{"topic":"orders","max_in_flight":1000}`)).frame(), accept),
				answered("and is told what it gets", rpcItem(rpc1, 1, `{"topic":"orders","max_in_flight":128}`)),
				in("another says nothing", rpcReq("attach 2", rpc2, "swp.relay.attach", opaque(3, `{"topic":"orders"}`)).frame(), accept),
				answered("and gets the default", rpcItem(rpc2, 1, `{"topic":"orders","max_in_flight":16}`)),
				in("a topic that is none", rpcReq("attach 3", rpc3, "swp.relay.attach", opaque(3, `{"topic":""}`)).frame(), badPayload),
				out("is refused", rpcErr(rpc3, "invalid_request", 0, "any").frame(), textIsFree),
				in("a number that is none", rpcReq("attach 4", rpc3, "swp.relay.attach", opaque(3, `{"topic":"orders","max_in_flight":-1}`)).frame(), badPayload),
				out("is refused", rpcErr(rpc3, "invalid_request", 0, "any").frame(), textIsFree),
			)...),
		},
	},
	{
		id: "relay_0006_unsupported_msg_type", about: "unsupported RELAY `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(relay, "relay", "relay_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(relay, 6, usualID, opaque(1, "d-1")).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(relay).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}

// settled moves the clock, and has the endpoint answer something.
func settled(ms int) []step {
	list := unknown("something else, at a later time", "d-0")
	list[0] = list[0].at(ms)
	return list
}

// tooMany publishes a delivery for which the relay has no room.
func tooMany(why, id string) []step {
	return []step{
		in(why, relayPublish("publish "+id, id, orders, "payload of "+id).frame(), reject("RATE_LIMIT_EXCEEDED", "")),
		relayErr("it is refused", "RATE_LIMIT_EXCEEDED"),
	}
}
