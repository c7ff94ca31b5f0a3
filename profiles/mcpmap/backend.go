package mcpmap

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Backend has the MCP servers for peers. It is safe for concurrent use, and its methods do
// not wait.
type Backend interface {
	// Targets returns the names of the servers, sorted, and the default for a request
	// without a target: "" if a target is required.
	Targets() (names []string, def string)

	// Server returns the server with a name. Its requests and sessions continue even if
	// Server later returns another one, or none.
	Server(name string) (Server, bool)
}

// Server is one MCP server behind this endpoint: a child process, an HTTP
// origin, a partner. It is safe for concurrent use.
type Server interface {
	// Do executes a request of the modern era. It does not wait. It ends the exchange by
	// Finish or Fail, now or later.
	Do(x *Exchange)

	// Connect opens a conversation of the legacy era. It does not wait;
	// Counterpart.Ended reports later errors.
	Connect(client Counterpart) (Conversation, error)
}

// Timed is a Server whose owner says how long a call may be without a message.
type Timed interface {
	// Timeout returns the time for a request. m is valid until it returns.
	Timeout(m *Message) time.Duration
}

// Timeouts are a Timed: the time for a request, and for the calls of some tools another one.
type Timeouts struct {
	Each  time.Duration // default profiles.WorkWait
	Tools map[string]time.Duration
}

// Timeout implements Timed.
func (t *Timeouts) Timeout(m *Message) time.Duration {
	if m.Is(MethodToolsCall) {
		if of, ok := t.Tools[string(m.Tool())]; ok {
			return of
		}
	}
	return cmp.Or(t.Each, profiles.WorkWait)
}

// Longest returns the longest of the times.
func (t *Timeouts) Longest() time.Duration {
	longest := cmp.Or(t.Each, profiles.WorkWait)
	for _, of := range t.Tools {
		longest = max(longest, of)
	}
	return longest
}

// timeout returns the time without a message for a request to a server. The server may be nil.
func (m *Mapping) timeout(server Server, msg *Message) time.Duration {
	if timed, ok := server.(Timed); ok {
		return timed.Timeout(msg)
	}
	return m.opts.CallTimeout
}

// Conversation is the server's end of a legacy session. Its methods do not wait and may be
// called concurrently; messages arrive in the order of the calls.
type Conversation interface {
	// Do executes a request, including initialize.
	Do(x *Exchange)

	// Notify forwards a notification, octet for octet. m is valid until Notify returns.
	Notify(m *Message)

	// Close ends the conversation and its requests in flight.
	Close()
}

// Listened is implemented by a Conversation with another endpoint, where the session may be idle too.
type Listened interface {
	// Listen says that the client waits from now on for messages that belong to no request, or does
	// not wait any more, as at the beginning. It does not wait.
	Listen(listens bool)
}

// Counterpart is the client's end of a legacy session, for a Conversation. Its methods,
// except Pace, do not wait. Their arguments are valid until they return.
type Counterpart interface {
	// Peer is the client that has opened the session.
	Peer() *profiles.Peer

	// Notify sends the client a notification that belongs to no request. It reports whether
	// there was room; without a client only so many are kept.
	Notify(octets []byte) bool

	// Pace waits while the client is connected and too much is queued for it. It fails at the
	// end of ctx. A reader calls it before Notify, so that the server waits for the client.
	Pace(ctx context.Context) error

	// Request sends the client a request of the server: sampling, elicitation, roots, ping.
	// x is the related exchange, or nil. answer is called once, by another goroutine, with
	// a JSON-RPC response to m; its octets are valid until answer returns.
	Request(x *Exchange, m *Message, answer func(octets []byte))

	// Attended reports whether the client waits for messages that belong to no request, or the
	// server for an answer or a task of the session. Without requests under way, a session
	// that is not attended is idle: it may end in favour of another one of its identity.
	Attended() bool

	// Ended reports that the server has ended the conversation. The caller must end the
	// exchanges in flight. Repeated calls do nothing.
	Ended()
}

// Table is a Backend that never changes.
type Table struct {
	names   []string
	def     string
	servers map[string]Server
}

// NewTable returns a Backend of servers by name. def is the server for requests that name
// none; if it is "" and there is only one server, that one is used.
func NewTable(servers map[string]Server, def string) (*Table, error) {
	t := &Table{names: slices.Sorted(maps.Keys(servers)), def: def, servers: maps.Clone(servers)}
	if _, ok := servers[def]; def != "" && !ok {
		return nil, fmt.Errorf("mcpmap: default server %q, want one of %q", def, t.names)
	}
	if def == "" && len(t.names) == 1 {
		t.def = t.names[0]
	}
	return t, nil
}

// Targets implements Backend.
func (t *Table) Targets() (names []string, def string) { return t.names, t.def }

// Server implements Backend.
func (t *Table) Server(name string) (Server, bool) {
	s, ok := t.servers[name]
	return s, ok
}
