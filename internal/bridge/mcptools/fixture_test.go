package mcptools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/mcptools"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/tooldisc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an MCP server as the test wants it. The zero value speaks the era
// with sessions, has no tools and does not tell of changes.
type server struct {
	t       *testing.T
	modern  bool
	version string   // of the server, empty for none
	tools   []string // as JSON
	perPage int      // 0: all on one
	tells   bool
	none    bool   // the capability tools is missing
	broken  string // method that fails
	silent  string // method that is not answered
	refuses bool   // subscriptions, by an acknowledgement of nothing

	mu       sync.Mutex
	asked    []string // methods
	listens  []*mcpmap.Exchange
	sessions []*session
}

// Do implements mcpmap.Server.
func (s *server) Do(x *mcpmap.Exchange) {
	if !s.modern {
		s.note(string(x.Message.Method()) + "?")
		x.FailVersion([]string{"2025-11-25"})
		return
	}
	s.serve(x, true)
}

// Connect implements mcpmap.Server.
func (s *server) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	c := &session{s: s, client: client}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, c)
	return c, nil
}

// session is one of the era with sessions.
type session struct {
	s      *server
	client mcpmap.Counterpart
	closed bool
}

func (c *session) Do(x *mcpmap.Exchange) { c.s.serve(x, false) }

func (c *session) Notify(m *mcpmap.Message) { c.s.note(string(m.Method())) }

func (c *session) Close() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.closed = true
}

func (s *server) note(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, method)
}

// methods returns what was asked since it was called last.
func (s *server) methods() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := strings.Join(s.asked, ", ")
	s.asked = nil
	return asked
}

func (s *server) serve(x *mcpmap.Exchange, modern bool) {
	method := string(x.Message.Method())
	s.note(method)
	switch method {
	case s.silent:
		return
	case s.broken:
		s.fail(x, -32603)
		return
	}
	capabilities := fmt.Sprintf(`{"tools":{"listChanged":%v}}`, s.tells)
	if s.none {
		capabilities = `{}`
	}
	info := `{"name":"fake"}`
	if s.version != "" {
		info = fmt.Sprintf(`{"name":"fake","version":%q}`, s.version)
	}
	switch method {
	case "server/discover":
		s.answer(x, fmt.Sprintf(`{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":%s,"_meta":{"io.modelcontextprotocol/serverInfo":%s}}`, capabilities, info))
	case "initialize":
		s.answer(x, fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":%s}`, capabilities, info))
	case "tools/list":
		s.page(x, modern)
	case "subscriptions/listen":
		x.Notify(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":%v}}}`, !s.refuses))
		if s.refuses {
			s.answer(x, `{}`)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listens = append(s.listens, x)
	default:
		s.fail(x, -32601)
	}
}

func (s *server) page(x *mcpmap.Exchange, modern bool) {
	var params struct {
		Cursor string                     `json:"cursor"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(x.Message.Params(), &params); err != nil {
		s.t.Error(err)
	}
	if _, has := params.Meta[mcpmap.MetaProtocolVersion]; has != modern {
		s.t.Errorf("tools/list with _meta %v, without a session: %v", params.Meta, modern)
	}
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	from, n := 0, len(tools)
	if params.Cursor != "" {
		_, _ = fmt.Sscan(params.Cursor, &from)
	}
	next := ""
	if s.perPage > 0 && from+s.perPage < n {
		n = from + s.perPage
		next = fmt.Sprintf(`,"nextCursor":"%d"`, n)
	}
	s.answer(x, `{"tools":[`+strings.Join(tools[from:n], ",")+`]`+next+`}`)
}

func (s *server) answer(x *mcpmap.Exchange, result string) {
	x.Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, x.Message.ID(), result))
}

func (s *server) fail(x *mcpmap.Exchange, code int) {
	x.Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, x.Message.ID(), code))
}

// change replaces the tools and says so n times.
func (s *server) change(n int, tools ...string) {
	s.mu.Lock()
	s.tools = tools
	listens, sessions := slices.Clone(s.listens), slices.Clone(s.sessions)
	s.mu.Unlock()
	for range n {
		for _, x := range listens {
			x.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		}
		for _, c := range sessions {
			c.client.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		}
	}
}

// open returns how many sessions are, once those that nobody uses have ended.
func (s *server) open() (n int) {
	time.Sleep(time.Millisecond) // virtual
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sessions {
		if !c.closed {
			n++
		}
	}
	return n
}

// follower is Follow under way.
type follower struct {
	t      *testing.T
	told   chan tooldisc.Listing
	ended  chan error
	cancel context.CancelFunc
}

// follow starts to follow a server in virtual time.
func follow(t *testing.T, s *server, opts mcptools.Options) *follower {
	t.Helper()
	s.t = t
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"fake": s}, "")
	if err != nil {
		t.Fatal(err)
	}
	served := mcpmap.New(mcpmap.Options{Backend: table, SessionGrace: time.Microsecond})
	t.Cleanup(served.Close)
	opts.Target = "fake"
	opts.Connect = func() (*mcpmap.Client, func(), error) {
		calling := mcpmap.New(mcpmap.Options{})
		near, far := profiletest.Pair("us", registry(t, calling), "them", registry(t, served), profiletest.SessionOptions{})
		return calling.Client(near), func() { near.Close(); near.Wait(); far.Wait(); calling.Close() }, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t: t, told: make(chan tooldisc.Listing, 1000), ended: make(chan error, 1), cancel: cancel}
	go func() { f.ended <- mcptools.New(opts).Follow(ctx, func(l tooldisc.Listing) { f.told <- l }) }()
	synctest.Wait()
	return f
}

func registry(t *testing.T, m *mcpmap.Mapping) *profiles.Registry {
	reg, err := profiles.NewRegistry(m.Profile())
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// want takes the next listing, which must be there.
func (f *follower) want(version string, tools ...string) {
	f.t.Helper()
	synctest.Wait()
	select {
	case l := <-f.told:
		var got []string
		for _, tool := range l.Tools {
			got = append(got, string(tool))
		}
		if l.Version != version || !slices.Equal(got, tools) {
			f.t.Errorf("version %q, tools %q, want %q and %q", l.Version, got, version, tools)
		}
	default:
		f.t.Fatal("no listing was told")
	}
	f.silence()
}

// silence wants no listing.
func (f *follower) silence() {
	f.t.Helper()
	synctest.Wait()
	if n := len(f.told); n > 0 {
		f.t.Errorf("%d listings more than wanted", n)
	}
}

// end ends following and returns how it ended.
func (f *follower) end() error {
	f.cancel()
	return <-f.ended
}
