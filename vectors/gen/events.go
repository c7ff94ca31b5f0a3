package main

import "github.com/slimwire/swp/vectors"

const (
	events  = 13
	cursor  = 17            // extension: deliver what came after this number
	emitted = 1771512916000 // when the events happened, a moment before they were sent
)

// The fields of a record, one of each.
var (
	eventID   = opaque(1, "evt-1")
	eventType = opaque(2, "demo.changed")
	severity  = opaque(3, "info")
	eventTime = number(4, emitted)
	ofMsg     = opaque(5, usualID)
	ofTask    = opaque(6, task1)
	ofRPC     = opaque(7, rpc1)
	eventBody = opaque(8, `{"n":1}`)
)

// record is an ordinary record that differs from others in its event_id.
func record(id string) []byte { return graded(id, "info") }

// graded is one of a severity.
func graded(id, word string) []byte {
	return join(opaque(1, id), eventType, opaque(3, word), eventTime, ofTask, opaque(8, "body of "+id))
}

func publish(msgID string, record ...[]byte) message {
	return of(events, 1, msgID, nested(1, record...))
}

func subscribe(filter string) message {
	if filter == "" {
		return of(events, 2, "subscribe 1")
	}
	return of(events, 2, "subscribe 1", opaque(1, filter))
}

// batch holds records in order.
func batch(msgID string, records ...[]byte) message {
	var all [][]byte
	for _, r := range records {
		all = append(all, nested(1, r))
	}
	return of(events, 4, msgID, all...)
}

// subscribed is how a subscription begins: an empty batch confirms it.
func subscribed(filter string) []step {
	return []step{
		in("somebody subscribes", subscribe(filter).frame(), accept).on("b"),
		answered("which is confirmed", batch(usualID)).on("b"),
	}
}

// delivered is a batch that goes out under the msg_id of the SUBSCRIBE.
func delivered(why string, records ...[]byte) step {
	return answered(why, batch(usualID, records...)).on("b")
}

// refusedWith is an EVT_ERR of a code.
func refusedWith(why, code string) step {
	return out(why, of(events, 5, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// lacking is a record without one of its fields.
func lacking(why string, fields ...[]byte) sibling {
	return like(why, publish(usualID, fields...).frame(), badPayload)
}

// severe is a record of a severity.
func severe(word string) []byte {
	return publish(usualID, eventID, eventType, opaque(3, word), eventTime, ofMsg, eventBody).frame()
}

var eventss = []vector{
	{
		id: "events_0001_required_fields", about: "an event that lacks a required field is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "no correlation key"), bin: publish(usualID, eventID, eventType, severity, eventTime, eventBody).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			lacking("no event_id", eventType, severity, eventTime, ofMsg, eventBody),
			lacking("no event_type", eventID, severity, eventTime, ofMsg, eventBody),
			lacking("no severity", eventID, eventType, eventTime, ofMsg, eventBody),
			lacking("no ts_unix_ms", eventID, eventType, severity, ofMsg, eventBody),
			lacking("a ts_unix_ms of 0", eventID, eventType, severity, number(4, 0), ofMsg, eventBody),
			lacking("keys that are empty", eventID, eventType, severity, eventTime, opaque(5, ""), opaque(6, ""), opaque(7, ""), eventBody),
			like("no record", of(events, 1, usualID).frame(), badPayload),
			like("an empty record", publish(usualID).frame(), badPayload),
			like("a msg_id is enough to relate it", publish(usualID, eventID, eventType, severity, eventTime, ofMsg, eventBody).frame(), accept),
			like("a task_id is", publish(usualID, eventID, eventType, severity, eventTime, ofTask, eventBody).frame(), accept),
			like("a rpc_id is", publish(usualID, eventID, eventType, severity, eventTime, ofRPC, eventBody).frame(), accept),
			like("fields that nobody knows do not matter", publish(usualID, eventID, eventType, severity, eventTime, ofMsg, eventBody, unlisted).frame(), accept),
			like("an empty body is a body", publish(usualID, eventID, eventType, severity, eventTime, ofMsg).frame(), accept),
		},
	},
	{
		id: "events_0002_ordering", about: "events of one producer arrive in the order in which it sent them",
		expect: accept, bin: publish("publish 1", record("evt-1")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: append(subscribed(""),
			mainStep("an event"),
			delivered("is delivered", record("evt-1")),
			in("three more, as fast as can be", join(
				publish("publish 2", record("evt-3")).frame(), publish("publish 3", record("evt-2")).frame(), publish("publish 4", record("evt-4")).frame(),
			), accept, vectors.Expect{Frames: 3}),
			delivered("arrive in that order, in however many batches", record("evt-3"), record("evt-2"), record("evt-4")).gathers(3),
			in("and one after them", publish("publish 5", record("evt-0")).frame(), accept),
			delivered("comes last", record("evt-0")),
		),
		siblings: []sibling{
			scene("a filter takes out some and keeps the order of the others", append(subscribed("severity:error"),
				in("some match, some do not", join(
					publish("publish 1", graded("evt-1", "error")).frame(), publish("publish 2", graded("evt-2", "warn")).frame(),
					publish("publish 3", graded("evt-3", "error")).frame(), publish("publish 4", graded("evt-4", "info")).frame(),
				), accept, vectors.Expect{Frames: 4}),
				delivered("those that match", graded("evt-1", "error"), graded("evt-3", "error")).gathers(2),
			)...),
			scene("a filter that is none", []step{
				in("a key that there is not", subscribe("colour:red").frame(), badPayload).on("b"),
				refusedWith("is refused", "INVALID_FILTER").on("b"),
			}...),
			scene("nothing is delivered after the end of a subscription", append(subscribed(""),
				in("an event", publish("publish 1", record("evt-1")).frame(), accept),
				delivered("is delivered", record("evt-1")),
				in("the subscriber has enough", of(events, 3, "unsubscribe 1", opaque(1, "7375627363726962652031")).frame(), accept).on("b"),
				in("somebody else subscribes", subscribe("").frame(), accept).on("c"),
				answered("which is confirmed", batch(usualID)).on("c"),
				in("another event", publish("publish 2", record("evt-2")).frame(), accept),
				answered("is delivered there", batch(usualID, record("evt-2"))).on("c"),
				in("the former subscriber ends what has ended", of(events, 3, "unsubscribe 2", opaque(1, "7375627363726962652031")).frame(),
					reject("NOT_FOUND", "")).on("b"),
				refusedWith("and hears nothing but that", "NOT_FOUND").on("b"),
			)...),
			scene("an event that is published again is not delivered again", append(subscribed(""),
				in("an event", publish("publish 1", record("evt-1")).frame(), accept),
				delivered("is delivered", record("evt-1")),
				in("the same", publish("publish 2", record("evt-1")).frame(), accept),
				in("another under its event_id", publish("publish 3", graded("evt-1", "error")).frame(), badPayload),
				refusedWith("is refused", "INVALID_PROFILE_PAYLOAD"),
				in("of another producer it is another event", publish("publish 1", graded("evt-1", "warn")).frame(), accept).on("c"),
				delivered("which is delivered", graded("evt-1", "warn")),
			)...),
		},
	},
	{
		id: "events_0003_correlation_propagation", about: "the keys that relate an event arrive as they were sent",
		expect: accept, bin: publish("publish 1", eventID, eventType, severity, eventTime, ofMsg, ofTask, ofRPC, eventBody).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		transcript: append(subscribed(""),
			mainStep("an event with all three keys"),
			delivered("arrives with them", join(eventID, eventType, severity, eventTime, ofMsg, ofTask, ofRPC, eventBody)),
		),
	},
	{
		id: "events_0004_batch_order", about: "a batch keeps its order",
		expect: accept, bin: batch("the batch 1", record("evt-2"), record("evt-1"), record("evt-3")).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: append(subscribed(""),
			mainStep("three events at once"),
			delivered("arrive in their order", record("evt-2"), record("evt-1"), record("evt-3")).gathers(3),
		),
		siblings: []sibling{
			scene("one bad record, and nothing of the batch is taken", append(subscribed(""),
				in("the second has no severity", batch("the batch 1", record("evt-1"), join(opaque(1, "evt-2"), eventType, eventTime, ofMsg)).frame(), badPayload),
				refusedWith("and its sender is told", "INVALID_PROFILE_PAYLOAD"),
				in("an event afterwards", publish("publish 1", record("evt-9")).frame(), accept),
				delivered("is the first that is delivered", record("evt-9")),
			)...),
			scene("they are stored: who comes later and asks for what was gets them in their order",
				in("three events, and nobody listens", batch("the batch 1", record("evt-2"), record("evt-1"), record("evt-3")).frame(), accept),
				in("somebody subscribes from the beginning", subscribe("").withExtension(cursor, "\x00").frame(), accept).on("b"),
				answered("which is confirmed", batch(usualID)).on("b"),
				delivered("and gets them", record("evt-2"), record("evt-1"), record("evt-3")).gathers(3),
			),
		},
	},
	{
		id: "events_0005_invalid_severity", about: "a severity that there is not is refused",
		expect: reject("INVALID_PROFILE_PAYLOAD", "severity fatal"), bin: severe("fatal"),
		assertions: vectors.Assertions{MsgType: new(uint64(1))},
		siblings: []sibling{
			like("a longer word", severe("warning"), badPayload),
			like("a shorter one", severe("err"), badPayload),
			like("blanks", severe("  "), badPayload),
			like("a number", severe("3"), badPayload),
			like("debug", severe("debug"), accept),
			like("info", severe("info"), accept),
			like("warn", severe("warn"), accept),
			like("error", severe("error"), accept),
			like("in any case, with blanks around it", severe(" WaRn\t"), accept),
		},
	},
	{
		id: "events_0006_unsupported_msg_type", about: "unsupported EVENTS `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(events, "events", "events_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(events, 6, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(events).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
