package mcpmap

import (
	"fmt"
	"maps"
	"slices"
)

// Backend is the MCP servers that are offered to peers. It is safe for
// concurrent use; none of its methods waits.
type Backend interface {
	// Targets returns the names of the servers, sorted, and the one that a
	// request without a target goes to: "" if it must name one.
	Targets() (names []string, def string)

	// Server returns the server of a name. Requests and sessions there go on even if
	// it later returns another server, or none.
	Server(name string) (Server, bool)
}

// Server is one MCP server behind this endpoint: a child process, an HTTP
// origin, a partner. It is safe for concurrent use.
type Server interface {
	// Do takes over a request of the modern era. It does not wait, and ends the
	// exchange by Finish or Fail, sooner or later.
	Do(x *Exchange)

	// Connect opens a conversation of the legacy era. It does not wait;
	// Counterpart.Ended reports later errors.
	Connect(client Counterpart) (Conversation, error)
}

// Conversation is the server's end of a legacy session. Its methods do not wait
// and may be called at once; messages arrive in the order of the calls.
type Conversation interface {
	// Do takes over a request, initialize among them.
	Do(x *Exchange)

	// Notify passes a notification on, octet for octet. m is valid until Notify
	// returns.
	Notify(m *Message)

	// Close ends the conversation and its requests in flight.
	Close()
}

// Counterpart is the client's end of a legacy session as a Conversation sees it.
// Its methods do not wait. Their arguments are valid until they return.
type Counterpart interface {
	// Notify sends the client a notification that belongs to no request.
	Notify(octets []byte)

	// Request asks the client something: sampling, elicitation, roots, ping. x
	// is the exchange it belongs to, or nil. answer is called once, from another
	// goroutine, with a JSON-RPC response to m; its octets are valid until
	// answer returns.
	Request(x *Exchange, m *Message, answer func(octets []byte))

	// Ended says that the conversation is over: the server is gone. The caller
	// ends the exchanges in flight. To say it again does no harm.
	Ended()
}

// Table is a Backend that never changes.
type Table struct {
	names   []string
	def     string
	servers map[string]Server
}

// NewTable returns the Backend of the servers given by name. def is the server
// for requests that name none; if it is "" and there is only one server, that
// one is meant.
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
