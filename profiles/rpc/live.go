package rpc

import (
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/profiles"
)

// table has the open calls after Serve has returned, by connection and rpc_id. The endpoint
// bounds their number.
type table struct {
	n  atomic.Int64 // entries, so that inline requests need no lock
	mu sync.Mutex
	m  map[key]*live
}

type key struct {
	session profiles.Session
	rpcID   string
}

// live is one such call.
type live struct {
	key    key
	method string
	peer   *profiles.Peer // who has called, and may cancel
	cancel func()         // called for RPC_CANCEL; must not block
	flow   flow           // of its items
}

func newTable() *table { return &table{m: make(map[key]*live)} }

// has reports whether an rpc_id is in use.
func (t *table) has(s profiles.Session, rpcID []byte) bool {
	return t.n.Load() > 0 && t.get(s, rpcID) != nil
}

func (t *table) get(s profiles.Session, rpcID []byte) *live {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[key{s, string(rpcID)}]
}

// add enters a call. It returns nil if the rpc_id is in use.
func (t *table) add(req *profiles.Request, rpcID []byte, method string, cancel func()) *live {
	l := &live{key: key{req.Session, string(rpcID)}, method: method, peer: req.Peer(), cancel: cancel}
	l.flow.window.Size, _, _ = profiles.Uvarint(req.Extensions, ExtWindow) // was checked before
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[l.key] != nil {
		return nil
	}
	t.m[l.key] = l
	t.n.Add(1)
	return l
}

// remove frees the rpc_id. It may be called more than once.
func (t *table) remove(l *live) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[l.key] == l {
		delete(t.m, l.key)
		t.n.Add(-1)
		l.flow.end()
	}
}
