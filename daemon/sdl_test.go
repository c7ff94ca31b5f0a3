package daemon

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/transport/endpoint"
)

// The agents of these tests.
const (
	sdlCaller = "did:key:caller"
	sdlServer = "did:web:server.example"
)

// sdlAccess lets everybody do everything here, as any agent.
const sdlAccess = "access: {rules: [{identity: '**'}], agents: [{identity: '**', agent_ids: '**'}]}\n"

// sdlKeys are the keys of both sides.
type sdlKeys struct {
	caller, server seal.Signer
	to             seal.Recipient
	box            *ecdh.PrivateKey // of the caller
}

// newSDLKeys makes keys, and the files of a daemon in dir.
func newSDLKeys(t *testing.T, dir string) *sdlKeys {
	t.Helper()
	var k sdlKeys
	for _, s := range []struct {
		signer *seal.Signer
		kid    string
	}{{&k.caller, sdlCaller + "#1"}, {&k.server, sdlServer + "#1"}} {
		key, err := seal.GenerateSigning(nil)
		if err != nil {
			t.Fatal(err)
		}
		*s.signer = seal.Signer{Kid: s.kid, Key: key}
	}
	decrypt, err := seal.GenerateDecrypt(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.to = seal.Recipient{Kid: sdlServer + "#box", Key: decrypt.PublicKey()}
	if k.box, err = seal.GenerateDecrypt(nil); err != nil {
		t.Fatal(err)
	}
	keys := fmt.Sprintf(`{"trusted_signing_keys":{%q:%q},"decrypt_private_keys":{%q:%q},"encrypt_public_keys":{%q:%q}}`,
		k.caller.Kid, seal.FormatB64(publicOf(t, k.caller)), k.to.Kid, seal.FormatB64(decrypt), sdlCaller+"#box", seal.FormatB64(k.box.PublicKey()))
	for name, text := range map[string]string{"keys.json": keys, "sign.key": seal.FormatB64(k.server.Key)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &k
}

// sdlSecure is a daemon that wants everything signed and encrypted, once.
const sdlSecure = `sdl:
  agent_id: ` + sdlServer + `
  keys: keys.json
  mode: enc+sig
  replay: {required: true}
  sign: {key: sign.key, kid: "` + sdlServer + `#1"}
  tools: {allow: [sys.ping, modern/look, b/modern/look, elsewhere/look, modern/fails, modern/nothing]}
`

// sdlOpen is a daemon that takes envelopes as they are.
const sdlOpen = "sdl: {agent_id: " + sdlServer + ", tools: {allow: [sys.ping, modern/look, b/modern/look, elsewhere/look, modern/fails, modern/nothing]}}\n"

// request returns a request to the daemon.
func sdlRequest(ct, payload string) canonical.Value {
	v, err := canonical.ParseJSON([]byte(payload))
	if err != nil {
		panic(err)
	}
	who := func(agentID string) sdl.Identity {
		return sdl.Identity{AgentID: agentID, Name: "n", Instance: "i", Role: "r"}
	}
	return sdl.New(sdl.TypeReq, ct, who(sdlCaller), who(sdlServer), v, sdl.Writing{}).With("trace", canonical.Object(
		canonical.Member{Name: "root_id", Value: canonical.String("root")},
		canonical.Member{Name: "span_id", Value: canonical.String("span")},
		canonical.Member{Name: "hops", Value: canonical.Int(0)},
	))
}

func sdlToolCall(tool string) canonical.Value {
	return sdlRequest(sdl.CTToolCall, fmt.Sprintf(`{"tool":%q,"call_id":"c1","args":{"path":"/etc","n":1.0},"expect":{}}`, tool))
}

const sdlTask = `{"kind":"task.v1","goal":"dig","inputs":{},"constraints":{"time_budget_s":3600,"compute_budget":"low","safety":{}},` +
	`"deliverables":[],"acceptance":[],"context":{}}`

// opened returns the payload of an envelope that is encrypted to the caller, and signed.
func (k *sdlKeys) opened(t *testing.T, v canonical.Value) canonical.Value {
	t.Helper()
	if _, err := seal.Verify(v, publicOf(t, k.server)); err != nil || seal.Mode(v) != seal.EncSig || !v.Get("payload").IsNull() {
		t.Errorf("want an encrypted and signed envelope, %v: %s", err, v.AppendJSON(nil))
	}
	payload, err := seal.Decrypt(v, func(string) *ecdh.PrivateKey { return k.box })
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// secure encrypts a request, has it expire, and signs it.
func (k *sdlKeys) secure(t *testing.T, v canonical.Value, nonce string) canonical.Value {
	t.Helper()
	v, err := seal.Encrypt(v, nil, k.to)
	if err != nil {
		t.Fatal(err)
	}
	v = v.With("sec", v.Get("sec").With("replay", canonical.Object(
		canonical.Member{Name: "nonce", Value: canonical.String(nonce)},
		canonical.Member{Name: "exp", Value: canonical.String(sdl.FormatTime(time.Now().Add(5 * time.Minute)))},
	)))
	if v, err = k.caller.Sign(v); err != nil {
		t.Fatal(err)
	}
	return v
}

// speech is what a client was told.
type speech struct{ events chan canonical.Value }

func (s *speech) Handle(_ context.Context, m *carriage.Message) carriage.Answer {
	v, refused := sdl.Decode(m.Body, sdl.Form(m.Form), sdl.Limits{})
	if refused != nil || m.Type != carriage.TypeEvt {
		return carriage.Answer{Fault: &carriage.Fault{Code: carriage.CodeRequest}}
	}
	s.events <- v
	return carriage.Answer{}
}

func (*speech) Refusal(carriage.Form, *carriage.Fault) []byte { return []byte("{}") }

// sdlSession is a client that is told of events.
type sdlSession struct {
	*endpoint.Session
	set    *all.Set
	events chan canonical.Value
	far    string // the target of requests
}

// toward has requests go to a partner.
func (s *sdlSession) toward(target string) { s.far = target }

func (r *running) speak(t *testing.T) *sdlSession {
	t.Helper()
	return r.speakAs(t, devpki.Client(filepath.Join(r.dir, "pki")))
}

func (r *running) speakAs(t *testing.T, as devpki.Files) *sdlSession {
	t.Helper()
	s := &sdlSession{events: make(chan canonical.Value, 16)}
	var err error
	if s.set, err = all.New(all.Options{SDL: carriage.Options{Server: &speech{s.events}}}); err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: s.set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		s.set.Close()
	})
	conn, err := connect(t, r.addrs[0], as)
	if err != nil {
		t.Fatal(err)
	}
	s.Session = ep.Attach(conn)
	return s
}

// ask sends a request and returns the answer, which is a good one.
func (s *sdlSession) ask(t *testing.T, form sdl.Form, v canonical.Value) *sdl.Envelope {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var on profiles.Caller = s
	if s.far != "" {
		on = profiles.Toward(s.Session, s.far)
	}
	octets, err := carriage.Call(ctx, on, form.Append(nil, v))
	if err != nil {
		t.Fatal(err)
	}
	if got, refused := sdl.FormOf(octets); refused != nil || got != form {
		t.Errorf("answered in form %v, asked in %v", got, form)
	}
	answer, refused := sdl.Decode(octets, form, sdl.Limits{})
	if refused != nil {
		t.Fatal(refused)
	}
	e, refused := sdl.Validate(answer, sdl.Options{})
	if refused != nil {
		t.Fatalf("%v: %s", refused, octets)
	}
	asked, refused := sdl.Validate(v, sdl.Options{})
	if refused != nil {
		return e
	}
	if err := serve.CheckAnswer(asked, e); err != nil {
		t.Error(err)
	}
	return e
}

// publicOf returns the key that verifies what a signer signs.
func publicOf(t *testing.T, s seal.Signer) ed25519.PublicKey {
	t.Helper()
	key, ok := s.Key.Public().(ed25519.PublicKey)
	if !ok {
		t.Fatal("no Ed25519 key")
	}
	return key
}

func text(v canonical.Value, path ...string) string {
	for _, name := range path {
		v = v.Get(name)
	}
	s, _ := v.Text()
	return s
}

// told waits for an event.
func (s *sdlSession) told(t *testing.T) canonical.Value {
	t.Helper()
	select {
	case v := <-s.events:
		return v
	case <-time.After(patience):
		t.Fatal("nothing was told")
	}
	panic("unreachable")
}

func TestSDLReachesToolsOfServersHereAndBehindPartners(t *testing.T) {
	a, _ := pairOf(t, 0, sdlOpen+modernYAML(t), modernYAML(t))
	s := a.speak(t)
	for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
		for _, tool := range []string{"modern/look", "b/modern/look"} {
			p := s.ask(t, form, sdlToolCall(tool)).Payload
			if ok, _ := p.Get("ok").Bool(); !ok || text(p, "call_id") != "c1" {
				t.Fatalf("%s: %s", tool, p.AppendJSON(nil))
			}
			var got struct {
				Method string
				Params struct {
					Name      string
					Arguments json.RawMessage
				}
			}
			if err := json.Unmarshal([]byte(text(p, "result", "request")), &got); err != nil {
				t.Fatal(err)
			}
			if got.Method != "tools/call" || got.Params.Name != "look" || string(got.Params.Arguments) != `{"n":1.0,"path":"/etc"}` {
				t.Errorf("%s: the server got %+v", tool, got)
			}
			// What no encoder of floats would keep.
			if octets := string(p.Get("result").AppendJSON(nil)); !strings.Contains(octets, `"f":1.0,"n":9007199254740993`) {
				t.Errorf("%s: %s", tool, octets)
			}
		}
	}
	for tool, members := range map[string]int{"elsewhere/look": 0, "modern/not-allowed": 0, "modern/": 0, "modern/nothing": 0, "modern/fails": 2} {
		p := s.ask(t, sdl.JSON, sdlToolCall(tool)).Payload
		if ok, _ := p.Get("ok").Bool(); ok || p.Get("result").Len() != members {
			t.Errorf("%s: %s", tool, p.AppendJSON(nil))
		}
	}
}

// What a peer may not do itself it may not have done for it.
func TestSDLHoldsThePeerToItsRules(t *testing.T) {
	r := start(t, sdlOpen+modernYAML(t)+`access:
  rules:
    - {identity: 'spiffe://localhost/**', profile: sdl, name: "`+sdlCaller+`"}
    - {identity: 'spiffe://localhost/**', profile: mcp, name: [modern, modern/fails], operation: [server/discover, tools/call]}
    - {identity: 'spiffe://localhost/**', profile: a2a, name: other}
  agents: [{identity: 'spiffe://localhost/**', agent_ids: ["`+sdlCaller+`", did:key:silent]}]
`)
	s := r.speak(t)
	if p := s.ask(t, sdl.JSON, sdlToolCall("modern/look")).Payload; p.Get("result").Len() > 0 {
		t.Errorf("a tool without a rule: %s", p.AppendJSON(nil))
	}
	if p := s.ask(t, sdl.JSON, sdlToolCall("modern/fails")).Payload; p.Get("result").Len() != 2 {
		t.Errorf("a tool with a rule: %s", p.AppendJSON(nil))
	}
	if p := s.ask(t, sdl.JSON, sdlToolCall("sys.ping")).Payload; p.Get("result").Len() != 3 {
		t.Errorf("a function: %s", p.AppendJSON(nil))
	}
	for _, agentID := range []string{"did:key:silent", "did:key:other"} {
		v := sdlToolCall("sys.ping")
		v = v.With("from", v.Get("from").With("agent_id", canonical.String(agentID)))
		if p := s.ask(t, sdl.JSON, v).Payload; text(p, "code") != "SECURITY_UNSUPPORTED" {
			t.Errorf("as %s: %s", agentID, p.AppendJSON(nil))
		}
	}
	s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask))
	if p := s.told(t).Get("payload"); !strings.Contains(string(p.AppendJSON(nil)), `"value":"failed"`) || !strings.Contains(string(p.AppendJSON(nil)), a2a.ReasonDenied) {
		t.Errorf("a task without a rule: %s", p.AppendJSON(nil))
	}
	r.counts(`swpd_denials_total{profile="sdl"}`, "2")
}

// The values of a body need many times its octets in memory.
func TestRS34ValuesOfEnvelopesAreInTheBudget(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		t.Parallel()
		r := open(t, "a", sdlOpen+"limits: {in_flight_bytes: 4MiB}\n")
		s := r.mustDial(r.addrs[transport])
		const values = 150_000
		for body, refused := range map[string]bool{
			`{"v":1,"x":[` + strings.Repeat("0,", values) + `0]}`:     true,
			`{"v":1,"x":"` + strings.Repeat("00", values) + `"}`:      false,
			`{"v":1,"x":[` + strings.Repeat("0,", values/100) + `0]}`: false,
			"\xa1\x61x\x9f" + strings.Repeat("\x00", values) + "\xff": true,
		} {
			answer, err := carriage.Call(t.Context(), s.Session, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(answer, []byte(carriage.ReasonConcurrency)); got != refused {
				t.Errorf("%.20q of %d octets: refused for lack of room: %v, want %v", body, len(body), got, refused)
			}
		}
		r.counts("swpd_in_flight_bytes", "0")
	})
}

// The worker for tasks of envelopes gets no task that was in no envelope.
func TestPR20TasksDoNotGoAroundTheChecksOfSDL(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		dir := t.TempDir()
		if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
			t.Fatal(err)
		}
		newSDLKeys(t, dir)
		log := filepath.Join(dir, "runs")
		r := startIn(t, dir, sdlSecure+sdlAccess+"a2a: {workers: {w: {kinds: [sdl/task.v1, k], command: sh, args: [-c, 'cat >>"+log+"']}}}\n")
		s := r.mustDial(r.addrs[number])
		if _, result := s.hand(t, &a2a.Task{ID: []byte("1"), Kind: "sdl/task.v1", Input: []byte("in no envelope")}, a2a.SendOptions{}); result.OK || result.Reason != a2a.ReasonDenied {
			t.Errorf("%+v", result)
		}
		if _, result := s.hand(t, &a2a.Task{ID: []byte("2"), Kind: "k", Input: []byte("another kind")}, a2a.SendOptions{}); !result.OK {
			t.Errorf("%+v", result)
		}
		if got, err := os.ReadFile(log); err != nil || string(got) != "another kind" {
			t.Errorf("the worker got %q, %v", got, err)
		}
	})
}

func TestPR21AnEnvelopeForAnotherAgentIsNotAnsweredInItsName(t *testing.T) {
	r := start(t, sdlOpen+sdlAccess)
	s := r.speak(t)
	v := sdlToolCall("sys.ping")
	e := s.ask(t, sdl.JSON, v.With("to", v.Get("to").With("agent_id", canonical.String("did:key:other"))))
	if e.CT != sdl.CTError || text(e.Payload, "code") != "SECURITY_UNSUPPORTED" || e.From.AgentID != sdl.UnknownAgent {
		t.Errorf("%s from %s: %s", e.CT, e.From.AgentID, e.Payload.AppendJSON(nil))
	}
	if e := s.ask(t, sdl.JSON, v); e.CT != sdl.CTToolResult || e.From.AgentID != sdlServer {
		t.Errorf("%s from %s", e.CT, e.From.AgentID)
	}
}

func TestPR18ReplayIsRefusedBeforeAndAfterARestart(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	keys := newSDLKeys(t, dir)
	yaml := sdlSecure + sdlAccess + modernYAML(t)
	r := startIn(t, dir, yaml)
	v := keys.secure(t, sdlToolCall("modern/look"), "nonce")
	s := r.speak(t)
	answer := s.ask(t, sdl.CBOR, v)
	if ok, _ := keys.opened(t, answer.Value).Get("ok").Bool(); !ok {
		t.Fatal("the tool was not called")
	}
	if answer.Sec.Kid != keys.server.Kid {
		t.Errorf("the answer is signed as %q", answer.Sec.Kid)
	}
	for range 2 {
		if p := s.ask(t, sdl.JSON, v).Payload; text(p, "code") != "BAD_REQUEST" || text(p, "details", "reason") != sdl.ReplayDetected {
			t.Errorf("again: %s", p.AppendJSON(nil))
		}
		r.counts(`swpd_rejects_total{code="ERR_SECURITY_POLICY",detail="sdl_replay_detected",profile="sdl"}`, "1")
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		r = startIn(t, dir, yaml)
		s = r.speak(t)
	}
	if p := keys.opened(t, s.ask(t, sdl.JSON, keys.secure(t, sdlToolCall("modern/look"), "another")).Value); text(p, "call_id") != "c1" {
		t.Errorf("another nonce: %s", p.AppendJSON(nil))
	}
	if p := s.ask(t, sdl.JSON, sdlToolCall("modern/look")).Payload; text(p, "code") != "SECURITY_UNSUPPORTED" {
		t.Errorf("without security: %s", p.AppendJSON(nil))
	}
}

// states are the payloads of state.v1 up to the last one.
func (s *sdlSession) states(t *testing.T) string {
	t.Helper()
	var all []string
	for {
		e, refused := sdl.Validate(s.told(t), sdl.Options{})
		if refused != nil {
			t.Fatal(refused)
		}
		if e.Type != sdl.TypeEvt || e.CT != sdl.CTState || e.From.AgentID != sdlServer || e.To.AgentID != sdlCaller || e.Trace.ParentSpanID != "span" {
			t.Errorf("%s", e.Value.AppendJSON(nil))
		}
		patch := string(e.Payload.Get("patch").AppendJSON(nil))
		all = append(all, patch)
		if strings.Contains(patch, `"completed"`) || strings.Contains(patch, `"failed"`) {
			return strings.Join(all, " ")
		}
	}
}

const replaceStatus = `[{"op":"replace","path":"/status","value":"%s"}`

func TestSDLTasksReachWorkersAndTheirStatesComeBack(t *testing.T) {
	a := open(t, "a", sdlOpen)
	s := a.speak(t)
	accepted := s.ask(t, sdl.CBOR, sdlRequest(sdl.CTTask, sdlTask))
	if got := string(accepted.Payload.Get("patch").AppendJSON(nil)); !strings.Contains(got, `"value":"accepted"`) {
		t.Fatalf("%s", got)
	}
	if got, want := s.states(t), fmt.Sprintf(replaceStatus, "failed")+`,{"op":"add","path":"/reason","value":"unsupported capability: nobody here carries out `; !strings.HasPrefix(got, want) {
		t.Errorf("a task for nobody: %s, want %s", got, want)
	}
	inputs, end := make(chan string, 2), make(chan struct{})
	a.agent("digger", func(_ context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		inputs <- string(task.Input)
		if err := event("digging", nil); err != nil {
			return nil, err
		}
		<-end
		if err := event("still digging", nil); err != nil {
			return nil, err
		}
		return []byte(`{"depth":2.0}`), nil
	}, "sdl/task.v1")
	again := sdlRequest(sdl.CTTask, sdlTask)
	for range 2 { // the same envelope is the same task
		s.ask(t, sdl.JSON, again)
	}
	close(end)
	if got, want := s.states(t), fmt.Sprintf(replaceStatus, "working")+"] "+fmt.Sprintf(replaceStatus, "completed")+`,{"op":"add","path":"/result","value":{"depth":2.0}}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	want, err := canonical.ParseJSON([]byte(sdlTask))
	if err != nil {
		t.Fatal(err)
	}
	if got := <-inputs; got != string(want.AppendJSON(nil)) || len(inputs) > 0 {
		t.Errorf("the worker got %s, and %d more", got, len(inputs))
	}
}

// The time budget of a task is its deadline; a budget of 0 sets none.
func TestSDLTaskFailsAtTheEndOfItsBudget(t *testing.T) {
	t.Parallel()
	a := open(t, "a", sdlOpen)
	began := make(chan struct{}, 1)
	a.agent("digger", func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		select {
		case began <- struct{}{}: // the first task takes as long as it is let
			<-ctx.Done()
		default:
		}
		return nil, ctx.Err()
	}, "sdl/task.v1")
	s := a.speak(t)
	for _, test := range []struct{ budget, want string }{{"1", `"value":"deadline exceeded"`}, {"0", `"value":"completed"`}} {
		s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, strings.Replace(sdlTask, "3600", test.budget, 1)))
		if got := s.states(t); !strings.Contains(got, test.want) {
			t.Errorf("budget %s: %s, want %s", test.budget, got, test.want)
		}
	}
}

// What negotiation.v1 lists is what the caller may use.
func TestSDLNegotiationFollowsTheAccessRules(t *testing.T) {
	r := start(t, sdlOpen+modernYAML(t)+`access:
  rules:
    - {identity: 'spiffe://localhost/**', profile: sdl, name: "`+sdlCaller+`"}
    - {identity: 'spiffe://localhost/**', profile: mcp, name: [modern, modern/fails], operation: [server/discover, tools/call]}
  agents: [{identity: 'spiffe://localhost/**', agent_ids: "`+sdlCaller+`"}]
`)
	p := r.speak(t).ask(t, sdl.JSON, sdlRequest(sdl.CTNegotiation, `{"need":{},"have":{},"ask":[],"supported_ct":[]}`)).Payload
	if got, want := string(p.Get("available_tools").AppendJSON(nil)), `["modern/fails","sys.ping"]`; got != want {
		t.Errorf("tools %s, want %s", got, want)
	}
	if got, want := string(p.Get("supported_ct").AppendJSON(nil)), `["artifact.v1","negotiation.v1","session.v1","state.v1","toolcall.v1"]`; got != want {
		t.Errorf("content types %s, want %s", got, want)
	}
}

// artifact.v1 stores and reads artifacts of profile 14, under the rules for the sender.
func TestSDLStoresAndReadsArtifacts(t *testing.T) {
	r := start(t, sdlOpen+`access:
  rules:
    - {identity: 'spiffe://localhost/**', profile: sdl, name: "`+sdlCaller+`"}
    - {identity: 'spiffe://localhost/**', profile: artifact, operation: offer, name: 'mine/**'}
  agents: [{identity: 'spiffe://localhost/**', agent_ids: "`+sdlCaller+`"}]
`)
	s := r.speak(t)
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	for _, test := range []struct{ name, payload, want string }{
		{"stored", `{"items":[{"artifact_id":"mine/a","text":"hello"},{"artifact_id":"mine/b","content":"_w"}],"refs":[]}`,
			`{"items":[],"refs":[{"artifact_id":"mine/a","sha256":"` + sum + `","size":5},` +
				`{"artifact_id":"mine/b","sha256":"a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89","size":1}]}`},
		{"read", `{"items":[],"refs":[{"artifact_id":"mine/b"},{"artifact_id":"mine/a"}]}`,
			`{"items":[{"artifact_id":"mine/b","content":"_w","sha256":"a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89","size":1},` +
				`{"artifact_id":"mine/a","content":"aGVsbG8","sha256":"` + sum + `","size":5}],"refs":[]}`},
		{"without a rule", `{"items":[{"artifact_id":"other","text":"x"}],"refs":[]}`, `security_policy`},
		{"not there", `{"items":[],"refs":[{"artifact_id":"mine/c"}]}`, `not_found`},
		{"another member", `{"items":[{"artifact_id":"mine/a","text":"x","mode":7}],"refs":[]}`, `item`},
		{"without content", `{"items":[{"artifact_id":"mine/a"}],"refs":[]}`, `item`},
		{"padded", `{"items":[{"artifact_id":"mine/a","content":"_w=="}],"refs":[]}`, `item`},
		{"another member of a ref", `{"items":[],"refs":[{"artifact_id":"mine/a","start":7}]}`, `ref`},
		{"as many as there may be", `{"items":[],"refs":[` + strings.Repeat(`{"artifact_id":"x"},`, 63) + `{"artifact_id":"x"}]}`, `not_found`},
		{"one more", `{"items":[],"refs":[` + strings.Repeat(`{"artifact_id":"x"},`, 64) + `{"artifact_id":"x"}]}`, `too_many`},
	} {
		e := s.ask(t, sdl.JSON, sdlRequest(sdl.CTArtifact, test.payload))
		got := string(e.Payload.AppendJSON(nil))
		if e.CT == sdl.CTError {
			got = text(e.Payload, "details", "reason")
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s; %s", test.name, got, test.want, e.Payload.AppendJSON(nil))
		}
	}
}

// state.v1 adds patches to states of profile 17; the answer has all of them.
func TestSDLAddsPatchesToStates(t *testing.T) {
	s := start(t, sdlOpen+sdlAccess).speak(t)
	lane, err := s.Session.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lane.Close() }()
	if _, err := state.PutAll(t.Context(), lane, rpc.Sync, state.State{Blob: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	const base = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	const other = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	for _, test := range []struct{ name, base, patch, want string }{
		{"no patch yet", base, `[]`, "[]"},
		{"no octets", empty, `[{"op":"remove","path":"/n"}]`, "base"},
		{"the first", base, `[{"op":"add","path":"/n","value":1.0}]`, `[{"op":"add","path":"/n","value":1.0}]`},
		{"the second", base, `[{"op":"remove","path":"/n"}]`, `[{"op":"add","path":"/n","value":1.0},{"op":"remove","path":"/n"}]`},
		{"the same again", base, `[{"op":"remove","path":"/n"}]`, `[{"op":"add","path":"/n","value":1.0},{"op":"remove","path":"/n"}]`},
		{"reading", base, `[]`, `[{"op":"add","path":"/n","value":1.0},{"op":"remove","path":"/n"}]`},
		{"a base that is not there", other, `[{"op":"remove","path":"/n"}]`, "not_found"},
		{"no base", "sha256:00", `[]`, "base"},
		{"a base in upper case", strings.ToUpper(other), `[]`, "base"},
	} {
		e := s.ask(t, sdl.JSON, sdlRequest(sdl.CTState, `{"base":"`+test.base+`","patch":`+test.patch+`}`))
		got := string(e.Payload.Get("patch").AppendJSON(nil))
		if e.CT == sdl.CTError {
			got = text(e.Payload, "details", "reason")
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s; %s", test.name, got, test.want, e.Payload.AppendJSON(nil))
		}
	}
}

// A state goes to the session that asked for the task, also when the agent has used another one
// since; and to another one when it asks there for the same task.
func TestSDLStatesGoToTheSessionThatAsked(t *testing.T) {
	a := open(t, "a", sdlOpen)
	steps := make(chan struct{})
	a.agent("digger", func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		<-steps
		if err := event("digging", nil); err != nil {
			return nil, err
		}
		<-steps
		return nil, nil
	}, "sdl/task.v1")
	asking, other := a.speak(t), a.speak(t)
	task := sdlRequest(sdl.CTTask, sdlTask)
	asking.ask(t, sdl.JSON, task)
	other.ask(t, sdl.JSON, sdlToolCall("sys.ping"))
	steps <- struct{}{}
	if got := string(asking.told(t).Get("payload").AppendJSON(nil)); !strings.Contains(got, `"working"`) || len(other.events) > 0 {
		t.Errorf("the session that asked got %s, the other one %d events", got, len(other.events))
	}
	other.ask(t, sdl.JSON, task)
	steps <- struct{}{}
	if got := string(other.told(t).Get("payload").AppendJSON(nil)); !strings.Contains(got, `"completed"`) || len(asking.events) > 0 {
		t.Errorf("the session that asked last got %s, the one before %d events", got, len(asking.events))
	}
}

// digger is an agent that carries out tasks of A2A-SDL, and lasts longer than the daemon.
type digger struct {
	t   *testing.T
	set *all.Set
	ep  *endpoint.Endpoint
}

func newDigger(t *testing.T, worker a2a.WorkerFunc) *digger {
	t.Helper()
	state, err := storage.Open(t.Context(), storage.Options{Config: &config.Config{Store: config.StoreMemory, Quota: config.Quota{Total: 1 << 30, PerIdentity: 1 << 30}}, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	d := &digger{t: t}
	if d.set, err = all.New(all.Options{A2A: a2a.Options{Store: state, Workers: []a2a.Registration{{Kinds: []string{"sdl/task.v1"}, Worker: worker}}}}); err != nil {
		t.Fatal(err)
	}
	if d.ep, err = endpoint.New(endpoint.Options{Registry: d.set.Registry}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.ep.Close()
		d.set.Close()
		_ = state.Close()
	})
	return d
}

// join connects to a daemon and declares the agent there.
func (d *digger) join(o *organisation) {
	d.t.Helper()
	conn, err := connect(d.t, o.addrs[0], devpki.Client(filepath.Join(o.dir, "pki")))
	if err != nil {
		d.t.Fatal(err)
	}
	s := &session{d.ep.Attach(conn), d.set.MCP, d.set.A2A, d.set.Relay}
	s.declare(d.t, "digger", "sdl/task.v1")
}

func TestSDLTasksOutliveARestartAndWaitInTheRelay(t *testing.T) {
	a := open(t, "a", sdlOpen)
	s := a.speak(t)
	begun, end := make(chan struct{}, 1), make(chan struct{})
	digger := newDigger(t, func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		begun <- struct{}{}
		select {
		case <-end:
			return []byte("as text"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	digger.join(a)
	s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask))
	<-begun
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.again()
	close(end)
	digger.join(a)
	set, session := relayPeer(t, a.running, a.addrs[0])
	c, err := set.Consume(t.Context(), session, "sdl/"+sdlCaller, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		d, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		v, refused := sdl.Decode(d.Payload, sdl.JSON, sdl.Limits{})
		if refused != nil {
			t.Fatal(refused)
		}
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
		if patch := string(v.Get("payload").Get("patch").AppendJSON(nil)); strings.Contains(patch, `{"op":"add","path":"/result","value":"as text"}`) {
			return
		}
	}
}

func TestSDLSessionsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	keys := newSDLKeys(t, dir)
	yaml := strings.Replace(sdlSecure, "  mode:", "  session: {required: true}\n  mode:", 1) + sdlAccess
	r := startIn(t, dir, yaml)
	s := r.speak(t)
	ping := func(id, nonce string) string {
		v := sdlToolCall("sys.ping")
		v = v.With("sec", canonical.Object(canonical.Member{Name: "mode", Value: canonical.String(sdl.ModeNone)}, canonical.Member{
			Name: "session", Value: canonical.Object(canonical.Member{Name: "binding_id", Value: canonical.String(id)}),
		}))
		e := s.ask(t, sdl.JSON, keys.secure(t, v, nonce))
		if e.CT == sdl.CTError {
			return text(e.Payload, "code")
		}
		return text(keys.opened(t, e.Value), "call_id")
	}
	opened := keys.opened(t, s.ask(t, sdl.JSON, keys.secure(t, sdlRequest(sdl.CTSession, `{"op":"open","profile":{},"nonce":"12345678"}`), "1")).Value)
	id := text(opened, "binding_id")
	if got := ping(id, "2"); got != "c1" {
		t.Fatalf("in session %q: %s", id, got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	r = startIn(t, dir, yaml)
	s = r.speak(t)
	if got := ping(id, "3"); got != "c1" {
		t.Errorf("after a restart: %s", got)
	}
	if got := ping("sha256:other", "4"); got != "SECURITY_UNSUPPORTED" {
		t.Errorf("in no session: %s", got)
	}
}

// A schema at an address is loaded for an envelope over SWP, from a listed host and with its hash,
// and never for a program without SWP. By default it is refused everywhere.
func TestSDLSchemasAtAnAddressAreLoadedOverSWPAlone(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "server.crt"), filepath.Join(dir, "pki", "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	const document = `{"type":"object","required":["tool"]}`
	var loaded atomic.Int32
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		loaded.Add(1)
		_, _ = io.WriteString(w, document)
	}))
	host.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	host.StartTLS()
	t.Cleanup(host.Close)
	parsed, err := canonical.ParseJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	at := func(id string) canonical.Value {
		return sdlToolCall("sys.ping").With("schema", canonical.Object(
			canonical.Member{Name: "kind", Value: canonical.String("uri")},
			canonical.Member{Name: "id", Value: canonical.String(id)},
			canonical.Member{Name: "uri", Value: canonical.String(host.URL + "/call.json")},
		))
	}
	right, wrong := canonical.Hash(parsed), canonical.Hash(canonical.Object())
	r := startIn(t, dir, withSocket(sdlOpen)+sdlFronts+sdlAccess)
	s := r.speak(t)
	refused := func(who string, e *sdl.Envelope, loads int32) {
		t.Helper()
		if text(e.Payload, "code") != "SCHEMA_INVALID" || loaded.Load() != loads {
			t.Errorf("%s: %s, loaded %d times", who, e.Payload.AppendJSON(nil), loaded.Load())
		}
	}
	refused("by default", s.ask(t, sdl.JSON, at(right)), 0)
	r.rewrite("sdl: {socket", "sdl: {schemas: {hosts: [127.0.0.1], ca: pki/ca.crt, networks: [127.0.0.0/8]}, socket")
	r.reloaded()
	for name, open := range sdlWays {
		refused(name, askOver(t, open(t, r), sdl.JSON, at(right)), 0)
	}
	if e := s.ask(t, sdl.JSON, at(right)); e.CT != sdl.CTToolResult || loaded.Load() != 1 {
		t.Errorf("%s, loaded %d times", e.Payload.AppendJSON(nil), loaded.Load())
	}
	refused("another hash", s.ask(t, sdl.JSON, at(wrong)), 2)
	r.rewrite("networks: [127.0.0.0/8]", "networks: [10.0.0.0/8]")
	r.reloaded()
	refused("an address that is not public", s.ask(t, sdl.JSON, at(right)), 2)
	r.rewrite("hosts: [127.0.0.1]", "hosts: [schemas.example.org]")
	r.reloaded()
	refused("another host", s.ask(t, sdl.JSON, at(right)), 2)
}
