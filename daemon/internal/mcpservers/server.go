package mcpservers

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/internal/bridge/mcptools"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// server is an MCP server of one entry of the configuration. A changed entry makes a new
// server.
type server struct {
	name string
	conf config.MCPServer
	past figures // of earlier servers with its name; guarded by servers.mu

	child  *mcpstdio.Server // a command, or nil
	reader *mcpstdio.Server // the same with separate processes for reading its tools, or nil
	at     *mcphttp.Backend // a URL, or nil
	tools  *mcptools.Reader // made at the first request for the tools

	// entering is read-locked while a request enters, and locked permanently by shut.
	entering sync.RWMutex
}

// build returns the server of an entry. It starts nothing.
func (s *Servers) build(name string, conf *config.MCPServer) (one *server, err error) {
	one = &server{name: name, conf: *conf}
	if conf.URL != "" {
		one.at, err = s.backend(name, conf)
		return one, err
	}
	peers := *conf
	if readsApart(conf) {
		reading := s.config(name, *conf)
		reading.MaxChildren, reading.MaxShared, reading.Idle = readingChildren, 1, min(conf.Idle, time.Minute)
		if one.reader, err = mcpstdio.New(reading); err != nil {
			return nil, err
		}
		peers.MaxChildren -= readingChildren
	}
	one.child, err = mcpstdio.New(s.config(name, peers))
	return one, err
}

// runs reports whether the server matches an entry, apart from default and hints.
func (s *server) runs(conf *config.MCPServer) bool {
	then, now := s.conf, *conf
	then.Default, then.Hints = now.Default, now.Hints
	return reflect.DeepEqual(then, now)
}

// backing is a server of either kind.
type backing interface {
	mcpmap.Server
	mcpmap.Timed
	Close(ctx context.Context) error
	Retire(ctx context.Context) error
}

// peers returns the server for peers.
func (s *server) peers() backing {
	if s.at != nil {
		return s.at
	}
	return s.child
}

// inside returns the server for reading tools.
func (s *server) inside() backing {
	if s.reader != nil {
		return s.reader
	}
	return s.peers()
}

// children are its commands.
func (s *server) children() (list []*mcpstdio.Server) {
	for _, child := range []*mcpstdio.Server{s.child, s.reader} {
		if child != nil {
			list = append(list, child)
		}
	}
	return list
}

// enter admits a request until leave is called. It returns false after shut.
func (s *server) enter() (leave func(), ok bool) {
	return s.entering.RUnlock, s.entering.TryRLock()
}

// shut prevents new requests, and returns after pending calls of enter.
func (s *server) shut() { s.entering.Lock() } // for good

// retire returns when the requests and the server have ended. At the end of ctx it ends the
// server at once.
func (s *server) retire(ctx context.Context) {
	var both sync.WaitGroup
	for _, b := range s.backings() {
		both.Go(func() { _ = b.Retire(ctx) }) // its error is that of ctx
	}
	both.Wait()
}

// close ends the server at the end of ctx, or earlier if its requests have ended.
func (s *server) close(ctx context.Context) {
	var both sync.WaitGroup
	for _, b := range s.backings() {
		both.Go(func() { _ = b.Close(ctx) })
	}
	both.Wait()
}

func (s *server) backings() []backing {
	if s.reader == nil {
		return []backing{s.peers()}
	}
	return []backing{s.peers(), s.reader}
}

// place is the server of a name for peers: each request gets the server that has the name
// at that moment. It implements mcpmap.Server.
type place struct {
	servers *Servers
	one     *server // when the place was made
}

// Do implements mcpmap.Server.
func (p *place) Do(x *mcpmap.Exchange) {
	one, leave := p.enter()
	if one == nil {
		x.Fail(errNoServer)
		return
	}
	defer leave()
	one.peers().Do(x)
}

// Timeout implements mcpmap.Timed.
func (p *place) Timeout(m *mcpmap.Message) time.Duration {
	one, leave := p.enter()
	if one == nil {
		return p.one.peers().Timeout(m)
	}
	defer leave()
	return one.peers().Timeout(m)
}

// Connect implements mcpmap.Server.
func (p *place) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	one, leave := p.enter()
	if one == nil {
		return nil, errNoServer
	}
	defer leave()
	return one.peers().Connect(client)
}

// enter admits a request to the server that has the name now; one is nil without a server.
func (p *place) enter() (one *server, leave func()) {
	for one = p.one; one != nil; one = p.servers.named(p.one.name) {
		if leave, ok := one.enter(); ok {
			return one, leave
		}
	}
	return nil, nil
}

// errNoServer refuses a request whose server is being removed.
var errNoServer = &profiles.Error{
	Code: profiles.NotFound, Detail: "mcp_target", Text: "unknown target: the server was removed", Domain: true,
}
