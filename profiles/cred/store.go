package cred

import (
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Store keeps chains: records with compare-and-set and expiry. Package store documents
// the methods. A Service assumes one process, and no other Service, that writes the
// records: it reads them once.
type Store interface{ store.Records }

// The spaces of a Store.
const (
	spaceChains = "cred"        // the chains, by keyOf
	spaceOctets = "cred.octets" // the octets of their links, by keyOf, nonce and place
)

// load reads the chains of an earlier process.
func (s *Service) load(ctx context.Context) error {
	var broken error
	var newest int64
	t := &s.table
	err := s.opts.Store.Scan(ctx, spaceChains, "", "", func(_ string, version uint64, value []byte) bool {
		c := new(chain)
		if broken = c.decode(value); broken != nil {
			return false
		}
		c.version = version
		newest = max(newest, c.made)
		t.own[c.key()] = c
		t.counts.Force(c.owner, 1)
		t.index(c)
		return true
	})
	s.clock.notBefore(newest)
	return errors.Join(err, broken)
}

// save writes a chain, and ends the request when the write has succeeded or failed. The
// caller holds the lock of the table.
func (s *Service) save(c *chain, req *profiles.Request) {
	if s.opts.Store == nil {
		c.kept = len(c.links)
		return
	}
	s.write(c, req.Defer())
}

// write writes a chain. Changes during a write are written together after it. The caller holds
// the lock of the table.
func (s *Service) write(c *chain, done func(error)) {
	if c.writing != nil {
		c.waiting = append(c.waiting, done)
		return
	}
	c.writing = []func(error){done}
	s.submit(c)
}

// confirm ends the request when all earlier changes of the chain are durable.
func (s *Service) confirm(c *chain, req *profiles.Request) {
	switch {
	case c.writing == nil:
	case c.waiting != nil:
		c.waiting = append(c.waiting, req.Defer())
	default:
		c.writing = append(c.writing, req.Defer())
	}
}

func (s *Service) submit(c *chain) {
	nonce, n := c.nonce, len(c.links)
	s.opts.Store.Put(spaceChains, c.key(), c.version, c.owner, c.encode(), s.clock.storage(c.until()),
		func(r store.PutResult) {
			told, err := s.written(c, nonce, n, r)
			for _, done := range told {
				done(err)
			}
		})
}

// written continues after the write of n links of a life of a chain. It returns the
// functions to call, and the error to call them with.
func (s *Service) written(c *chain, nonce string, n int, r store.PutResult) (told []func(error), err error) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.Err == nil && r.Wrote:
		c.version, c.unsaved = r.Version, false
		if c.nonce == nonce {
			c.kept = n
		}
		told = c.writing
		c.writing, c.waiting = c.waiting, nil
		if c.writing != nil {
			s.submit(c)
		}
		return told, nil
	case r.Err == nil && r.Version != c.version:
		// The record is of an earlier life that has not yet expired in the Store, or
		// of a write that took effect although it failed.
		c.version = r.Version
		s.submit(c)
		return nil, nil
	case r.Err == nil:
		err = errChanged
	default:
		err = r.Err
	}
	told = append(c.writing, c.waiting...)
	c.writing, c.waiting = nil, nil
	s.rollback(c)
	return told, profiles.Unavailable(err)
}

// rollback returns a chain to its durable state. A revocation stays until the end of
// this process: its owner gets the error, and asks again.
func (s *Service) rollback(c *chain) {
	switch {
	case c.revoked:
		c.unsaved = true
	case c.kept == 0:
		s.table.drop(c)
	default:
		s.table.unindex(c)
		c.links = c.links[:c.kept]
		s.table.index(c)
	}
}

// errChanged is for a record that something other than this Service has written.
var errChanged = errors.New("cred: a stored chain was changed by another writer")

// keeps reports whether the octets of a chain are kept. Only tokens are forwarded: an
// opaque credential is a secret between its owner and this endpoint, and an mtls
// credential is valid on its channel only.
func (s *Service) keeps(c *chain) bool {
	return s.opts.Store != nil && s.limits.Load().Keep && c.kind == JWT
}

// keep stores the octets of link i, if keeps says so and it has not done so before. The
// Store gets them before the record that counts the link. A failure shows in Forward, and
// the link can be presented again. It reports whether it has stored them. The caller holds
// the lock of the table.
func (s *Service) keep(c *chain, i int, octets []byte) bool {
	if !s.keeps(c) || c.links[i].kept {
		return false
	}
	c.links[i].kept = true
	octets, nonce := append([]byte{}, octets...), c.nonce
	s.opts.Store.Put(spaceOctets, c.place(i), 0, c.owner, octets, s.clock.storage(c.until()), func(r store.PutResult) {
		if r.Err == nil {
			return
		}
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		if c.nonce == nonce && i < len(c.links) {
			c.links[i].kept = false
		}
	})
	return true
}

// again ends the request that presents link i of a chain again. If its octets were not kept
// the first time, they are then in the Store. The caller holds the lock of the table.
func (s *Service) again(c *chain, i int, octets []byte, req *profiles.Request) {
	if s.keep(c, i, octets) {
		s.save(c, req)
		return
	}
	s.confirm(c, req)
}

// unkeep removes the octets of a chain from the Store.
func (s *Service) unkeep(c *chain) {
	if s.opts.Store == nil || !s.keeping.Load() || c.kind != JWT {
		return
	}
	for i := range c.links {
		s.opts.Store.Delete(spaceOctets, c.place(i), 0, func(bool, error) {}) // after a failure they expire
	}
}

// place is the key of the octets of a link.
func (c *chain) place(i int) string { return c.key() + c.nonce + string(rune('0'+i)) }
