package mcptransport_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/sdk/mcptransport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

// site is an endpoint with an MCP server, which can begin anew.
type site struct {
	t    *testing.T
	kind string
	idle time.Duration
	peer *client.Kept

	mu  sync.Mutex
	ep  *endpoint.Endpoint
	end func()
}

// begin starts the endpoint, anew if it was there before, with a server behind it.
func (s *site) begin(server *mcp.Server) {
	s.t.Helper()
	behind := mcptransport.NewServer(server, mcptransport.ServerOptions{})
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"server": behind}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	set, err := all.New(all.Options{TellBounds: s.idle > 0, MCP: mcpmap.Options{Backend: table}})
	if err != nil {
		s.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Bounds: endpoint.Bounds{Idle: s.idle}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ep, s.end = ep, func() {
		_ = ep.Close()
		set.Close()
		behind.Close()
	}
}

func (s *site) stop() {
	s.mu.Lock()
	end := s.end
	s.end = nil
	s.mu.Unlock()
	if end != nil {
		end()
	}
}

func (s *site) dial(context.Context) (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accepted, dialled := transporttest.Pair(s.t, s.kind)
	s.ep.Attach(accepted)
	return client.Attach(dialled, client.Options{})
}

// connection is the present one.
func (s *site) connection() *client.Client {
	s.t.Helper()
	c, err := s.peer.Get(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// linked returns the transport by which a client reaches a server over connections
// of a kind.
func linked(t *testing.T, kind string, server *mcp.Server) (*mcptransport.Client, *site) {
	return linkedFor(t, kind, server, 0)
}

func linkedFor(t *testing.T, kind string, server *mcp.Server, idle time.Duration) (*mcptransport.Client, *site) {
	t.Helper()
	s := &site{t: t, kind: kind, idle: idle}
	s.begin(server)
	t.Cleanup(s.stop)
	s.peer = client.Keep(client.KeepOptions{Dial: s.dial})
	t.Cleanup(s.peer.Close)
	return &mcptransport.Client{Peer: s.peer, Target: "server"}, s
}

type text struct {
	Text string `json:"text"`
}

// server has a tool that says what it is told, one that reports three steps, one that
// waits to be cancelled and one that asks its client.
func server(stopped chan<- struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "steps"}, func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		for step := range 3 {
			p := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(step + 1)}
			if err := req.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		stopped <- struct{}{}
		<-ctx.Done()
		stopped <- struct{}{}
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "roots"}, func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		roots, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // what the older protocol has
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: roots.Roots[0].URI}}}, nil, nil
	})
	return s
}

// eras are the protocol versions of both.
var eras = map[string]string{"modern": mcpmap.ModernVersion, "legacy": "2025-11-25"}

// everywhere runs a test in both eras over every transport.
func everywhere(t *testing.T, run func(t *testing.T, kind, version string)) {
	for _, kind := range transporttest.Kinds() {
		for era, version := range eras {
			t.Run(kind+"/"+era, func(t *testing.T) { run(t, kind, version) })
		}
	}
}

func connect(t *testing.T, transport mcp.Transport, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	program := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, opts)
	program.AddRoots(&mcp.Root{URI: "file:///here"}) //nolint:staticcheck // what the older protocol has
	session, err := program.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func said(t *testing.T, r *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if r.IsError || len(r.Content) != 1 {
		t.Fatalf("%+v", r)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func TestToolsAreListedAndCalled(t *testing.T) {
	everywhere(t, func(t *testing.T, kind, version string) {
		transport, _ := linked(t, kind, server(nil))
		session := connect(t, transport, version, nil)
		if got := session.InitializeResult().ProtocolVersion; got != version {
			t.Fatalf("version %s, want %s", got, version)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 4 {
			t.Fatalf("%+v, %v", tools, err)
		}
		var calls sync.WaitGroup
		for _, want := range []string{"a", "é", "\n", ""} {
			calls.Go(func() {
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: text{want}})
				if err != nil || r.Content[0].(*mcp.TextContent).Text != want {
					t.Errorf("%+v, %v, want %q", r, err, want)
				}
			})
		}
		calls.Wait()
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil {
			t.Error("a tool that is not there was called")
		}
	})
}

func TestProgressComesInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, kind, version string) {
		transport, _ := linked(t, kind, server(nil))
		steps := make(chan float64, 3)
		session := connect(t, transport, version, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { steps <- r.Params.Progress },
		})
		params := &mcp.CallToolParams{Name: "steps"}
		params.SetProgressToken("token")
		if _, err := session.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		var got []float64
		for range 3 {
			select {
			case step := <-steps:
				got = append(got, step)
			case <-time.After(patience):
				t.Fatalf("steps %v", got)
			}
		}
		if !slices.Equal(got, []float64{1, 2, 3}) {
			t.Errorf("steps %v", got)
		}
	})
}

func TestCancellationStopsTheTool(t *testing.T) {
	everywhere(t, func(t *testing.T, kind, version string) {
		stopped := make(chan struct{}, 2)
		transport, _ := linked(t, kind, server(stopped))
		session := connect(t, transport, version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-stopped // it runs
			cancel()
		}()
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "wait"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		select {
		case <-stopped:
		case <-time.After(patience):
			t.Error("the tool goes on")
		}
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: text{"after"}})
		if got := said(t, r, err); got != "after" {
			t.Errorf("%q", got)
		}
	})
}

func TestServerAsksTheClientOfASession(t *testing.T) {
	for _, kind := range transporttest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			transport, _ := linked(t, kind, server(nil))
			session := connect(t, transport, eras["legacy"], nil)
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "roots"})
			if got := said(t, r, err); got != "file:///here" {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestChangesReachTheClient(t *testing.T) {
	everywhere(t, func(t *testing.T, kind, version string) {
		s := server(nil)
		transport, _ := linked(t, kind, s)
		changed := make(chan struct{}, 16)
		session := connect(t, transport, version, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		})
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		// The SDK listens in the background: until it does, a change is lost.
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for deadline := time.After(patience); ; {
			s.RemoveTools("echo")
			mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
			select {
			case <-changed:
				return
			case <-again.C:
			case <-deadline:
				t.Fatal("no change was told")
			}
		}
	})
}

func TestSessionOutlivesItsConnections(t *testing.T) {
	everywhere(t, func(t *testing.T, kind, version string) {
		stopped := make(chan struct{}, 2)
		transport, s := linked(t, kind, server(stopped))
		session := connect(t, transport, version, nil)
		go func() {
			<-stopped
			s.connection().Session.(*endpoint.Session).Close(0) //nolint:errcheck // no address of these tests names a partner
		}()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "wait"}); err == nil || ctx.Err() != nil {
			t.Errorf("under way when the connection ended: %v", err)
		}
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: text{"after"}})
		if got := said(t, r, err); got != "after" {
			t.Errorf("over the next connection: %q", got)
		}
		if version == eras["legacy"] {
			r, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "roots"})
			if got := said(t, r, err); got != "file:///here" {
				t.Errorf("the server asks over the next connection: %q", got)
			}
		}
		before := s.connection()
		s.begin(server(nil))
		<-before.Context().Done() // what is sent before that is known is under way, and fails
		r, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: text{"anew"}})
		if got := said(t, r, err); got != "anew" {
			t.Errorf("at an endpoint that began anew: %q", got)
		}
	})
}

func TestSessionOutlivesIdleTimes(t *testing.T) {
	const idle = 300 * time.Millisecond
	for _, kind := range transporttest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			transport, s := linkedFor(t, kind, server(nil), idle)
			session := connect(t, transport, eras["modern"], nil)
			for range 3 {
				c := s.connection()
				select {
				case <-c.Context().Done():
				case <-time.After(patience):
					t.Fatal("the connection did not end")
				}
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: text{"after"}})
				if got := said(t, r, err); got != "after" {
					t.Errorf("%q", got)
				}
			}
		})
	}
}

func TestClosedServerRefuses(t *testing.T) {
	behind := mcptransport.NewServer(server(nil), mcptransport.ServerOptions{})
	behind.Close()
	if _, err := behind.Connect(nil); err == nil {
		t.Error("a conversation began")
	}
}

func TestAnswersCarryTheIDAsItWasWritten(t *testing.T) {
	_, s := linked(t, "pipe", server(nil))
	c := s.connection()
	for _, id := range []string{`9007199254740993`, `1.0`, `1.5`, `-0`, `1e3`, `"A"`, `"x"`} {
		request := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t"},"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		r, err := c.MCP().Do(t.Context(), &mcpmap.Call{Target: "server", Octets: []byte(request)})
		if err != nil {
			t.Fatal(err)
		}
		var m mcpmap.Message
		if err := m.Scan(r.Octets); err != nil || string(m.ID()) != id || m.Result() == nil {
			t.Errorf("id %s: %s, %v", id, r.Octets, err)
		}
	}
}
