package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/slimwire/swp/vectors"
)

const sdl = 1024

// Parts of envelopes of A2A-SDL, as canonical JSON.
const (
	sdlCaller = `{"agent_id":"did:key:caller","instance":"1","name":"caller","role":"caller"}`
	sdlServer = `{"agent_id":"did:web:server.example","instance":"1","name":"server","role":"server"}`
	sdlNobody = `{"agent_id":"did:key:unknown","instance":"unknown","name":"unknown","role":"unknown"}`

	sdlAny      = `{"type":"object"}` // the schema of most requests
	sdlErrors   = `"UNSUPPORTED_ENCODING","UNSUPPORTED_CT","SCHEMA_INVALID","SECURITY_UNSUPPORTED","BAD_REQUEST","INTERNAL"`
	sdlErrorV1  = `{"properties":{"code":{"enum":[` + sdlErrors + `]},"details":{"type":"object"},"message":{"type":"string"},"retryable":{"type":"boolean"}},"required":["code","message","details","retryable"],"type":"object"}`
	sdlResultV1 = `{"properties":{"call_id":{"type":"string"},"logs":{"items":{"type":"string"},"type":"array"},"metrics":{"type":"object"},"ok":{"type":"boolean"},"result":{}},"required":["call_id","ok","result","logs","metrics"],"type":"object"}`

	sdlAdd   = `{"args":{"values":[1,2.5,3]},"call_id":"c","expect":{},"tool":"math.add"}`
	sdlTrace = `{"hops":0,"root_id":"root","span_id":"span"}`
)

// sdlEnvelope is an envelope as canonical JSON. Empty members are left out.
type sdlEnvelope struct {
	ct, from, id, payload, schema, sec, to, trace, typ string
}

func (e sdlEnvelope) json() string {
	sum := sha256.Sum256([]byte(e.schema))
	var b strings.Builder
	for _, m := range [][2]string{
		{"cap", `{}`}, {"ct", `"` + e.ct + `"`}, {"from", e.from}, {"id", `"` + e.id + `"`}, {"payload", e.payload},
		{"schema", `{"embedded":` + e.schema + `,"id":"sha256:` + hex.EncodeToString(sum[:]) + `","kind":"embedded"}`},
		{"sec", e.sec}, {"to", e.to}, {"trace", e.trace}, {"ts", `"2026-02-19T14:55:16Z"`}, {"type", `"` + e.typ + `"`}, {"v", "1"},
	} {
		if m[1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + m[0] + `":` + m[1])
	}
	return "{" + b.String() + "}"
}

// sdlRequest is a request of the caller to call math.add.
func sdlRequest(id string) sdlEnvelope {
	return sdlEnvelope{
		ct: "toolcall.v1", from: sdlCaller, to: sdlServer, id: id, payload: sdlAdd, schema: sdlAny, trace: sdlTrace, typ: "req",
	}
}

// sdlSigned is an envelope signed over its canonical JSON, by the key whose seed is the
// SHA-256 of "key of did:key:caller".
func sdlSigned(e sdlEnvelope, replay string) string {
	const blank = `"value":""`
	e.sec = `{"kid":"did:key:caller#1","mode":"sig","replay":` + replay + `,"sig":{"alg":"ed25519",` + blank + `}}`
	seed := sha256.Sum256([]byte("key of did:key:caller"))
	unsigned := e.json()
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed[:]), []byte(unsigned))
	return strings.Replace(unsigned, blank, `"value":"`+base64.RawURLEncoding.EncodeToString(signature)+`"`, 1)
}

func sdlFrame(typ uint64, id, payload string) message {
	return typical.withProfile(sdl).withType(typ).withID(id).withPayload(payload)
}

// sdlSays expects an answer of the endpoint. Fields in free may have any value.
func sdlSays(why string, e sdlEnvelope, free ...string) step {
	e.id, e.typ = "any", "res"
	if e.trace == "" && e.from == sdlServer {
		e.trace = `{"hops":1,"parent_span_id":"span","root_id":"root","span_id":"any"}`
		free = append(free, "trace.span_id")
	}
	return out(why, sdlFrame(2, usualID, e.json()).frame(), vectors.Expect{
		SameMsgID: new(true), FreeMembers: append([]string{"cap", "id", "ts"}, free...),
	})
}

// sdlSum is the answer to sdlRequest.
func sdlSum(why string) step { return sdlSays(why, sdlResult, "payload.logs", "payload.metrics") }

var sdlResult = sdlEnvelope{
	ct: "toolresult.v1", from: sdlServer, to: sdlCaller, schema: sdlResultV1,
	payload: `{"call_id":"c","logs":["any"],"metrics":{"any":1},"ok":true,"result":{"sum":6.5}}`,
}

// sdlError is an error envelope. Its details may also say which member is at fault, and what the
// endpoint accepts now.
func sdlError(why, code, retryable, details string, from, to string) step {
	return sdlSays(why, sdlEnvelope{
		ct: "error.v1", from: from, to: to, schema: sdlErrorV1,
		payload: `{"code":"` + code + `","details":` + details + `,"message":"any","retryable":` + retryable + `}`,
	}, "payload.details.accepted", "payload.details.member", "payload.details.text", "payload.message")
}

// inCBOR is an answer in the other form.
func inCBOR(s step) step {
	at := strings.IndexByte(string(s.octets), '{')
	s.octets = sdlFrame(2, usualID, cbor(string(s.octets[at:]))).frame()
	return s
}

const (
	sdlSecurity = `{"supported":{"enc":["x25519-chacha20poly1305"],"modes":["enc","enc+sig","none","sig"],"sig":["ed25519"]}}`
	sdlSoon     = `{"exp":"2026-02-19T14:59:00Z","nonce":"n"}`
)

func changed(e sdlEnvelope, change func(*sdlEnvelope)) sdlEnvelope {
	change(&e)
	return e
}

// sdls are the vectors of A2A-SDL. The profile is provisional, so they are not among the
// official ones.
var sdls = []vector{
	{
		id: "sdl_0001_toolcall_success", about: "a request is answered under its msg_id, in its form", expect: accept,
		bin: sdlFrame(1, usualID, sdlRequest("1").json()).frame(),
		transcript: []step{
			mainStep("a call of a function"),
			sdlSum("its result: the sum is a float"),
		},
		siblings: []sibling{
			scene("an envelope in CBOR is answered in CBOR",
				in("a call", sdlFrame(1, usualID, cbor(sdlRequest("1").json())).frame(), accept),
				inCBOR(sdlSum("its result"))),
			scene("white space before an envelope in JSON",
				in("a call", sdlFrame(1, usualID, " \r\n\t"+sdlRequest("1").json()).frame(), accept),
				sdlSum("its result")),
		},
	},
	{
		id: "sdl_0002_type_mismatch", about: "the type of an envelope is that of its message; otherwise it is refused without an answer",
		expect: reject("INVALID_PROFILE_PAYLOAD", "type is not that of the msg_type"),
		bin:    sdlFrame(1, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) { e.typ = "evt" }).json()).frame(),
		siblings: []sibling{
			like("a request as an event", sdlFrame(3, usualID, sdlRequest("1").json()).frame(), reject("INVALID_PROFILE_PAYLOAD", "")),
			like("an answer as a request", sdlFrame(1, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) { e.typ = "res" }).json()).frame(), reject("INVALID_PROFILE_PAYLOAD", "")),
		},
	},
	{
		id: "sdl_0003_unsupported_encoding", about: "a payload that begins like neither form is answered in JSON",
		expect: reject("INVALID_PROFILE_PAYLOAD", "neither JSON nor CBOR"),
		bin:    sdlFrame(1, usualID, "[]").frame(),
		transcript: []step{
			mainStep("a list"),
			sdlError("nobody in particular is told", "UNSUPPORTED_ENCODING", "false", "{}", sdlNobody, sdlNobody),
		},
		siblings: []sibling{
			scene("half an object",
				in("which begins like one", sdlFrame(1, usualID, `{"v":1`).frame(), reject("INVALID_PROFILE_PAYLOAD", "")),
				sdlError("and can not be read", "UNSUPPORTED_ENCODING", "false", "{}", sdlNobody, sdlNobody)),
			like("an event is not answered", sdlFrame(3, usualID, "[]").frame(), reject("INVALID_PROFILE_PAYLOAD", "")),
		},
	},
	{
		id: "sdl_0004_schema_invalid", about: "a payload satisfies the schema of its content type, whatever schema it comes with",
		expect: reject("INVALID_PROFILE_PAYLOAD", "payload does not satisfy its schema"),
		bin:    sdlFrame(1, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) { e.payload = `{"tool":"math.add"}` }).json()).frame(),
		transcript: []step{
			mainStep("a call without arguments, under a schema that allows it"),
			sdlError("is refused, and may be mended", "SCHEMA_INVALID", "true", "{}", sdlServer, sdlCaller),
		},
		siblings: []sibling{
			scene("a schema that is somewhere else",
				in("it is not fetched", sdlFrame(1, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) { e.schema = `{"$ref":"http://192.0.2.1/"}` }).json()).frame(), reject("INVALID_PROFILE_PAYLOAD", "")),
				sdlError("and the request is refused", "SCHEMA_INVALID", "true", "{}", sdlServer, sdlCaller)),
		},
	},
	{
		id: "sdl_0005_agent_not_of_the_peer", about: "from.agent_id is one that the identity of the peer may use",
		expect: reject("SECURITY_POLICY", "agent_id of somebody else"),
		bin:    sdlFrame(1, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) { e.from = strings.Replace(sdlCaller, "did:key:caller", "did:key:other", 1) }).json()).frame(),
		transcript: []step{
			mainStep("a request as an agent that the peer is not"),
			sdlError("is refused", "SECURITY_UNSUPPORTED", "false", sdlSecurity, sdlServer, strings.Replace(sdlCaller, "did:key:caller", "did:key:other", 1)),
		},
	},
	{
		id: "sdl_0006_replay_detected", about: "a signed envelope is good once",
		expect:     reject("SECURITY_POLICY", "the nonce was used before"),
		assertions: vectors.Assertions{Setup: vectors.Signed, Clock: &vectors.Clock{NowUnixMs: now}},
		bin:        sdlFrame(1, "second 1", sdlSigned(sdlRequest("2"), sdlSoon)).frame(),
		transcript: []step{
			in("a signed request", sdlFrame(1, usualID, sdlSigned(sdlRequest("1"), sdlSoon)).frame(), accept),
			sdlSum("is answered"),
			mainStep("another one with its nonce"),
			out("is refused", sdlFrame(2, "second 1", changed(sdlRequest("any"), func(e *sdlEnvelope) {
				e.ct, e.schema, e.typ, e.from, e.to = "error.v1", sdlErrorV1, "res", sdlServer, sdlCaller
				e.payload = `{"code":"BAD_REQUEST","details":{"reason":"replay_detected"},"message":"any","retryable":false}`
				e.trace = `{"hops":1,"parent_span_id":"span","root_id":"root","span_id":"any"}`
			}).json()).frame(), vectors.Expect{SameMsgID: new(true), FreeMembers: []string{"cap", "id", "ts", "payload.message", "trace.span_id"}}),
		},
		siblings: []sibling{
			scene("an envelope that is over",
				in("a signed request", sdlFrame(1, usualID, sdlSigned(sdlRequest("1"), `{"exp":"2026-02-19T14:55:16Z","nonce":"n"}`)).frame(), reject("SECURITY_POLICY", "")),
				sdlError("is refused", "BAD_REQUEST", "false", `{"reason":"replay_expired"}`, sdlServer, sdlCaller)),
			scene("an envelope that is good for ten years",
				in("a signed request", sdlFrame(1, usualID, sdlSigned(sdlRequest("1"), `{"exp":"2036-02-19T14:55:16Z","nonce":"n"}`)).frame(), reject("SECURITY_POLICY", "")),
				sdlError("is refused", "BAD_REQUEST", "false", "{}", sdlServer, sdlCaller)),
			scene("an envelope that was changed after it was signed",
				in("its id is another", sdlFrame(1, usualID, strings.Replace(sdlSigned(sdlRequest("1"), sdlSoon), `"id":"1"`, `"id":"2"`, 1)).frame(), reject("SECURITY_POLICY", "")),
				sdlError("is refused", "SECURITY_UNSUPPORTED", "false", sdlSecurity, sdlServer, sdlCaller)),
			scene("an envelope that is not signed",
				in("where signatures are wanted", sdlFrame(1, usualID, sdlRequest("1").json()).frame(), reject("SECURITY_POLICY", "")),
				sdlError("is refused", "SECURITY_UNSUPPORTED", "false", sdlSecurity, sdlServer, sdlCaller)),
		},
	},
	{
		id: "sdl_0007_event_not_answered", about: "an event is taken in and not answered", expect: accept,
		bin: sdlFrame(3, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) {
			e.typ, e.ct, e.payload = "evt", "state.v1", `{"base":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","patch":[]}`
		}).json()).frame(),
		siblings: []sibling{
			like("one that fails a check neither", sdlFrame(3, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) { e.typ, e.ct, e.payload = "evt", "state.v1", `{}` }).json()).frame(), reject("INVALID_PROFILE_PAYLOAD", "")),
		},
	},
	{
		id: "sdl_0008_content_type_without_handler", about: "a content type that nobody serves here is answered with those that somebody does", expect: accept,
		bin: sdlFrame(1, usualID, changed(sdlRequest("1"), func(e *sdlEnvelope) {
			e.ct, e.payload = "artifact.v1", `{"items":[],"refs":[]}`
		}).json()).frame(),
		transcript: []step{
			mainStep("an artifact"),
			sdlSays("is nobody's here", sdlEnvelope{
				ct: "error.v1", from: sdlServer, to: sdlCaller, schema: sdlErrorV1,
				payload: `{"code":"UNSUPPORTED_CT","details":{"implemented":["any"],"supported_ct":["any"]},"message":"any","retryable":true}`,
			}, "payload.details.implemented", "payload.details.supported_ct", "payload.message"),
		},
	},
}
