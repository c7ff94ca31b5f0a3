package command

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/serve"
)

// coreOnly is a peer of raw sockets that knows frames, envelopes and one profile, as its
// specification has it: none of the extensions and methods of this project. It may know
// RPC, without any method; otherwise a message of profile 12 ends the connection.
type coreOnly struct {
	profile uint64
	rpc     bool

	// answer returns the answers to a message of the profile, nil for none.
	answer func(env *e1.Envelope) []e1.Envelope

	ln      net.Listener
	serving sync.WaitGroup
	mu      sync.Mutex
	came    []string // profile_id/msg_type of what came, in order
}

// start makes the peer listen with a certificate from dir, and returns its address.
func (p *coreOnly) start(t *testing.T, dir string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	p.ln, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"swp/1"}, ClientAuth: tls.RequireAnyClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.serving.Go(func() {
		for {
			conn, err := p.ln.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() {
				p.serve(conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = p.ln.Close()
		p.serving.Wait()
	})
	return "swp+tls://" + p.ln.Addr().String()
}

// serve answers the frames of a connection until it ends, or one is of an unknown profile.
func (p *coreOnly) serve(conn net.Conn) {
	limits := e1.Limits{}.WithDefaults()
	for in := bufio.NewReader(conn); ; {
		var prefix [4]byte
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(prefix[:]))
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		var env e1.Envelope
		if err := env.Decode(body, &limits); err != nil {
			return
		}
		p.mu.Lock()
		p.came = append(p.came, fmt.Sprintf("%d/%d", env.ProfileID, env.MsgType))
		p.mu.Unlock()
		var answers []e1.Envelope
		switch {
		case env.ProfileID == p.profile:
			answers = p.answer(&env)
		case env.ProfileID == rpc.ProfileID && p.rpc:
			answers = noMethod(&env)
		default:
			return // ERR_UNKNOWN_PROFILE
		}
		for _, a := range answers {
			a.Version, a.ProfileID, a.MsgID = env.Version, env.ProfileID, env.MsgID
			octets := a.Append(binary.BigEndian.AppendUint32(nil, uint32(a.Size())))
			if _, err := conn.Write(octets); err != nil {
				return
			}
		}
	}
}

// saw returns what came.
func (p *coreOnly) saw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.came, " ")
}

// noMethod answers a call as an endpoint that has no methods.
func noMethod(env *e1.Envelope) []e1.Envelope {
	var req rpc.Req
	if req.Decode(env.Payload) != nil {
		return nil
	}
	m := rpc.Err{RPCID: req.RPCID, ErrorCode: []byte(rpc.CodeUnknownMethod), ErrorMessage: []byte("no such method")}
	return one(rpc.TypeErr, &m)
}

type message interface{ Append(dst []byte) []byte }

func one(msgType uint64, m message) []e1.Envelope {
	return []e1.Envelope{{MsgType: msgType, Payload: m.Append(nil)}}
}

// silentProfile accepts all messages without an answer.
func silentProfile(*e1.Envelope) []e1.Envelope { return nil }

// states keeps states.
func states() func(*e1.Envelope) []e1.Envelope {
	var mu sync.Mutex
	kept := make(map[string][]byte)
	return func(env *e1.Envelope) []e1.Envelope {
		mu.Lock()
		defer mu.Unlock()
		var put state.Put
		var get state.Get
		switch {
		case env.MsgType == state.TypePut && put.Decode(env.Payload) == nil:
			kept[string(put.StateID)] = bytes.Clone(env.Payload)
		case env.MsgType == state.TypeGet && get.Decode(env.Payload) == nil:
			if octets, ok := kept[string(get.StateID)]; ok {
				return []e1.Envelope{{MsgType: state.TypePut, Payload: octets}}
			}
			return one(state.TypeErr, &state.Err{Code: []byte(state.CodeNotFound)})
		}
		return nil
	}
}

// artifacts acknowledges each chunk.
func artifacts(env *e1.Envelope) []e1.Envelope {
	var m artifact.Chunk
	if env.MsgType != artifact.TypeChunk || m.Decode(env.Payload) != nil {
		return nil
	}
	return one(artifact.TypeAck, &artifact.Ack{ArtifactID: m.ArtifactID, ChunkIndex: m.ChunkIndex})
}

// tasks answers each task at once.
func tasks(env *e1.Envelope) []e1.Envelope {
	var m a2a.TaskBody
	if env.MsgType != a2a.TypeTask || m.Decode(env.Payload) != nil {
		return nil
	}
	return one(a2a.TypeResult, &a2a.ResultBody{TaskID: m.TaskID, OK: true, Output: []byte("done")})
}

// mcpServer is a legacy MCP server with one tool.
func mcpServer(env *e1.Envelope) []e1.Envelope {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(env.Payload, &request) != nil || request.ID == nil {
		return nil
	}
	result := ""
	switch request.Method {
	case "initialize":
		result = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	case "tools/list":
		result = `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	default:
		result = `"error":{"code":-32601,"message":"no such method"}`
	}
	return []e1.Envelope{{MsgType: 2, Payload: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, result)}}
}

func cards(env *e1.Envelope) []e1.Envelope {
	var m agdisc.Get
	if m.Decode(env.Payload) != nil {
		return nil
	}
	return one(agdisc.TypeDoc, &agdisc.Doc{AgentID: m.AgentID, SchemaRevision: []byte("1"), CardPayload: []byte(`{"name":"x"}`), ETag: []byte("e")})
}

func tools(*e1.Envelope) []e1.Envelope {
	return one(tooldisc.TypeListResp, &tooldisc.ListResp{Tools: []tooldisc.Descriptor{
		{ToolID: []byte("t1"), Name: []byte("hammer"), Version: []byte("1.0.0"), SchemaRef: []byte("https://example.org/s"), DescriptorPayload: []byte("{}")},
	}})
}

func hinted(env *e1.Envelope) []e1.Envelope {
	return one(policyhint.TypeAck, &policyhint.Ack{AckID: []byte(hex.EncodeToString(env.MsgID))})
}

func deliveries(env *e1.Envelope) []e1.Envelope {
	var m relay.Publish
	if m.Decode(env.Payload) != nil {
		return nil
	}
	return one(relay.TypeAck, &relay.Ack{DeliveryID: m.DeliveryID})
}

// envelopes answers requests of A2A-SDL, of whatever sender.
func envelopes(t *testing.T) func(*e1.Envelope) []e1.Envelope {
	t.Helper()
	s, err := serve.New(serve.Options{Tools: serve.ToolSet{"sys.ping": serve.Ping}, Compat: serve.Compat{NoToolPolicyAllows: true}})
	if err != nil {
		t.Fatal(err)
	}
	return func(env *e1.Envelope) []e1.Envelope {
		form, refused := sdl.FormOf(env.Payload)
		if env.MsgType != carriage.TypeReq || refused != nil {
			return nil
		}
		return []e1.Envelope{{MsgType: carriage.TypeRes, Payload: s.Handle(t.Context(), env.Payload, form, serve.Caller{}).Answer}}
	}
}

// traced keeps the trace context of the only connection that there is at a time.
func traced() func(*e1.Envelope) []e1.Envelope {
	var kept atomic.Pointer[obs.Doc]
	return func(env *e1.Envelope) []e1.Envelope {
		var set obs.Set
		if env.MsgType == obs.TypeSet && set.Decode(env.Payload) == nil {
			kept.Store(&obs.Doc{Fields: obs.Fields{Traceparent: bytes.Clone(set.Traceparent)}})
			return nil
		}
		return one(obs.TypeDoc, kept.Load())
	}
}

// refusing answers each message with an error message of its profile.
func refusing(msgType uint64, m message) func(*e1.Envelope) []e1.Envelope {
	return func(*e1.Envelope) []e1.Envelope { return one(msgType, m) }
}

// What swp-client says, and with which exit code, at endpoints that know Core and one
// profile, and of RPC either no method or nothing.
func TestClientAtAPeerThatKnowsCoreAndOneProfile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	if err := devpki.Create(dir, devpki.Options{Name: "spiffe://example.org/me"}); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a.b.c"), 0o600); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		code   int
		out    string // regular expression of standard output
		errOut string // part of standard error
	}
	const noSync, lost, needsRPC = "does not know swp.sync", "may be lost", "need profile 12 (RPC)"
	done := func(out string) [2]outcome { return [2]outcome{{0, out, ""}, {0, out, ""}} }
	unsure := func() [2]outcome {
		out := `^\{.*"confirmed":false.*\}$`
		return [2]outcome{{0, out, noSync}, {ExitUnconfirmed, out, lost}}
	}
	answer := func(code string) [2]outcome { return [2]outcome{{1, "^$", code}, {1, "^$", code}} }
	none := strings.Repeat("00", state.IDSize)
	for _, r := range []struct {
		command string // before the address
		args    string // after it
		profile uint64
		answer  func(env *e1.Envelope) []e1.Envelope
		want    [2]outcome // with RPC, and without
	}{
		{"mcp list", "", mcpmap.ProfileID, mcpServer, done("echo")},
		{"a2a send", "--kind k", a2a.ProfileID, tasks, done(`"ok":true`)},
		{"agents get", "x", agdisc.ProfileID, cards, done(`"name":"x"`)},
		{"agents ls", "", agdisc.ProfileID, cards, [2]outcome{{1, "^$", "unknown_method"}, {1, "^$", needsRPC}}},
		{"tools ls", "", tooldisc.ProfileID, tools, done("hammer")},
		{"rpc call", "m", rpc.ProfileID, noMethod, [2]outcome{
			{1, `"code":"unknown_method"`, "unknown_method"}, {1, `"code":"unknown_method"`, "unknown_method"},
		}},
		{"ping", "--count 2 --interval 0", rpc.ProfileID, noMethod, done(`"count":2`)},
		{"ping", "", state.ProfileID, states(), [2]outcome{{0, `"count":4`, ""}, {1, "^$", needsRPC}}},
		{"events publish", "--type t", events.ProfileID, silentProfile, unsure()},
		{"events publish", "--type t --lines", events.ProfileID, silentProfile, [2]outcome{
			{0, `"confirmed":0,.*"sent":3`, noSync}, {ExitUnconfirmed, `"confirmed":0`, lost},
		}},
		{"events publish", "--type t", events.ProfileID, refusing(events.TypeErr, &events.Err{Code: []byte("RATE_LIMITED")}), answer("RATE_LIMITED")},
		{"artifact put", token, artifact.ProfileID, artifacts, done(`"size":5`)},
		{"cred present", token, cred.ProfileID, silentProfile, unsure()},
		{"cred delegate", "00 " + token, cred.ProfileID, silentProfile, unsure()},
		{"cred revoke", "00", cred.ProfileID, silentProfile, unsure()},
		{"cred present", token, cred.ProfileID, refusing(cred.TypeErr, &cred.Err{Code: []byte(cred.CodeUnsupported)}), answer(cred.CodeUnsupported)},
		{"state put", "blob", state.ProfileID, states(), done(`"state_id":.*"confirmed":true`)},
		{"state put", "blob", state.ProfileID, refusing(state.TypeErr, &state.Err{Code: []byte(state.CodeParentMissing)}), answer(state.CodeParentMissing)},
		{"state delta", none + " delta", state.ProfileID, silentProfile, unsure()},
		{"state get", none, state.ProfileID, states(), answer(state.CodeNotFound)},
		{"policy set", "no_pii=true", policyhint.ProfileID, hinted, done(`"key":"no_pii"`)},
		{"relay publish", "topic payload", relay.ProfileID, deliveries, done(`"delivery_id"`)},
		{"obs set", "--traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", obs.ProfileID, traced(), done("0af7651916cd43dd8448eb211c80319c")},
		{"sdl send", "{} --tool sys.ping --from did:key:a --to did:key:b", carriage.ProfileID, envelopes(t), done(`"pong":true`)},
		{"sdl send", "{} --tool none --from did:key:a --to did:key:b", carriage.ProfileID, envelopes(t), [2]outcome{{1, `"ok":false`, "the tool has failed"}, {1, `"ok":false`, "the tool has failed"}}},
		{"sdl send", "{} --tool sys.ping --from did:key:a --to did:key:b", state.ProfileID, states(), answer("probably it does not serve the profile of the message")},
		{"slip send", "hello", slip.ProfileID, silentProfile, [2]outcome{{0, `"msg_id":.*"confirmed":false`, noSync}, {ExitUnconfirmed, `"msg_id":.*"confirmed":false`, lost}}},
	} {
		for i, want := range r.want {
			peer := &coreOnly{profile: r.profile, answer: r.answer, rpc: i == 0}
			t.Run(fmt.Sprintf("%s %s, RPC %t", r.command, r.args, peer.rpc), func(t *testing.T) {
				args := append(strings.Fields(r.command), peer.start(t, dir))
				args = append(append(args, strings.Fields(r.args)...), "--identity", dir, "--json")
				var out, errOut bytes.Buffer
				code := Main("test", args, strings.NewReader("1\n2\n3\n"), &out, &errOut)
				if code != want.code || !regexp.MustCompile(want.out).MatchString(strings.TrimSpace(out.String())) || !strings.Contains(errOut.String(), want.errOut) {
					t.Errorf("exit code %d, want %d; saw %s\nstdout: %s\nwant: %s\nstderr: %s\nwant: %s", code, want.code, peer.saw(), &out, want.out, &errOut, want.errOut)
				}
			})
		}
	}
}
