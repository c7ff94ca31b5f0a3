package obs

import (
	"container/list"
	"sync"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// Bounds of the stored contexts, see the documentation of the package.
const (
	maxBound       = 1024
	maxBoundOctets = 1 << 20
	maxAllOctets   = 64 << 20

	// boundCost is the overhead of a binding: entries of a map and a list.
	boundCost = 256
)

// table finds the contexts of a connection.
type table struct {
	profiles.PerSession[connection]
	octets fair.Budget // of all bindings, by the identity of their connection
}

// enter is Find that makes the missing contexts. They are removed with the connection.
func (t *table) enter(s profiles.Session) *connection {
	return t.Enter(s, func() *connection { return &connection{table: t, identity: s.Peer().Identity} }, (*connection).end)
}

// connection has the contexts of one connection.
type connection struct {
	table    *table
	identity string // of the peer

	mu     sync.Mutex
	last   set            // the last one that was read
	all    profiles.Trace // for exchanges without another context
	bound  map[key]*list.Element
	order  list.List // of *binding, the oldest first
	octets int
	over   bool
}

// set is a stored Set.
type set struct {
	trace           profiles.Trace
	msg, task, call string
}

// key identifies an exchange: its msg_id, or a key of its lifecycle. For lifecycles task_id
// and rpc_id are not distinguished.
type key struct {
	lifecycle bool
	id        string
}

type binding struct {
	key   key
	trace profiles.Trace
}

func (b *binding) cost() int {
	return boundCost + len(b.key.id) + len(b.trace.Parent) + len(b.trace.State)
}

// set makes s the last one and binds it.
func (c *connection) set(s set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.last = s
	if s.msg == "" && s.task == "" && s.call == "" {
		c.all = s.trace
		return
	}
	c.bind(key{false, s.msg}, s.trace)
	c.bind(key{true, s.task}, s.trace)
	c.bind(key{true, s.call}, s.trace)
}

// bind binds a context to an exchange, or removes the binding. The caller holds mu.
func (c *connection) bind(k key, t profiles.Trace) {
	if k.id == "" {
		return
	}
	if e, ok := c.bound[k]; ok {
		c.forget(e)
	}
	if t.Parent == "" {
		return
	}
	b := &binding{k, t}
	if c.bound == nil {
		c.bound = make(map[key]*list.Element)
	}
	c.bound[k] = c.order.PushBack(b)
	c.account(b.cost())
	for n := c.order.Len(); n > maxBound || n > 1 && (c.octets > maxBoundOctets || c.table.octets.Over(c.identity)); n-- {
		c.forget(c.order.Front())
	}
}

func (c *connection) forget(e *list.Element) {
	b := e.Value.(*binding) //nolint:errcheck // the list holds nothing else
	c.order.Remove(e)
	delete(c.bound, b.key)
	c.account(-b.cost())
}

func (c *connection) account(n int) {
	c.octets += n
	c.table.octets.Add(c.identity, n)
}

// end removes everything at the end of the connection.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.account(-c.octets)
	c.bound, c.last, c.all = nil, set{}, profiles.Trace{}
	c.order.Init()
}

// get returns the last set that was read.
func (c *connection) get() set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// trace returns the context of an exchange. It calls lifecycle only if a context may be
// bound to the key.
func (c *connection) trace(msgID []byte, lifecycle func() []byte) (profiles.Trace, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bound) > 0 {
		if e, ok := c.bound[key{false, string(msgID)}]; ok {
			return e.Value.(*binding).trace, true //nolint:errcheck // the list holds nothing else
		}
		if e, ok := c.bound[key{true, string(lifecycle())}]; ok {
			return e.Value.(*binding).trace, true //nolint:errcheck // the list holds nothing else
		}
	}
	return c.all, c.all.Parent != ""
}
