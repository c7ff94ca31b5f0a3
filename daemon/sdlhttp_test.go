package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// sdlWays are the ways of a program without SWP to a daemon.
var sdlWays = map[string]func(*testing.T, *running) sdlWay{
	"http":      func(t *testing.T, r *running) sdlWay { return &sdlOverHTTP{url: r.front() + "/a2a"} },
	"socket":    func(t *testing.T, r *running) sdlWay { return r.sdlSocket(t) },
	"websocket": func(t *testing.T, r *running) sdlWay { return sdlDial(t, r.front(), nil) },
}

// sdlWay asks a daemon, and returns the octets of the answer.
type sdlWay interface {
	ask(t *testing.T, form sdl.Form, body []byte) []byte
}

type sdlOverHTTP struct {
	url    string
	status int // of the last answer
}

func (h *sdlOverHTTP) ask(t *testing.T, form sdl.Form, body []byte) []byte {
	t.Helper()
	var answer string
	h.status, _, answer = post(t, h.url, string(body), "Content-Type: application/"+form.String(), "Accept: */*")
	return []byte(answer)
}

// sdlSocket is a connection to the socket of a daemon.
type sdlSocket struct{ net.Conn }

func (r *running) sdlSocket(t *testing.T) *sdlSocket {
	t.Helper()
	conn, err := net.DialTimeout("unix", filepath.Join(r.dir, "sdl.sock"), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &sdlSocket{conn}
}

func (s *sdlSocket) send(t *testing.T, body []byte) {
	t.Helper()
	if _, err := s.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		t.Fatal(err)
	}
}

func (s *sdlSocket) receive(t *testing.T) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(s, body); err != nil {
		t.Fatal(err)
	}
	return body
}

func (s *sdlSocket) end() { _ = s.Close() }

func (s *sdlSocket) ask(t *testing.T, _ sdl.Form, body []byte) []byte { return sdlAnswer(t, s, body) }

// sdlWeb is a WebSocket to a daemon.
type sdlWeb struct{ *websocket.Conn }

// sdlDial connects to the front at a URL.
func sdlDial(t *testing.T, url string, o *websocket.DialOptions) *sdlWeb {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url+"/a2a", o) //nolint:bodyclose // the connection is the body
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(2 << 20)
	return &sdlWeb{conn}
}

func (s *sdlWeb) send(t *testing.T, body []byte) {
	t.Helper()
	typ := websocket.MessageBinary
	if utf8.Valid(body) {
		typ = websocket.MessageText
	}
	if err := s.Write(t.Context(), typ, body); err != nil {
		t.Fatal(err)
	}
}

func (s *sdlWeb) receive(t *testing.T) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	typ, body, err := s.Read(ctx)
	if err != nil || typ != websocket.MessageBinary {
		t.Fatal(typ, err)
	}
	return body
}

func (s *sdlWeb) end() { _ = s.CloseNow() }

func (s *sdlWeb) ask(t *testing.T, _ sdl.Form, body []byte) []byte { return sdlAnswer(t, s, body) }

// sdlStream is a stream of envelopes.
type sdlStream interface {
	send(t *testing.T, body []byte)
	receive(t *testing.T) []byte
	end()
}

// sdlAnswer asks on a stream.
func sdlAnswer(t *testing.T, s sdlStream, body []byte) []byte {
	t.Helper()
	s.send(t, body)
	for {
		if answer := s.receive(t); sdl.TypeOf(answer, sdl.JSON) != sdl.TypeEvt && sdl.TypeOf(answer, sdl.CBOR) != sdl.TypeEvt {
			return answer
		}
	}
}

// ended waits until the other end has closed the connection.
func (s *sdlSocket) ended(t *testing.T) {
	t.Helper()
	if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d, %v, want the end of the connection", n, err)
	}
}

// sdlFronts turns on all ways.
const sdlFronts = "http: {address: '127.0.0.1:0', anonymous: guest}\n"

func withSocket(yaml string) string {
	return strings.Replace(strings.Replace(yaml, "sdl: {", "sdl: {socket: sdl.sock, ", 1), "sdl:\n", "sdl:\n  socket: sdl.sock\n", 1)
}

// overSDLWays runs a test over each way.
func overSDLWays(t *testing.T, yaml string, f func(t *testing.T, r *running, w sdlWay)) {
	t.Helper()
	for name, open := range sdlWays {
		t.Run(name, func(t *testing.T) {
			r := start(t, withSocket(yaml)+sdlFronts+sdlAccess)
			f(t, r, open(t, r))
		})
	}
}

// askOver asks over a way for a good answer.
func askOver(t *testing.T, w sdlWay, form sdl.Form, v canonical.Value) *sdl.Envelope {
	t.Helper()
	return readOver(t, w, form, form.Append(nil, v))
}

func readOver(t *testing.T, w sdlWay, form sdl.Form, body []byte) *sdl.Envelope {
	t.Helper()
	octets := w.ask(t, form, body)
	answer, refused := sdl.Decode(octets, form, sdl.Limits{})
	if refused != nil {
		t.Fatalf("%v: %q", refused, octets)
	}
	e, refused := sdl.Validate(answer, sdl.Options{})
	if refused != nil {
		t.Fatalf("%v: %s", refused, octets)
	}
	return e
}

func codeOf(e *sdl.Envelope) string { return text(e.Payload, "code") }

// Rows 63, 64, 70, 83, 85, 89 and 90 of A2A-SDL §15.
func TestProgramsWithoutSWPSpeakSDL(t *testing.T) {
	overSDLWays(t, sdlOpen, func(t *testing.T, _ *running, w sdlWay) {
		for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
			task := sdlRequest(sdl.CTTask, sdlTask)
			e := askOver(t, w, form, task)
			asked, refused := sdl.Validate(task, sdl.Options{})
			if refused != nil {
				t.Fatal(refused)
			}
			if err := serve.CheckAnswer(asked, e); err != nil || e.Type != sdl.TypeRes || e.CT != sdl.CTState {
				t.Errorf("%v: %s", err, e.Value.AppendJSON(nil))
			}
			other := sdlRequest(sdl.CTTask, sdlTask).With("ct", canonical.String("task.v9"))
			if e := askOver(t, w, form, other); codeOf(e) != "UNSUPPORTED_CT" || e.Payload.Get("details").Get("supported_ct").Len() == 0 {
				t.Errorf("an unknown content type: %s", e.Payload.AppendJSON(nil))
			}
			uri := sdlRequest(sdl.CTTask, sdlTask)
			uri = uri.With("schema", canonical.Object(
				canonical.Member{Name: "kind", Value: canonical.String("uri")},
				canonical.Member{Name: "id", Value: uri.Get("schema").Get("id")},
				canonical.Member{Name: "uri", Value: canonical.String("https://example.org/task.json")},
			))
			if e := askOver(t, w, form, uri); codeOf(e) != "SCHEMA_INVALID" {
				t.Errorf("a schema at a URI: %s", e.Payload.AppendJSON(nil))
			}
			if e := askOver(t, w, form, sdlToolCall("sys.ping")); e.CT != sdl.CTToolResult {
				t.Errorf("%s", e.Payload.AppendJSON(nil))
			}
		}
		for _, body := range []string{"no envelope", "[1]", "{", "\xff"} {
			if e := readOver(t, w, sdl.JSON, []byte(body)); codeOf(e) != "UNSUPPORTED_ENCODING" {
				t.Errorf("%q: %s", body, e.Payload.AppendJSON(nil))
			}
		}
	})
}

// Rows 65, 66, 69, 86, 87, 92, 93 and 94.
func TestProgramsWithoutSWPAreHeldToTheSecurityPolicy(t *testing.T) {
	for name, open := range sdlWays {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
				t.Fatal(err)
			}
			k := newSDLKeys(t, dir)
			r := startIn(t, dir, withSocket(sdlSecure)+sdlFronts+sdlAccess)
			w := open(t, r)
			v := k.secure(t, sdlToolCall("sys.ping"), "nonce 1")
			e := askOver(t, w, sdl.JSON, v)
			if p := k.opened(t, e.Value); text(p, "call_id") != "c1" {
				t.Errorf("%s", p.AppendJSON(nil))
			}
			if e := askOver(t, w, sdl.CBOR, v); text(e.Payload, "details", "reason") != "replay_detected" {
				t.Errorf("again: %s", e.Value.AppendJSON(nil))
			}
			late := k.secure(t, sdlToolCall("sys.ping"), "nonce 2")
			late = late.With("sec", late.Get("sec").With("replay", canonical.Object(
				canonical.Member{Name: "nonce", Value: canonical.String("nonce 2")},
				canonical.Member{Name: "exp", Value: canonical.String("2020-01-01T00:00:00Z")},
			)))
			late, err := k.caller.Sign(late)
			if err != nil {
				t.Fatal(err)
			}
			if e := askOver(t, w, sdl.JSON, late); text(e.Payload, "details", "reason") != "replay_expired" {
				t.Errorf("late: %s", e.Value.AppendJSON(nil))
			}
			stranger, err := k.server.Sign(k.secure(t, sdlToolCall("sys.ping"), "nonce 3"))
			if err != nil {
				t.Fatal(err)
			}
			for what, v := range map[string]canonical.Value{"not signed": sdlToolCall("sys.ping"), "an unknown key": stranger} {
				if e := askOver(t, w, sdl.JSON, v); codeOf(e) != "SECURITY_UNSUPPORTED" {
					t.Errorf("%s: %s", what, e.Value.AppendJSON(nil))
				}
			}
		})
	}
}

// Rows 78, 88 and 95.
func TestProgramsWithoutSWPAreHeldToTheVersions(t *testing.T) {
	for name, open := range sdlWays {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "versions.json"), []byte(`{"deprecated_content_types":{"task.v1":"2020-01-01T00:00:00Z"}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			r := startIn(t, dir, withSocket("sdl: {agent_id: "+sdlServer+", versions: versions.json}\n")+sdlFronts+sdlAccess)
			if e := askOver(t, open(t, r), sdl.JSON, sdlRequest(sdl.CTTask, sdlTask)); codeOf(e) != "BAD_REQUEST" {
				t.Errorf("%s", e.Value.AppendJSON(nil))
			}
		})
	}
}

// Rows 71 and 77, and A2A-SDL §3.3: over HTTP the media type says the form.
func TestHTTPSaysTheFormOfEnvelopes(t *testing.T) {
	r := start(t, strings.Replace(sdlOpen, "sdl: {", "sdl: {limits: {bytes: 8KiB}, ", 1)+sdlFronts+sdlAccess)
	url := r.front() + "/a2a"
	ping := string(sdl.JSON.Append(nil, sdlToolCall("sys.ping")))
	packed := string(sdl.CBOR.Append(nil, sdlToolCall("sys.ping")))
	for name, test := range map[string]struct {
		body    string
		headers []string
		form    sdl.Form
		code    string
	}{
		"JSON":                  {ping, nil, sdl.JSON, ""},
		"parameters":            {ping, []string{"Content-Type: application/json; charset=utf-8"}, sdl.JSON, ""},
		"CBOR":                  {packed, []string{"Content-Type: application/cbor"}, sdl.CBOR, ""},
		"answered in CBOR":      {ping, []string{"Accept: application/cbor"}, sdl.CBOR, ""},
		"another type":          {ping, []string{"Content-Type: text/plain"}, sdl.JSON, "UNSUPPORTED_ENCODING"},
		"CBOR said to be JSON":  {packed, nil, sdl.JSON, "UNSUPPORTED_ENCODING"},
		"JSON said to be CBOR":  {ping, []string{"Content-Type: application/cbor"}, sdl.CBOR, "UNSUPPORTED_ENCODING"},
		"compressed":            {ping, []string{"Content-Encoding: gzip"}, sdl.JSON, "UNSUPPORTED_ENCODING"},
		"empty":                 {"", nil, sdl.JSON, "UNSUPPORTED_ENCODING"},
		"too long":              {ping[:len(ping)-1] + `,"x":"` + strings.Repeat("x", 8<<10) + `"}`, nil, sdl.JSON, "BAD_REQUEST"},
		"hints without a right": {ping, []string{"Swp-Policy: no such hint"}, sdl.JSON, "BAD_REQUEST"},
	} {
		status, header, answer := post(t, url, test.body, append([]string{"Accept: */*"}, test.headers...)...)
		v, refused := sdl.Decode([]byte(answer), test.form, sdl.Limits{})
		if refused != nil || status != 200 || header.Get("Content-Type") != "application/"+test.form.String() {
			t.Errorf("%s: %d %v %v %q", name, status, header, refused, answer)
			continue
		}
		if got := text(v, "payload", "code"); got != test.code {
			t.Errorf("%s: %q, want %q", name, got, test.code)
		}
		if n, _ := v.Get("payload").Get("details").Get("max_bytes").Int64(); name == "too long" && n != 8<<10 {
			t.Errorf("%s: %s", name, v.AppendJSON(nil))
		}
	}
	for path, want := range map[string]int{"/a2a/": 404, "/a2a//": 404} {
		if status, _, _ := post(t, r.front()+path, ping); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if resp, err := http.Get(url); err != nil || resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" { //nolint:noctx // a test
		t.Errorf("GET: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
}

func TestASDLProgramAboveItsRateIsRefused(t *testing.T) {
	r := start(t, withSocket("sdl: {agent_id: "+sdlServer+", tools: {allow: [sys.ping]}, rate: {burst: 1, per_second: 0}}\n")+sdlFronts+sdlAccess)
	h, s := &sdlOverHTTP{url: r.front() + "/a2a"}, r.sdlSocket(t)
	for _, w := range []sdlWay{h, s} {
		if e := askOver(t, w, sdl.JSON, sdlToolCall("sys.ping")); e.CT != sdl.CTToolResult {
			t.Errorf("the first: %s", e.Payload.AppendJSON(nil))
		}
		e := askOver(t, w, sdl.JSON, sdlToolCall("sys.ping"))
		retryable, _ := e.Payload.Get("retryable").Bool()
		if codeOf(e) != "BAD_REQUEST" || text(e.Payload, "details", "reason") != "rate_limit" || !retryable {
			t.Errorf("the second: %s", e.Payload.AppendJSON(nil))
		}
	}
	if h.status != http.StatusTooManyRequests {
		t.Errorf("status %d", h.status)
	}
	r.counts("swpd_sdl_front_posted_total", "1")
	r.counts("swpd_sdl_front_streamed_total", "1")
	r.counts("swpd_sdl_front_refused_total", "2")
}

// A caller over HTTP or the socket has the rights of its identity, and each denial is noted.
func TestSDLProgramsNeedARule(t *testing.T) {
	r := start(t, withSocket(sdlOpen)+httpYAML+`access:
  rules: [{identity: 'http:alice', profile: sdl, name: "`+sdlCaller+`"}]
  agents: [{identity: 'http:alice', agent_ids: "`+sdlCaller+`"}]
`)
	ping := string(sdl.JSON.Append(nil, sdlToolCall("sys.ping")))
	if _, _, answer := post(t, r.front()+"/a2a", ping, "Authorization: Bearer secret-a"); !strings.Contains(answer, `"toolresult.v1"`) {
		t.Errorf("alice: %s", answer)
	}
	if _, _, answer := post(t, r.front()+"/a2a", ping); !strings.Contains(answer, "SECURITY_UNSUPPORTED") {
		t.Errorf("guest: %s", answer)
	}
	r.await(`"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"http:guest","profile":"sdl"`)
	_, resp, err := websocket.Dial(t.Context(), r.front()+"/a2a", nil) //nolint:bodyclose // closed below
	if err == nil || resp.StatusCode != http.StatusForbidden {
		t.Fatal(resp, err)
	}
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "SECURITY_UNSUPPORTED") {
		t.Errorf("guest over a WebSocket: %s", body)
	}
	_ = resp.Body.Close()
	alice := sdlDial(t, r.front(), &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer secret-a"}}})
	if answer := sdlAnswer(t, alice, []byte(ping)); !strings.Contains(string(answer), `"toolresult.v1"`) {
		t.Errorf("alice over a WebSocket: %s", answer)
	}
	if answer := r.sdlSocket(t).ask(t, sdl.JSON, []byte(ping)); !strings.Contains(string(answer), "SECURITY_UNSUPPORTED") {
		t.Errorf("the socket: %s", answer)
	}
}

// sdlStreams are the ways on which events arrive, by the identity of the caller.
var sdlStreams = map[string]func(*testing.T, *running) sdlStream{
	"loopback":   func(t *testing.T, r *running) sdlStream { return r.sdlSocket(t) },
	"http:guest": func(t *testing.T, r *running) sdlStream { return sdlDial(t, r.front(), nil) },
}

// States of a task arrive on the stream on which it was asked for; after another start of the
// program those that the relay has stored.
func TestASDLStreamGetsTheEventsForItsAgents(t *testing.T) {
	for identity, open := range sdlStreams {
		t.Run(identity, func(t *testing.T) {
			r := start(t, withSocket(sdlOpen)+sdlFronts+sdlAccess)
			s := open(t, r)
			s.send(t, sdl.JSON.Append(nil, sdlRequest(sdl.CTTask, sdlTask)))
			for _, want := range []string{`"accepted"`, `"failed"`} { // nobody does it
				if got := string(s.receive(t)); !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
			s.end()
			// Over HTTP nobody listens, so the state waits in the relay for a stream of the agent.
			if e := askOver(t, &sdlOverHTTP{url: r.front() + "/a2a"}, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask)); e.CT != sdl.CTState {
				t.Errorf("%s", e.Payload.AppendJSON(nil))
			}
			s = open(t, r)
			s.send(t, sdl.JSON.Append(nil, sdlToolCall("sys.ping")))
			var got []string
			for len(got) < 2 {
				got = append(got, string(s.receive(t)))
			}
			if both := strings.Join(got, "\n"); !strings.Contains(both, `"toolresult.v1"`) || !strings.Contains(both, `"failed"`) {
				t.Errorf("%s", both)
			}
		})
	}
}

// The states of its tasks come to a stream without the relay, too.
func TestASDLStreamGetsEventsWithoutTheRelay(t *testing.T) {
	for identity, open := range sdlStreams {
		t.Run(identity, func(t *testing.T) {
			r := start(t, withSocket(sdlOpen)+sdlFronts+`access:
  rules: [{identity: '`+identity+`', profile: [sdl, a2a]}]
  agents: [{identity: '`+identity+`', agent_ids: "`+sdlCaller+`"}]
`)
			s := open(t, r)
			s.send(t, sdl.JSON.Append(nil, sdlRequest(sdl.CTTask, sdlTask)))
			for _, want := range []string{`"accepted"`, `"failed"`} { // nobody does it
				if got := string(s.receive(t)); !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}

// One caller speaks as all agents that access.agents lists for it, also on one stream, and gets the
// events for each. Others are refused.
func TestOneSDLStreamSpeaksAsSeveralAgents(t *testing.T) {
	for identity, open := range sdlStreams {
		t.Run(identity, func(t *testing.T) {
			r := start(t, withSocket(sdlOpen)+sdlFronts+`access:
  rules: [{identity: '`+identity+`', profile: [sdl, a2a]}]
  agents: [{identity: '`+identity+`', agent_ids: ["did:key:one", "did:key:two"]}]
`)
			s := open(t, r)
			as := func(agent string) []byte {
				v := sdlRequest(sdl.CTTask, sdlTask)
				return sdl.JSON.Append(nil, v.With("from", v.Get("from").With("agent_id", canonical.String(agent))))
			}
			for _, agent := range []string{"did:key:one", "did:key:two"} {
				s.send(t, as(agent))
			}
			for has := map[string]bool{}; len(has) < 4; {
				v, err := canonical.ParseJSON(s.receive(t))
				if err != nil {
					t.Fatal(err)
				}
				for _, status := range []string{"accepted", "failed"} { // nobody does them
					if strings.Contains(string(v.Get("payload").AppendJSON(nil)), `"`+status+`"`) {
						has[text(v, "to", "agent_id")+" "+status] = true
					}
				}
			}
			s.send(t, as("did:key:three"))
			if got := string(s.receive(t)); !strings.Contains(got, "SECURITY_UNSUPPORTED") {
				t.Errorf("%s", got)
			}
		})
	}
}

// A web page of another origin opens no WebSocket.
func TestGW12AForeignOriginOpensNoWebSocket(t *testing.T) {
	r := start(t, sdlOpen+strings.Replace(sdlFronts, "anonymous: guest", "anonymous: guest, origins: ['https://app.example']", 1)+sdlAccess)
	for origin, want := range map[string]bool{"https://app.example": true, r.front(): true, "https://evil.example": false, "null": false} {
		conn, resp, err := websocket.Dial(t.Context(), r.front()+"/a2a", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}}) //nolint:bodyclose // a WebSocket has none
		if (err == nil) != want {
			t.Errorf("%s: %v", origin, err)
		}
		if err == nil {
			_ = conn.CloseNow()
		} else if resp == nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v", origin, resp)
		}
	}
}

func TestASDLEventIsNotAnswered(t *testing.T) {
	r := start(t, withSocket(sdlOpen)+sdlFronts+sdlAccess)
	evt := sdl.JSON.Append(nil, sdlRequest(sdl.CTState, `{"base":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","patch":[]}`).With("type", canonical.String("evt")))
	res := sdl.JSON.Append(nil, sdlToolCall("sys.ping").With("type", canonical.String("res")))
	for _, body := range [][]byte{evt, res} {
		if status, _, answer := post(t, r.front()+"/a2a", string(body)); status != 204 || answer != "" {
			t.Errorf("%d %q", status, answer)
		}
	}
	s := r.sdlSocket(t)
	s.send(t, evt)
	s.send(t, res)
	if got := s.ask(t, sdl.JSON, sdl.JSON.Append(nil, sdlToolCall("sys.ping"))); !strings.Contains(string(got), `"toolresult.v1"`) {
		t.Errorf("%s", got)
	}
}

func TestTheSDLSocketOfAKilledProcessIsReplaced(t *testing.T) {
	r := start(t, withSocket(sdlOpen)+sdlAccess)
	path := filepath.Join(r.dir, "sdl.sock")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	// The socket file that a kill leaves behind.
	dir := t.TempDir()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "sdl.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	again := startIn(t, dir, withSocket(sdlOpen)+sdlAccess)
	if got := again.sdlSocket(t).ask(t, sdl.JSON, sdl.JSON.Append(nil, sdlToolCall("sys.ping"))); !strings.Contains(string(got), `"toolresult.v1"`) {
		t.Errorf("%s", got)
	}
}
