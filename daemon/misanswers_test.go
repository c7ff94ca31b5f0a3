package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// wrong is an answer by which a partner breaks the protocol, and the question.
type wrong struct {
	profile string
	ask     func(t *testing.T, s *session) error
	answers func(m *told) bool
}

// when has messages of a profile and type answered.
func when(profile, msgType uint64, answer func(m *told)) func(m *told) bool {
	return func(m *told) bool {
		if m.ProfileID != profile || m.MsgType != msgType {
			return false
		}
		answer(m)
		return true
	}
}

// encode is the payload of a message.
func encode(m interface{ Append([]byte) []byte }) []byte { return m.Append(nil) }

var (
	wanted = state.State{Blob: []byte("wanted"), ID: state.IDOf([]byte("wanted"))}
	other  = state.State{Blob: []byte("other"), ID: state.IDOf([]byte("other"))}
)

func fetches(t *testing.T, s *session) error {
	got, err := state.Fetch(t.Context(), profiles.Toward(s.Session, "b"), wanted.ID)
	if err == nil {
		t.Errorf("the state %q was shown", got.Blob)
	}
	return err
}

func wrongStates() map[string]wrong {
	gets := func(answer func(m *told)) wrong {
		return wrong{"state", fetches, when(state.ProfileID, state.TypeGet, answer)}
	}
	return map[string]wrong{
		"another state": gets(func(m *told) {
			m.answer(state.TypePut, encode(&state.Put{StateID: other.ID[:], Blob: other.Blob}))
		}),
		"a blob of another digest": gets(func(m *told) {
			m.answer(state.TypePut, encode(&state.Put{StateID: wanted.ID[:], Blob: other.Blob}))
		}),
		"its own parent": gets(func(m *told) {
			m.answer(state.TypePut, encode(&state.Put{StateID: wanted.ID[:], Blob: wanted.Blob, ParentIDs: [][]byte{wanted.ID[:]}}))
		}),
		"a payload that is none": gets(func(m *told) { m.answer(state.TypePut, []byte{0xff}) }),
		"an answer of another profile": gets(func(m *told) {
			m.ProfileID = rpc.ProfileID
			m.answer(rpc.TypeResp, encode(&rpc.Resp{RPCID: []byte("an id of a call."), Result: []byte("x")}))
		}),
		"a state where nothing is answered": {
			"state",
			func(t *testing.T, s *session) error {
				_, err := state.PutAll(t.Context(), opened(t, profiles.Toward(s.Session, "b")), rpc.Sync, wanted)
				return err
			},
			when(state.ProfileID, state.TypePut, func(m *told) { m.answer(state.TypePut, m.Payload) }),
		},
	}
}

const artifactSize = 3 << 20

func downloads(t *testing.T, s *session) error {
	octets, err := got(t, s.Session, artifact.Download{ArtifactID: "b/x"})
	if len(octets) > 0 {
		t.Errorf("%d octets were shown", len(octets))
	}
	return err
}

func uploaded(t *testing.T, s *session) error {
	octets, sum := octetsOf(artifactSize)
	u := artifact.Upload{ArtifactID: "b/x", Size: artifactSize, Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
	u.Progress = func(durable uint64) { t.Errorf("%d octets are said to be durable", durable) }
	return u.Send(t.Context(), s.Session)
}

func wrongArtifacts() map[string]wrong {
	chunk := func(c artifact.Chunk) wrong {
		return wrong{"artifact", downloads, when(artifact.ProfileID, artifact.TypeGet, func(m *told) { m.answer(artifact.TypeChunk, encode(&c)) })}
	}
	ack := func(of uint64, a artifact.Ack, ext e1.Extensions) wrong {
		return wrong{"artifact", uploaded, when(artifact.ProfileID, of, func(m *told) { m.answer(artifact.TypeAck, encode(&a), ext) })}
	}
	x := []byte("x")
	return map[string]wrong{
		"a chunk of another artifact":    chunk(artifact.Chunk{ArtifactID: []byte("y"), Data: x}),
		"a chunk of what is here":        chunk(artifact.Chunk{ArtifactID: []byte("b/x"), Data: x}),
		"the second chunk first":         chunk(artifact.Chunk{ArtifactID: x, ChunkIndex: 1, Data: x}),
		"a chunk behind a gap":           chunk(artifact.Chunk{ArtifactID: x, Offset: 1, Data: x}),
		"a chunk beyond the range":       chunk(artifact.Chunk{ArtifactID: x, Data: make([]byte, 2<<20+1)}),
		"a chunk of nothing":             chunk(artifact.Chunk{ArtifactID: x}),
		"an offset that wraps":           chunk(artifact.Chunk{ArtifactID: x, Offset: 1<<64 - 1, Data: x}),
		"an ACK in place of a chunk":     {"artifact", downloads, when(artifact.ProfileID, artifact.TypeGet, func(m *told) { m.answer(artifact.TypeAck, encode(&artifact.Ack{ArtifactID: x})) })},
		"more durable than there is":     ack(artifact.TypeOffer, artifact.Ack{ArtifactID: x}, e1.AppendExtensionUvarint(nil, artifact.ExtDurable, artifactSize+1)),
		"an offer of another artifact":   ack(artifact.TypeOffer, artifact.Ack{ArtifactID: []byte("y")}, e1.AppendExtensionUvarint(nil, artifact.ExtDurable, artifactSize)),
		"a chunk for an offer":           {"artifact", uploaded, when(artifact.ProfileID, artifact.TypeOffer, func(m *told) { m.answer(artifact.TypeChunk, encode(&artifact.Chunk{ArtifactID: x})) })},
		"an ACK of what was not sent":    ack(artifact.TypeChunk, artifact.Ack{ArtifactID: x, ChunkIndex: 7}, nil),
		"an ACK of another artifact":     ack(artifact.TypeChunk, artifact.Ack{ArtifactID: []byte("y")}, nil),
		"a durable size that is no size": ack(artifact.TypeOffer, artifact.Ack{ArtifactID: x}, e1.AppendExtension(nil, artifact.ExtDurable, []byte{0xff})),
	}
}

func event(kind string) []events.Record {
	r := record("1", kind, "body")
	return []events.Record{*r}
}

func wrongEvents() map[string]wrong {
	asks := map[string]events.SubscribeOptions{"live, ": {Filter: "type:b/k"}, "durable, ": {Filter: "type:b/k", Name: "mine"}}
	answers := map[string]func(m *told){
		"an event that is not subscribed to": func(m *told) {
			m.batch(1, nil)
			m.batch(2, event("secret"))
		},
		"an event of a name here": func(m *told) {
			m.batch(1, nil)
			m.batch(2, event("b/k"))
		},
		"a cursor that goes back": func(m *told) {
			m.batch(5, nil)
			m.batch(4, event("k"))
		},
		"no cursor any more": func(m *told) {
			m.batch(5, nil)
			m.answer(events.TypeBatch, encode(&events.Batch{Events: event("k")}))
		},
		"a batch that is none": func(m *told) {
			m.batch(1, nil)
			m.answer(events.TypeBatch, []byte{0xff})
		},
	}
	all := make(map[string]wrong)
	for how, o := range asks {
		for name, answer := range answers {
			all[how+name] = wrong{"events", func(t *testing.T, s *session) error {
				sub, err := events.Open(t.Context(), s.Session, o)
				if err != nil {
					return err // it had broken the protocol by then
				}
				defer sub.Close()
				for {
					d, err := sub.Recv(t.Context())
					if err != nil {
						return err
					}
					if len(d.Events) > 0 {
						t.Errorf("%s was delivered", d.Events[0].EventType)
					}
				}
			}, when(events.ProfileID, events.TypeSubscribe, answer)}
		}
	}
	all["a state for an event"] = wrong{"events", func(t *testing.T, s *session) error {
		return publishes(t, s.Session, record("1", "b/k", "x"))
	}, when(events.ProfileID, events.TypePublish, func(m *told) { m.batch(1, nil) })}
	return all
}

// batch sends events with a cursor.
func (m *told) batch(cursor uint64, list []events.Record) {
	m.answer(events.TypeBatch, encode(&events.Batch{Events: list}), e1.AppendExtensionUvarint(nil, events.ExtCursor, cursor))
}

func wrongCardsAndTools() map[string]wrong {
	card := func(t *testing.T, s *session) error {
		c, err := agdisc.Ask(t.Context(), s.Session, "b/x", "")
		if err == nil {
			t.Errorf("the card %+v was shown", c)
		}
		return err
	}
	toolOf := func(t *testing.T, s *session) error {
		found, err := tooldisc.Find(t.Context(), s.Session, "b/x", "1")
		if err == nil {
			t.Errorf("the tool %+v was shown", found)
		}
		return err
	}
	descriptor := func(id, version string) []byte {
		return encode(&tooldisc.GetResp{Tool: tooldisc.Descriptor{
			ToolID: []byte(id), Name: []byte("name"), Version: []byte(version), SchemaRef: []byte("sha256:" + strings.Repeat("0", 64)),
		}})
	}
	doc := func(id string) []byte {
		return encode(&agdisc.Doc{AgentID: []byte(id), SchemaRevision: []byte("1"), CardPayload: []byte("{}"), ETag: []byte("e")})
	}
	cards := func(msgType uint64, payload []byte) wrong {
		return wrong{"agdisc", card, when(agdisc.ProfileID, agdisc.TypeGet, func(m *told) { m.answer(msgType, payload) })}
	}
	tools := func(msgType uint64, payload []byte) wrong {
		return wrong{"tooldisc", toolOf, when(tooldisc.ProfileID, tooldisc.TypeGetReq, func(m *told) { m.answer(msgType, payload) })}
	}
	return map[string]wrong{
		"a card of another agent":        cards(agdisc.TypeDoc, doc("y")),
		"a card of an agent here":        cards(agdisc.TypeDoc, doc("b/x")),
		"not modified, which none asked": cards(agdisc.TypeNotModified, encode(&agdisc.NotModified{AgentID: []byte("x"), ETag: []byte("e")})),
		"another tool":                   tools(tooldisc.TypeGetResp, descriptor("y", "1")),
		"another version":                tools(tooldisc.TypeGetResp, descriptor("x", "2")),
		"a list for a tool":              tools(tooldisc.TypeListResp, encode(&tooldisc.ListResp{})),
	}
}

func wrongCalls() map[string]wrong {
	call := func(t *testing.T, s *session) error {
		result, err := rpc.Call(t.Context(), s.Session, "b/method", nil)
		if err == nil {
			t.Errorf("the result %q was shown", result)
		}
		return err
	}
	calls := func(answer func(m *told, id []byte)) wrong {
		return wrong{"rpc", call, func(m *told) bool {
			if m.method() != "method" {
				return false
			}
			var req rpc.Req
			_ = req.Decode(m.Payload)
			answer(m, req.RPCID)
			return true
		}}
	}
	item := func(m *told, id []byte, n uint64, last bool) {
		m.answer(rpc.TypeStreamItem, encode(&rpc.StreamItem{RPCID: id, SeqNo: n, IsTerminal: last, Item: []byte("x")}))
	}
	return map[string]wrong{
		"the result of another call": calls(func(m *told, _ []byte) {
			m.answer(rpc.TypeResp, encode(&rpc.Resp{RPCID: []byte("of somebody else"), Result: []byte("x")}))
		}),
		"the error of another call": calls(func(m *told, _ []byte) {
			m.answer(rpc.TypeErr, encode(&rpc.Err{RPCID: []byte("of somebody else"), ErrorCode: []byte("x"), ErrorMessage: []byte("x")}))
		}),
		"an item again":              calls(func(m *told, id []byte) { item(m, id, 1, false); item(m, id, 1, false) }),
		"an item after the last one": calls(func(m *told, id []byte) { item(m, id, 1, true); item(m, id, 2, false) }),
	}
}

func wrongTasks() map[string]wrong {
	return map[string]wrong{"the result of another task": {"a2a", func(t *testing.T, s *session) error {
		_, result := s.hand(t, &a2a.Task{Kind: "k", Input: []byte("x")}, a2a.SendOptions{Agent: "b/agent"})
		if result.OK {
			t.Errorf("the result %q was shown", result.Output)
		}
		return errors.New(result.Reason + ": ")
	}, when(a2a.ProfileID, a2a.TypeTask, func(m *told) {
		m.answer(a2a.TypeResult, encode(&a2a.ResultBody{TaskID: []byte("of somebody else"), OK: true, Output: []byte("x")}))
	})}}
}

func wrongMCP() map[string]wrong {
	const request = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	call := func(t *testing.T, s *session) error {
		result, err := s.ask(t, mcpmap.Call{Target: "b/server", Octets: []byte(request)})
		if err != nil {
			return err
		}
		if result.Error() == nil {
			t.Errorf("the result %s was shown", result.Octets)
		}
		return profiles.Errorf(profiles.Internal, "%s", result.Error())
	}
	calls := func(response string) wrong {
		return wrong{"mcp", call, when(mcpmap.ProfileID, uint64(mcpmap.Request), func(m *told) { m.answer(uint64(mcpmap.Response), []byte(response)) })}
	}
	return map[string]wrong{
		"the response to another request": calls(`{"jsonrpc":"2.0","id":8,"result":{}}`),
		"a result without a request":      calls(`{"jsonrpc":"2.0","id":null,"result":{}}`),
		"a request as a response":         calls(request),
		"what is no JSON":                 calls(`{"jsonrpc":"2.0","id":7,"result":{}`),
	}
}

// wrongSessions are answers in a session of the legacy era.
func wrongSessions() map[string]wrong {
	const name = "a session"
	begin := func(t *testing.T, s *session) (string, error) {
		result, err := s.ask(t, mcpmap.Call{Target: "b/server", Octets: []byte(legacyBegin)})
		if err != nil {
			return "", err
		}
		if failure := result.Error(); failure != nil {
			return "", profiles.Errorf(profiles.Internal, "%s", failure)
		}
		return result.Session, nil
	}
	opens := func(ext e1.Extensions, response string) wrong {
		return wrong{"mcp", func(t *testing.T, s *session) error {
			_, err := begin(t, s)
			return err
		}, when(mcpmap.ProfileID, uint64(mcpmap.Request), func(m *told) { m.answer(uint64(mcpmap.Response), []byte(response), ext) })}
	}
	calls := func(response string) wrong {
		return wrong{"mcp", func(t *testing.T, s *session) error {
			session, err := begin(t, s)
			if err != nil {
				return err
			}
			result, err := s.ask(t, mcpmap.Call{Target: "b/server", Session: session, Octets: []byte(legacyCall)})
			if err != nil {
				return err
			}
			if result.Error() == nil {
				t.Errorf("the result %s was shown", result.Octets)
			}
			return profiles.Errorf(profiles.Internal, "%s", result.Error())
		}, when(mcpmap.ProfileID, uint64(mcpmap.Request), func(m *told) {
			if m.begins("") {
				return
			}
			m.answer(uint64(mcpmap.Response), []byte(response))
		})}
	}
	return map[string]wrong{
		"legacy, the answer to another initialize": opens(sessionNamed(name), `{"jsonrpc":"2.0","id":1,"result":{}}`),
		"legacy, an initialize that is no JSON":    opens(sessionNamed(name), `{"jsonrpc":"2.0","id":0,"result":{}`),
		"legacy, a session without a name":         opens(nil, legacyBegun),
		"legacy, a name of 257 octets":             opens(sessionNamed(strings.Repeat("s", 257)), legacyBegun),
		"legacy, a name that is no text":           opens(sessionNamed("s\x00"), legacyBegun),
		"legacy, the response to another request":  calls(`{"jsonrpc":"2.0","id":8,"result":{}}`),
		"legacy, a result without a request":       calls(`{"jsonrpc":"2.0","id":null,"result":{}}`),
		"legacy, a request as a response":          calls(legacyCall),
		"legacy, a response that is no JSON":       calls(`{"jsonrpc":"2.0","id":7,"result":{}`),
		"legacy, an answer of another profile": {"mcp", calls("").ask, when(mcpmap.ProfileID, uint64(mcpmap.Request), func(m *told) {
			if m.begins("") {
				return
			}
			m.ProfileID = rpc.ProfileID
			m.answer(rpc.TypeResp, encode(&rpc.Resp{RPCID: []byte("an id of a call."), Result: []byte("x")}))
		})},
	}
}

const (
	legacyBegin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	legacyBegun = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"t","version":"1"}}}`
	legacyCall  = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`
)

// sessionNamed names a legacy session.
func sessionNamed(name string) e1.Extensions {
	return e1.AppendExtension(nil, mcpmap.ExtSession, []byte(name))
}

// begins answers an initialize as a partner does, with the name of a session, or with a
// new one.
func (m *told) begins(name string) bool {
	if !bytes.Contains(m.Payload, []byte(`"initialize"`)) {
		return false
	}
	m.answer(uint64(mcpmap.Response), []byte(legacyBegun), sessionNamed(cmp.Or(name, hex.EncodeToString(m.MsgID))))
	return true
}

// wrongEnvelopes are answers to requests of A2A-SDL.
func wrongEnvelopes() map[string]wrong {
	asks := func(answer func(m *told)) wrong {
		return wrong{"sdl", func(t *testing.T, s *session) error {
			code, reason, said := refusal(t, profiles.Toward(s.Session, "b"), sdlToolCall("sys.ping"))
			if code != "INTERNAL" || reason != "partner_wrong" {
				t.Errorf("the error is %s, %s", code, reason)
			}
			return errors.New(said)
		}, when(carriage.ProfileID, carriage.TypeReq, answer)}
	}
	return map[string]wrong{
		"what is neither JSON nor CBOR": asks(func(m *told) { m.answer(carriage.TypeRes, []byte("SLIP v1")) }),
		"nothing":                       asks(func(m *told) { m.answer(carriage.TypeRes, nil) }),
		"an answer of another profile": asks(func(m *told) {
			m.ProfileID = rpc.ProfileID
			m.answer(rpc.TypeResp, encode(&rpc.Resp{RPCID: []byte("an id of a call."), Result: []byte("x")}))
		}),
	}
}

// wrongConsumers are answers to those who attach at a partner, and about deliveries there.
func wrongConsumers() map[string]wrong {
	attaches := func(answer func(m *told, id []byte)) wrong {
		return wrong{"relay", func(t *testing.T, s *session) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := s.relays.Consume(ctx, s.Session, "b/t", 2)
			if err != nil {
				return err
			}
			defer c.Close()
			d, err := c.Recv(ctx)
			if err == nil {
				t.Errorf("%s was delivered", d.Payload)
			}
			return err
		}, func(m *told) bool {
			var req rpc.Req
			if m.method() != relay.MethodAttach || req.Decode(m.Payload) != nil {
				return false
			}
			answer(m, req.RPCID)
			return true
		}}
	}
	item := func(m *told, id []byte, n uint64, item string) {
		m.answer(rpc.TypeStreamItem, encode(&rpc.StreamItem{RPCID: id, SeqNo: n, Item: []byte(item)}))
	}
	return map[string]wrong{
		"attached to more than was asked for":   attaches(func(m *told, id []byte) { item(m, id, 1, `{"topic":"t","max_in_flight":3}`) }),
		"attached to as much as can be written": attaches(func(m *told, id []byte) { item(m, id, 1, `{"topic":"t","max_in_flight":9223372036854775807}`) }),
		"attached to nothing":                   attaches(func(m *told, id []byte) { item(m, id, 1, `{"topic":"t","max_in_flight":0}`) }),
		"attached to what is no JSON":           attaches(func(m *told, id []byte) { item(m, id, 1, `{`) }),
		"attached to the call of another":       attaches(func(m *told, _ []byte) { item(m, []byte("of somebody else"), 1, `{"topic":"t","max_in_flight":2}`) }),
		"an attachment with a second first item": attaches(func(m *told, id []byte) {
			item(m, id, 1, `{"topic":"t","max_in_flight":2}`)
			item(m, id, 1, `{}`)
		}),
	}
}

// A wrong answer is one error that names the partner, and is logged and counted. Nothing of
// it is shown, and the link serves others before and afterwards.
func TestPR19AWrongAnswerIsAnErrorThatNamesThePartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		seen := make(map[string]int)
		for _, all := range []map[string]wrong{wrongStates(), wrongArtifacts(), wrongEvents(), wrongCardsAndTools(), wrongCalls(), wrongMCP(), wrongTasks(), wrongSessions(), wrongEnvelopes(), wrongConsumers()} {
			for name, test := range all {
				t.Run(test.profile+": "+name, func(t *testing.T) {
					h.with(test.answers)
					done := make(chan error, 1)
					go func() { done <- test.ask(t, s) }()
					select {
					case err := <-done:
						if err == nil || !strings.Contains(err.Error(), "partner b broke the protocol with its answer: ") {
							t.Errorf("told %v, want that partner b broke the protocol", err)
						}
					case <-time.After(patience):
						t.Fatal("nothing was told")
					}
					seen[test.profile]++
					h.with(nil)
					if _, err := rpc.Call(t.Context(), s.Session, "b/swp.ping", nil); err != nil {
						t.Errorf("others after it: %v", err)
					}
				})
			}
		}
		a.await(`"msg":"wrong answer of partner","partner":"b","peer":"` + theCaller + `","profile":"state","operation":"get","name":"b/` + hex.EncodeToString(wanted.ID[:]))
		for profile, n := range seen {
			if a.metric(`swpd_partner_wrong_answers_total{partner="b",profile="`+profile+`"}`) == "" || n == 0 {
				t.Errorf("wrong answers of profile %s are not counted", profile)
			}
		}
	})
}
