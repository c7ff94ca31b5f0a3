package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport"
)

// unknownTo are extensions that no endpoint knows: two that are end to end, among others.
func unknownTo(value string) e1.Extensions {
	var ext e1.Extensions
	for _, typ := range []uint64{9, 30, 47, 60, profiles.ExtEndToEnd - 1, profiles.ExtEndToEnd, profiles.ExtEndToEndLast, profiles.ExtEndToEnd, profiles.ExtEndToEndLast + 1} {
		ext = e1.AppendExtension(ext, typ, []byte(value))
	}
	return ext
}

// crossed describes the flags of a message and its extensions that nobody knows.
func crossed(env *e1.Envelope) string {
	var types []string
	for typ, value := range env.Extensions.All() {
		if typ < 16 || typ > 23 && typ < 48 || typ > 53 {
			types = append(types, fmt.Sprintf("%d=%s", typ, value))
		}
	}
	return fmt.Sprintf("%#x %s", env.Flags, strings.Join(types, " "))
}

// crossedWith is what has to arrive of a message with flags and unknownTo(value).
func crossedWith(flags uint64, value string) string {
	return fmt.Sprintf("%#x 64=%s 127=%s 64=%s", flags, value, value, value)
}

// wire is a stream of frames.
type wire struct {
	t      *testing.T
	stream transport.Stream
	in     *frame.Reader
}

func (w *wire) send(env e1.Envelope) {
	env.Version = e1.Version
	if env.MsgID == nil {
		env.MsgID = profiles.NewMsgID()
	}
	if _, err := w.stream.Write(env.Append(frame.AppendHeader(nil, env.Size()))); err != nil {
		w.t.Fatal(err)
	}
}

// recv returns the next message of a profile and type.
func (w *wire) recv(profile, msgType uint64) e1.Envelope {
	w.t.Helper()
	for {
		env, err := w.read()
		if err != nil {
			w.t.Fatalf("waiting for msg_type %d of profile %d: %v", msgType, profile, err)
		}
		if env.ProfileID == profile && env.MsgType == msgType {
			return env
		}
	}
}

func (w *wire) read() (env e1.Envelope, err error) {
	limits := e1.Limits{}.WithDefaults()
	body, err := w.in.Next()
	if err == nil {
		err = env.Decode(body, &limits)
	}
	return env.Clone(), err
}

// A message that crosses a partner keeps its flags and its end-to-end extensions, and loses
// every other extension that is not known, in both directions.
func TestFlagsAndEndToEndExtensionsCrossAPartner(t *testing.T) {
	const there, back = 1<<63 | 5, 1<<40 | 3
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		came := make(chan string, 16)
		h.with(func(m *told) bool {
			if m.method() != "" && m.method() != "method" {
				return false
			}
			reply := func(msgType uint64, msgID, payload []byte, ext e1.Extensions) {
				m.to.say(e1.Envelope{
					Version: e1.Version, ProfileID: m.ProfileID, MsgType: msgType, Flags: back, MsgID: msgID,
					Extensions: slices.Concat(unknownTo("back"), ext), Payload: payload,
				})
			}
			switch m.ProfileID {
			case mcpmap.ProfileID:
				related := e1.AppendExtension(nil, mcpmap.ExtRelated, m.MsgID)
				reply(uint64(mcpmap.Notification), profiles.NewMsgID(), []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`), related)
				reply(uint64(mcpmap.Response), m.MsgID, []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`), nil)
			case rpc.ProfileID:
				var req rpc.Req
				_ = req.Decode(m.Payload)
				reply(rpc.TypeStreamItem, m.MsgID, encode(&rpc.StreamItem{RPCID: req.RPCID, Item: []byte("x")}), nil)
				if len(req.Params) > 0 {
					reply(rpc.TypeErr, m.MsgID, encode(&rpc.Err{RPCID: req.RPCID, ErrorCode: req.Params, ErrorMessage: []byte("x")}), nil)
				} else {
					reply(rpc.TypeResp, m.MsgID, encode(&rpc.Resp{RPCID: req.RPCID, Result: []byte("x")}), nil)
				}
			case a2a.ProfileID:
				var task a2a.TaskBody
				if m.MsgType != a2a.TypeTask || task.Decode(m.Payload) != nil {
					return true
				}
				reply(a2a.TypeEvent, profiles.NewMsgID(), encode(&a2a.EventBody{TaskID: task.TaskID, Message: []byte("half")}), e1.AppendExtensionUvarint(nil, a2a.ExtSequence, 1))
				reply(a2a.TypeResult, profiles.NewMsgID(), encode(&a2a.ResultBody{TaskID: task.TaskID, OK: true}), e1.AppendExtensionUvarint(nil, a2a.ExtSequence, 1))
			case state.ProfileID:
				reply(state.TypePut, m.MsgID, encode(&state.Put{StateID: wanted.ID[:], Blob: wanted.Blob}), nil)
			default:
				return false
			}
			came <- crossed(&m.Envelope)
			return true
		})
		const request = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		key := func(code string) []byte {
			return encode(&rpc.Req{RPCID: []byte("with a key"), Method: []byte("b/method"), Params: []byte(code), IdempotencyKey: []byte("key" + code)})
		}
		task := func() e1.Envelope {
			return e1.Envelope{
				ProfileID: a2a.ProfileID, MsgType: a2a.TypeTask, Extensions: e1.AppendExtension(nil, a2a.ExtAgent, []byte("b/agent")),
				Payload: encode(&a2a.TaskBody{TaskID: []byte("task"), Kind: []byte("k"), Input: []byte("x")}),
			}
		}
		resumed := task()
		resumed.Extensions = e1.AppendExtensionUvarint(resumed.Extensions, a2a.ExtResume, 0)
		for _, test := range []struct {
			name    string
			ask     e1.Envelope
			kept    bool // answered from the store here
			answers []uint64
		}{
			{
				"mcp", e1.Envelope{ProfileID: mcpmap.ProfileID, MsgType: uint64(mcpmap.Request), Extensions: e1.AppendExtension(nil, mcpmap.ExtTarget, []byte("b/server")), Payload: []byte(request)},
				false, []uint64{uint64(mcpmap.Notification), uint64(mcpmap.Response)},
			},
			{
				"rpc", e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: encode(&rpc.Req{RPCID: []byte("an id"), Method: []byte("b/method")})},
				false, []uint64{rpc.TypeStreamItem, rpc.TypeResp},
			},
			{"rpc with a key", e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: key("")}, false, []uint64{rpc.TypeStreamItem, rpc.TypeResp}},
			{"rpc with the key again", e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: key("")}, true, []uint64{rpc.TypeResp}},
			{"an error of rpc", e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: key("code")}, false, []uint64{rpc.TypeErr}},
			{"the error of rpc again", e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: key("code")}, true, []uint64{rpc.TypeErr}},
			{"a2a", task(), false, []uint64{a2a.TypeEvent, a2a.TypeResult}},
			{"a2a again", resumed, true, []uint64{a2a.TypeEvent, a2a.TypeResult}},
			{
				"state", e1.Envelope{ProfileID: state.ProfileID, MsgType: state.TypeGet, Extensions: e1.AppendExtension(nil, profiles.ExtTarget, []byte("b")), Payload: encode(&state.Get{StateID: wanted.ID[:]})},
				false, []uint64{state.TypePut},
			},
		} {
			t.Run(test.name, func(t *testing.T) {
				stream := a.raw(a.addrs[transport])
				w := &wire{t, stream, frame.NewReader(stream, frame.Options{})}
				test.ask.Flags, test.ask.Extensions = there, slices.Concat(test.ask.Extensions, unknownTo("there"))
				w.send(test.ask)
				for _, typ := range test.answers {
					answer := w.recv(test.ask.ProfileID, typ)
					if got, want := crossed(&answer), crossedWith(back, "back"); got != want {
						t.Errorf("answer of msg_type %d: %s, want %s", typ, got, want)
					}
				}
				if test.kept {
					return
				}
				if got, want := <-came, crossedWith(there, "there"); got != want {
					t.Errorf("at the partner: %s, want %s", got, want)
				}
			})
		}
	})
}
