package mcpfront_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

// scripted is a server that does what the requests tell it to, in either era.
type scripted struct {
	version   string      // that initialize agrees on, 2025-11-25 unless set
	calls     chan string // methods that arrived, with room for many
	cancelled chan string // octets of cancellations; "" for a client that is gone
	notified  chan string // octets of other notifications

	mu     sync.Mutex
	client mcpmap.Counterpart // of the newest session
	held   []*mcpmap.Exchange
}

func newScripted() *scripted {
	return &scripted{calls: make(chan string, 1000), cancelled: make(chan string, 100), notified: make(chan string, 100)}
}

func (s *scripted) Do(x *mcpmap.Exchange) { s.do(x, nil) }

func (s *scripted) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = client
	return &talk{s, client}, nil
}

// talk is a legacy session.
type talk struct {
	s      *scripted
	client mcpmap.Counterpart
}

func (c *talk) Do(x *mcpmap.Exchange)    { c.s.do(x, c.client) }
func (c *talk) Notify(m *mcpmap.Message) { c.s.notified <- string(m.Octets()) }
func (c *talk) Close()                   { c.s.notified <- "closed" }

func (s *scripted) do(x *mcpmap.Exchange, client mcpmap.Counterpart) {
	method, id := string(x.Message.Method()), string(x.Message.ID())
	s.calls <- method
	answer := func(result any) {
		b, err := json.Marshal(result)
		if err != nil {
			panic(err)
		}
		x.Finish([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":` + string(b) + `}`))
	}
	var params struct {
		Text   string `json:"text"`
		Status int    `json:"status"`
	}
	_ = json.Unmarshal(x.Message.Params(), &params)
	switch method {
	case "initialize":
		answer(map[string]any{"protocolVersion": cmp.Or(s.version, "2025-11-25")})
	case "hex": // what was received
		answer(hex.EncodeToString(x.Message.Octets()))
	case "params": // what came beside it
		answer(fmt.Sprintf("%q", x.Params()))
	case "say": // these octets, and nothing of its own
		x.FinishStatus([]byte(params.Text), params.Status)
	case "tools/list":
		x.Finish([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":` + params.Text + `}`))
	case "progress":
		x.Notify([]byte(params.Text))
		answer("done")
	case "tell": // on its own account
		client.Notify([]byte(params.Text))
		answer("told")
	case "ask", "subscriptions/listen", "flood":
		request := append([]byte(nil), []byte(params.Text)...)
		switch method {
		case "subscriptions/listen":
			s.hold(x)
			x.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`))
			return
		case "flood":
			go func() {
				for i := range 1 << 20 {
					if x.Context().Err() != nil {
						return
					}
					x.Notify(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"flood","params":{"n":%d,"text":"%s"}}`, i, strings.Repeat("x", 1<<12)))
				}
			}()
			s.hold(x)
			return
		}
		var m mcpmap.Message
		if err := m.Scan(request); err != nil {
			panic(err)
		}
		client.Request(x, &m, func(octets []byte) { answer(string(octets)) })
	case "wait":
		s.hold(x) // so that whoever reads the event can have it finished
		x.Notify([]byte(`{"jsonrpc":"2.0","method":"waiting"}`))
	case "silent":
		s.hold(x)
	default:
		answer(map[string]any{})
	}
}

func (s *scripted) hold(x *mcpmap.Exchange) {
	x.OnCancel(func(octets []byte) { s.cancelled <- string(octets) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, x)
}

// holds returns how many requests are held.
func (s *scripted) holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// finish ends what was held, the newest first.
func (s *scripted) finish(result string) {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	for _, x := range slices.Backward(held) {
		x.Finish([]byte(`{"jsonrpc":"2.0","id":` + string(x.Message.ID()) + `,"result":` + result + `}`))
	}
}

func (s *scripted) tell(octets string) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	client.Notify([]byte(octets))
}

// site is a Front before a scripted server. A caller is who the header Caller names.
type site struct {
	t       *testing.T
	server  *scripted
	front   *mcpfront.Front
	url     string
	serving atomic.Int32 // requests

	mu    sync.Mutex
	links map[string]*mcpfront.Link
	ends  map[string]*endpoint.Session // of the servers
	far   *endpoint.Endpoint
	near  *endpoint.Endpoint
	set   *all.Set
}

// open returns a site. What o.Caller returns is not looked at.
func open(t *testing.T, o mcpfront.Options) *site {
	t.Helper()
	return openWith(t, o, newScripted())
}

func openWith(t *testing.T, o mcpfront.Options, server mcpmap.Server) *site {
	t.Helper()
	s := &site{t: t, links: make(map[string]*mcpfront.Link), ends: make(map[string]*endpoint.Session)}
	s.server, _ = server.(*scripted)
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": server, "two": server}, "one")
	if err != nil {
		t.Fatal(err)
	}
	var far *all.Set
	far, s.far = end(t, all.Options{MCP: mcpmap.Options{Backend: table}})
	_ = far
	s.set, s.near = end(t, all.Options{})
	o.Connect = s.connect
	o.Memory = cmp.Or(o.Memory, memory.New(256<<20))
	o.KeepAlive = cmp.Or(o.KeepAlive, patience) // a busy machine makes no response a stream
	o.Soon = cmp.Or(o.Soon, patience)
	known := o.Caller
	o.Caller = func(r *http.Request) string {
		if known != nil {
			known(r)
		}
		return "http:" + r.Header.Get("Caller")
	}
	s.front = mcpfront.New(o)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serving.Add(1)
		defer s.serving.Add(-1)
		s.front.ServeHTTP(w, r)
	}))
	s.url = web.URL + mcpfront.Path
	t.Cleanup(func() {
		s.front.Drain()
		web.CloseClientConnections()
		web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.front.Close(ctx)
		if st := s.front.Stats(); st.Sessions != 0 || st.Streams != 0 || st.Stored != 0 {
			t.Errorf("at the end: %+v", st)
		}
		if used, top := o.Memory.Used(), o.Memory.Top(1); used != 0 || len(top) != 0 {
			t.Errorf("at the end %d octets are in use, of %v", used, top)
		}
	})
	return s
}

func end(t *testing.T, o all.Options) (*all.Set, *endpoint.Endpoint) {
	t.Helper()
	set, err := all.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Tracer: endpoint.ContextFunc(set.Carriers.Attach)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return set, ep
}

func (s *site) connect(_ context.Context, caller string) (*mcpfront.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links[caller]; l != nil && l.Session.Context().Err() == nil {
		return l, nil
	}
	near, far := transport.NewPipe(transport.PipeOptions{A: caller, B: "here"})
	s.ends[caller] = s.far.Attach(far)
	session := s.near.Attach(near)
	s.links[caller] = &mcpfront.Link{Session: session, MCP: s.set.MCP.Client(session)}
	return s.links[caller], nil
}

// cut ends the link of a caller.
func (s *site) cut(caller string) {
	s.mu.Lock()
	near, far := s.links[caller].Session, s.ends[caller]
	s.mu.Unlock()
	far.Close(profiles.OK)
	<-far.Context().Done()
	<-near.Context().Done()
}

// reply is a response.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   *bufio.Reader
	close  func()
}

// send sends a request, with header lines "Name: value" in place of the usual ones.
// A line that ends in a colon takes one away.
func (s *site) send(method, path, body string, headers ...string) *reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Caller": {"alice"}}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ":")
		if name == "Host" {
			req.Host = strings.TrimSpace(value)
			continue
		}
		if req.Header.Del(name); value != "" {
			req.Header.Set(name, strings.TrimSpace(value))
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req) //nolint:bodyclose // close does it
	if err != nil {
		cancel()
		s.t.Fatalf("%s %.100s: %v", method, body, err)
	}
	r := &reply{t: s.t, status: resp.StatusCode, header: resp.Header, body: bufio.NewReader(resp.Body)}
	r.close = func() {
		cancel()
		_ = resp.Body.Close()
	}
	s.t.Cleanup(r.close)
	return r
}

// all is the rest of the body.
func (r *reply) all() string {
	r.t.Helper()
	b, err := io.ReadAll(r.body)
	if err != nil {
		r.t.Errorf("body: %v", err)
	}
	r.close()
	return string(b)
}

// event is the next event; comments are skipped.
func (r *reply) event() (id, data string) {
	r.t.Helper()
	for {
		line, err := r.body.ReadString('\n')
		if err != nil {
			r.t.Fatalf("event: %v after %q %q", err, id, data)
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); name {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if data != "" {
				return id, data
			}
		}
	}
}

// primed is the event without a message with which a stream begins; it returns the id.
func (r *reply) primed() (id string) {
	r.t.Helper()
	var event []string
	for range 4 {
		line, err := r.body.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%v after %q", err, event)
		}
		event = append(event, strings.TrimSuffix(line, "\n"))
	}
	id, _ = strings.CutPrefix(event[0], "id: ")
	want(r.t, "the first event", strings.Join(event, "|"), "id: "+id+"|retry: 1000|data: |")
	return id
}

// ended says that the stream is over: no message follows.
func (r *reply) ended() {
	r.t.Helper()
	if rest := r.all(); strings.Contains(rest, "event:") {
		r.t.Errorf("after the end: %q", rest)
	}
}

// modern sends a request without a session.
func (s *site) modern(method, params string, headers ...string) *reply {
	s.t.Helper()
	return s.send("POST", "", modernRequest("1", method, params), append([]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}, headers...)...)
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

func modernRequest(id, method, params string) string {
	if params != "" {
		params = "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, meta, params)
}

// legacy is a client with a session.
type legacy struct {
	*site
	path, id, caller string
}

func (s *site) initialize(path, caller string) *legacy {
	s.t.Helper()
	r := s.send("POST", path, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "Caller: "+caller)
	body := r.all()
	if r.status != 200 || r.header.Get("Mcp-Session-Id") == "" || !strings.Contains(body, "2025-11-25") {
		s.t.Fatalf("initialize: %d %v %s", r.status, r.header, body)
	}
	return &legacy{s, path, r.header.Get("Mcp-Session-Id"), caller}
}

func (l *legacy) do(method, body string, headers ...string) *reply {
	l.t.Helper()
	return l.send(method, l.path, body, append([]string{"Caller: " + l.caller, "Mcp-Session-Id: " + l.id, "MCP-Protocol-Version: 2025-11-25"}, headers...)...)
}

func (l *legacy) call(id, method, text string) *reply {
	l.t.Helper()
	return l.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"text":%s}}`, id, method, quote(text)))
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func unhex(t *testing.T, response string) string {
	t.Helper()
	var r struct{ Result string }
	if err := json.Unmarshal([]byte(response), &r); err != nil {
		t.Fatalf("%.200s: %v", response, err)
	}
	b, err := hex.DecodeString(r.Result)
	if err != nil {
		t.Fatalf("%.200s: %v", response, err)
	}
	return string(b)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %.300s, want %.300s", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// next returns what comes on a channel.
func next[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("still waiting for %s", what)
	}
	return v
}

// until waits for what follows an answer.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); <-time.After(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("still waiting until %s", what)
		}
	}
}
