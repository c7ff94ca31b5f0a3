package artifact

import (
	"sync"

	"github.com/slimwire/swp/profiles"
)

// offerers are the callers that a peer has asserted with the OFFERs of one connection, by
// artifact_id. A chunk that asserts nobody belongs to the last of them.
type offerers struct {
	mu sync.Mutex
	of map[string]*profiles.Peer
}

// maxOfferers limits the artifact_ids that are remembered for a connection.
const maxOfferers = 64

// offered records the peer that has offered an artifact.
func (s *Service) offered(req *profiles.Request, id string) {
	o := s.offerers.Find(req.Session)
	if o == nil && req.Caller == nil { // the usual case
		return
	}
	if o == nil {
		o = s.offerers.Enter(req.Session, func() *offerers { return new(offerers) }, func(*offerers) {})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if req.Caller == nil {
		delete(o.of, id)
		return
	}
	if o.of == nil || len(o.of) >= maxOfferers {
		o.of = make(map[string]*profiles.Peer)
	}
	o.of[id] = req.Caller
}

// inherits makes a chunk one of the caller that has offered its artifact.
func (s *Service) inherits(req *profiles.Request, id string) {
	o := s.offerers.Find(req.Session)
	if o == nil || req.Caller != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if by := o.of[id]; by != nil {
		req.Inherit(by)
	}
}
