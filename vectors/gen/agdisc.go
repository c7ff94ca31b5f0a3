package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/slimwire/swp/vectors"
)

const (
	agdisc = 10

	// oddCard is a card that no encoder would write: blanks, an escape, a number
	// that loses digits, a member twice, octets that are no JSON behind it.
	oddCard = "{ \"name\" : \"d\\u0065mo\",\r\n\t\"n\":9007199254740993, \"n\":1.0 }\n\x00\xff"

	etagOne = "etag-one"
	etagTwo = "etag-two"
)

func agdiscGet(msgID, agent string, etag ...string) message {
	fields := [][]byte{opaque(1, agent)}
	for _, e := range etag {
		fields = append(fields, opaque(2, e))
	}
	return of(agdisc, 1, msgID, fields...)
}

// cardOf is a DOC with everything that it may have. maxAge 0 is left out.
func cardOf(agent, card, etag string, maxAge uint64) message {
	fields := [][]byte{opaque(1, agent), opaque(2, "v1"), opaque(3, card)}
	if etag != "" {
		fields = append(fields, opaque(4, etag))
	}
	if maxAge > 0 {
		fields = append(fields, number(5, maxAge))
	}
	return of(agdisc, 2, usualID, fields...)
}

func notModified(agent, etag string) message {
	return of(agdisc, 3, usualID, opaque(1, agent), opaque(2, etag))
}

func agdiscErr(code string) message {
	return of(agdisc, 4, usualID, opaque(1, code), opaque(2, "agent card not found"))
}

// hashOf is the etag of a card that has no other.
func hashOf(card string) string {
	sum := sha256.Sum256([]byte(card))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// hasCard gives the application a card.
func hasCard(m message) step { return app("the application has a card", m.frame()) }

// toldNoCard is an AGDISC_ERR of a code.
func toldNoCard(why, code string) step {
	return out(why, of(agdisc, 4, usualID, opaque(1, code), opaque(2, "any")).frame(), vectors.Expect{SameMsgID: new(true), Free: []uint64{2}})
}

// asksFor is how the application asks a peer for a card. The peer's answer
// follows.
func asksFor(etag []string, steps ...step) []step {
	question := agdiscGet(usualID, "demo", etag...).frame()
	return append([]step{
		app("the application asks", question),
		out("the question goes out", question, vectors.Expect{}),
	}, steps...)
}

// onSession is how the card of an agent on connection "b" is asked for on "a":
// the endpoint asks the agent, which has the answer.
func onSession(answer message) []step {
	return []step{
		in("a peer wants the card", agdiscGet("question 1", "demo").frame(), accept),
		out("the agent is asked for it", agdiscGet(usualID, "demo").frame(), vectors.Expect{}).on("b"),
		in("the agent has it", answer.frame(), accept).on("b").answers(),
	}
}

// declaredOn is an agent that declares itself on connection "b".
func declaredOn(steps ...[]step) []step {
	list := []step{in("an agent is on the other end of a connection", handshake("handshake 1", "demo").frame(), accept).on("b")}
	for _, s := range steps {
		list = append(list, s...)
	}
	return list
}

var (
	goodCard = cardOf("demo", oddCard, etagOne, 60_000)

	// internalError is what a peer's request ends with for reasons that are not
	// its own.
	internalError = reject("INTERNAL_ERROR", "")
)

var agdiscs = []vector{
	{
		id: "agdisc_0001_get_doc_success", about: "a card is retrieved octet for octet",
		expect: accept, bin: goodCard.frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		transcript: asksFor(nil,
			mainStep("the card comes").answers(),
			hears("the application has it as it was sent", goodCard),
		),
		siblings: []sibling{
			scene("the other way round",
				hasCard(goodCard),
				in("a peer asks for it", agdiscGet(usualID, "demo").frame(), accept),
				answered("and gets it as it was given", goodCard),
			),
			scene("a question with fields that nobody knows",
				hasCard(goodCard),
				in("is one", of(agdisc, 1, usualID, unlisted, opaque(1, "demo")).frame(), accept),
				answered("as any other", goodCard),
			),
			scene("a card that has no etag is told with its hash",
				hasCard(cardOf("demo", oddCard, "", 0)),
				in("a peer asks for it", agdiscGet(usualID, "demo").frame(), accept),
				answered("and can ask about it later", cardOf("demo", oddCard, hashOf(oddCard), 0)),
			),
			scene("the newest card counts",
				hasCard(goodCard),
				hasCard(cardOf("demo", "another", etagTwo, 1)),
				in("a peer asks for it", agdiscGet(usualID, "demo", etagOne).frame(), accept),
				answered("and gets it", cardOf("demo", "another", etagTwo, 1)),
			),
			scene("the card of an agent on another connection is the one that it has itself", declaredOn(
				onSession(goodCard),
				[]step{out("and it passes through", goodCard.frame(), vectors.Expect{SameMsgID: new(true)})},
			)...).clock(now),
			like("a card that nobody asked for", goodCard.frame(), accept, vectors.Expect{Detail: "unsolicited"}),
		},
	},
	{
		id: "agdisc_0002_not_found", about: "an unknown agent is refused with `NOT_FOUND`",
		expect: reject("NOT_FOUND", "agent card not found"), bin: agdiscErr("NOT_FOUND").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(4))},
		transcript: asksFor(nil,
			mainStep("there is none").answers(),
			hears("the application learns that", agdiscErr("NOT_FOUND")),
		),
		siblings: []sibling{
			scene("the other way round",
				hasCard(goodCard),
				in("a peer asks for a card that there is not", agdiscGet(usualID, "demo2").frame(), reject("NOT_FOUND", "")),
				toldNoCard("it is told so", "NOT_FOUND"),
				in("in another case", agdiscGet("question 2", "Demo").frame(), reject("NOT_FOUND", "")),
				toldNoCard("it is another agent", "NOT_FOUND"),
				in("the connection goes on", agdiscGet("question 3", "demo").frame(), accept),
				answered("as before", goodCard),
			),
			scene("an agent that has no card, on another connection", declaredOn([]step{
				in("a peer wants the card", agdiscGet("question 1", "demo").frame(), reject("NOT_FOUND", "")),
				out("the agent is asked for it", agdiscGet(usualID, "demo").frame(), vectors.Expect{}).on("b"),
				in("the agent has none", agdiscErr("ANY").frame(), accept).on("b").answers(),
				toldNoCard("which looks as if it were not there", "NOT_FOUND"),
			})...).clock(now),
			like("no agent_id", of(agdisc, 1, usualID, opaque(2, etagOne)).frame(), badPayload),
			like("an empty agent_id", of(agdisc, 1, usualID, opaque(1, "")).frame(), badPayload),
			like("an ERR without a code", of(agdisc, 4, usualID, opaque(2, "text")).frame(), badPayload),
		},
	},
	{
		id: "agdisc_0003_invalid_doc_rejected", about: "an invalid card is refused",
		expect:     reject("INVALID_PROFILE_PAYLOAD", "missing schema_revision"),
		bin:        of(agdisc, 2, usualID, opaque(1, "demo"), opaque(3, oddCard), opaque(4, etagOne)).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(2))},
		siblings: []sibling{
			like("no agent_id", of(agdisc, 2, usualID, opaque(2, "v1"), opaque(3, oddCard)).frame(), badPayload),
			like("an empty schema_revision", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(2, ""), opaque(3, oddCard)).frame(), badPayload),
			like("no card_payload", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(2, "v1")).frame(), badPayload),
			like("a schema_revision that is not UTF-8", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(2, "\xff"), opaque(3, oddCard)).frame(), badPayload),
			like("a card_payload of another type", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(2, "v1"), number(3, 1)).frame(), badPayload),
			like("a max_age_ms of another type", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(2, "v1"), opaque(3, oddCard), opaque(5, "1")).frame(), badPayload),
			like("the body of another message", goodCard.withType(3).frame(), badPayload),
			like("no wrapper", goodCard.withPayload("").frame(), badPayload),
			scene("the answer to a question is no better", asksFor(nil,
				in("a card without a revision", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(3, oddCard)).frame(), badPayload).answers(),
			)...),
			scene("a good card of another agent", asksFor(nil,
				in("is not the answer", cardOf("other", oddCard, etagOne, 0).frame(), badPayload).answers(),
			)...),
			scene("it is not passed on", declaredOn([]step{
				in("a peer wants the card", agdiscGet("question 1", "demo").frame(), internalError),
				out("the agent is asked for it", agdiscGet(usualID, "demo").frame(), vectors.Expect{}).on("b"),
				in("the agent has one without octets", of(agdisc, 2, usualID, opaque(1, "demo"), opaque(2, "v1")).frame(), badPayload).on("b").answers(),
				toldNoCard("the peer learns that it is none", "INVALID_CARD"),
			})...).clock(now),
		},
	},
	{
		id: "agdisc_0004_etag_not_modified", about: "a card that is still the same is not sent again",
		expect: accept, bin: notModified("demo", etagOne).frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(3))},
		transcript: append(asksFor(nil,
			in("the card comes, with its etag", goodCard.frame(), accept).answers(),
			hears("the application has it", goodCard),
		), asksFor([]string{etagOne},
			mainStep("it is still the same").answers(),
			hears("the application learns that", notModified("demo", etagOne)),
		)...),
		siblings: []sibling{
			scene("the other way round",
				hasCard(goodCard),
				in("a peer asks", agdiscGet("question 1", "demo").frame(), accept),
				answered("and gets card and etag", goodCard),
				in("it asks whether it is still the same", agdiscGet("question 2", "demo", etagOne).frame(), accept),
				answered("it is", notModified("demo", etagOne)),
				in("another etag", agdiscGet("question 3", "demo", etagTwo).frame(), accept),
				answered("is not of this card", goodCard),
				in("nor is part of it", agdiscGet("question 4", "demo", etagOne[:4]).frame(), accept),
				answered("it", goodCard),
				in("nor is it in another case", agdiscGet("question 5", "demo", strings.ToUpper(etagOne)).frame(), accept),
				answered("it", goodCard),
				in("an empty etag", agdiscGet("question 6", "demo", "").frame(), accept),
				answered("is none", goodCard),
			),
			scene("another etag than was sent", asksFor([]string{etagOne},
				in("is refused", notModified("demo", etagTwo).frame(), badPayload).answers(),
			)...),
			scene("another agent than was asked about", asksFor([]string{etagOne},
				in("is refused", notModified("other", etagOne).frame(), badPayload).answers(),
			)...),
			scene("an etag although none was sent", asksFor(nil,
				in("is refused", notModified("demo", etagOne).frame(), badPayload).answers(),
			)...),
			scene("another card", asksFor([]string{etagOne},
				in("comes as a whole", cardOf("demo", "another", etagTwo, 1).frame(), accept).answers(),
				hears("the application has it", cardOf("demo", "another", etagTwo, 1)),
			)...),
			like("no etag", of(agdisc, 3, usualID, opaque(1, "demo")).frame(), badPayload),
			like("no agent_id", of(agdisc, 3, usualID, opaque(2, etagOne)).frame(), badPayload),
		},
	},
	{
		id: "agdisc_0005_cache_expiry_refresh", about: "a cached card is refreshed when it has expired",
		expect: accept, bin: agdiscGet("question 3", "demo").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(1)), Clock: &vectors.Clock{NowUnixMs: now}},
		transcript: declaredOn(
			onSession(goodCard),
			[]step{
				out("it is fresh for a minute", goodCard.frame(), vectors.Expect{SameMsgID: new(true)}),
				in("a millisecond before that is over", agdiscGet("question 2", "demo").frame(), accept).at(59_999),
				answered("it is told without asking, with what is left of its age", cardOf("demo", oddCard, etagOne, 1)),
				mainStep("when the minute is over").at(60_000),
				out("the agent is asked whether it is still the same", agdiscGet(usualID, "demo", etagOne).frame(), vectors.Expect{}).on("b"),
				in("it is", notModified("demo", etagOne).frame(), accept).on("b").answers(),
				answered("and fresh for another minute", goodCard),
				in("which passes", agdiscGet("question 4", "demo").frame(), accept).at(119_999),
				answered("without asking", cardOf("demo", oddCard, etagOne, 1)),
			},
		),
		siblings: []sibling{
			scene("a card that has changed takes the place of the old one", declaredOn(
				onSession(goodCard),
				[]step{
					out("it is fresh for a minute", goodCard.frame(), vectors.Expect{SameMsgID: new(true)}),
					in("when that is over", agdiscGet("question 2", "demo").frame(), accept).at(60_000),
					out("the agent is asked whether it is still the same", agdiscGet(usualID, "demo", etagOne).frame(), vectors.Expect{}).on("b"),
					in("it is not", cardOf("demo", "another", etagTwo, 1000).frame(), accept).on("b").answers(),
					answered("the peer has the new one", cardOf("demo", "another", etagTwo, 1000)),
					in("half a second later", agdiscGet("question 3", "demo").frame(), accept).at(60_500),
					answered("it still has", cardOf("demo", "another", etagTwo, 500)),
				},
			)...).clock(now),
			scene("a card without an age is asked for each time", declaredOn(
				onSession(cardOf("demo", oddCard, etagOne, 0)),
				[]step{
					out("at once", cardOf("demo", oddCard, etagOne, 0).frame(), vectors.Expect{SameMsgID: new(true)}),
					in("and again", agdiscGet("question 2", "demo").frame(), accept),
					out("by its etag", agdiscGet(usualID, "demo", etagOne).frame(), vectors.Expect{}).on("b"),
					in("it is the same", notModified("demo", etagOne).frame(), accept).on("b").answers(),
					answered("it is", cardOf("demo", oddCard, etagOne, 0)),
				},
			)...).clock(now),
			scene("who has the card that is cached is told so", declaredOn(
				onSession(goodCard),
				[]step{
					out("it is fresh for a minute", goodCard.frame(), vectors.Expect{SameMsgID: new(true)}),
					in("a peer that has it", agdiscGet("question 2", "demo", etagOne).frame(), accept).at(1000),
					answered("needs no more", notModified("demo", etagOne)),
				},
			)...).clock(now),
		},
	},
	{
		id: "agdisc_0006_unsupported_msg_type", about: "unsupported AGDISC `msg_type` is rejected",
		expect: reject("UNSUPPORTED_MSG_TYPE", "unsupported profile msg_type"), bin: withoutType(agdisc, "agdisc", "agdisc_0006_unsupported_msg_type").frame(),
		assertions: vectors.Assertions{MsgType: new(uint64(99))},
		siblings: []sibling{
			like("the first that there is not", of(agdisc, 5, usualID).frame(), badType),
			like("even where the payload could not be decoded", typical.withProfile(agdisc).withType(99).withPayload("\xff").frame(), badType),
		},
	},
}
