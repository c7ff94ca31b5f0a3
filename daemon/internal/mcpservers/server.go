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

// server is an MCP server as one entry of the configuration has it. One whose entry has
// changed is another server.
type server struct {
	name string
	conf config.MCPServer
	past figures // of those that had its name before; held by servers.mu

	child  *mcpstdio.Server // a command, or nil
	reader *mcpstdio.Server // the same with processes for reading its tools alone, or nil
	at     *mcphttp.Backend // a URL, or nil
	tools  *mcptools.Reader // once somebody wants to know them

	// entering is held for reading while somebody is being let in, and for good once
	// nobody is any more.
	entering sync.RWMutex
}

// build returns the server of an entry. Nothing is started yet.
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

// runs reports whether the server is that of an entry, which may declare something else
// of it.
func (s *server) runs(conf *config.MCPServer) bool {
	then, now := s.conf, *conf
	then.Default, then.Hints = now.Default, now.Hints
	return reflect.DeepEqual(then, now)
}

// backing is a server of either kind.
type backing interface {
	mcpmap.Server
	Close(ctx context.Context) error
	Retire(ctx context.Context) error
}

// peers is what peers are served by.
func (s *server) peers() backing {
	if s.at != nil {
		return s.at
	}
	return s.child
}

// inside is what tools are read from.
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

// enter lets a request in, until leave is called. It reports false once shut was called.
func (s *server) enter() (leave func(), ok bool) {
	return s.entering.RUnlock, s.entering.TryRLock()
}

// shut lets nobody in any more, and returns once those are in who were let in.
func (s *server) shut() { s.entering.Lock() } // for good

// retire returns when what is under way has ended and the server with it; once ctx ends
// it is ended at once.
func (s *server) retire(ctx context.Context) {
	var both sync.WaitGroup
	for _, b := range s.backings() {
		both.Go(func() { _ = b.Retire(ctx) }) // its error is that of ctx
	}
	both.Wait()
}

// close ends the server and what is under way once ctx ends, or before.
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

// place is where peers find the server of a name: the one that is there when they come.
// It implements mcpmap.Server.
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

// Connect implements mcpmap.Server.
func (p *place) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	one, leave := p.enter()
	if one == nil {
		return nil, errNoServer
	}
	defer leave()
	return one.peers().Connect(client)
}

// enter lets a request in at the server that has the name now; nil if there is none.
func (p *place) enter() (one *server, leave func()) {
	for one = p.one; one != nil; one = p.servers.named(p.one.name) {
		if leave, ok := one.enter(); ok {
			return one, leave
		}
	}
	return nil, nil
}

// errNoServer refuses what came while its server left.
var errNoServer = &profiles.Error{
	Code: profiles.NotFound, Detail: "mcp_target", Text: "unknown target: the server was removed", Domain: true,
}
