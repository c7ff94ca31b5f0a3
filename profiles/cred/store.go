package cred

import (
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Store is where chains are kept: records with compare-and-set and expiry. Package
// store says what the methods promise. Nobody else may write them: a Service reads
// them once.
type Store interface{ store.Records }

// Where things are in a Store.
const (
	spaceChains = "cred"        // the chains, by keyOf
	spaceOctets = "cred.octets" // what they are made of, by keyOf, nonce and place
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
		t.counts[c.owner]++
		t.index(c)
		return true
	})
	s.clock.notBefore(newest)
	return errors.Join(err, broken)
}

// save writes a chain, and ends the request when that is durable or why it is not.
// Changes that come while one is written are written together. The caller holds
// the lock of the table, as everyone who changes a chain.
func (s *Service) save(c *chain, req *profiles.Request) {
	switch {
	case s.opts.Store == nil:
		c.kept = len(c.links)
	case c.writing != nil:
		c.waiting = append(c.waiting, req.Defer())
	default:
		c.writing = []func(error){req.Defer()}
		s.write(c)
	}
}

// confirm ends the request when all that was changed so far is durable.
func (s *Service) confirm(c *chain, req *profiles.Request) {
	switch {
	case c.writing == nil:
	case c.waiting != nil:
		c.waiting = append(c.waiting, req.Defer())
	default:
		c.writing = append(c.writing, req.Defer())
	}
}

func (s *Service) write(c *chain) {
	nonce, n := c.nonce, len(c.links)
	s.opts.Store.Put(spaceChains, c.key(), c.version, c.owner, c.encode(), s.clock.storage(c.until()),
		func(wrote bool, version uint64, _ []byte, err error) {
			told, err := s.written(c, nonce, n, wrote, version, err)
			for _, done := range told {
				done(err)
			}
		})
}

// written goes on after n links of a life were written, and returns who is to be
// told what of it.
func (s *Service) written(c *chain, nonce string, n int, wrote bool, version uint64, err error) (told []func(error), _ error) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && wrote:
		c.version, c.unsaved = version, false
		if c.nonce == nonce {
			c.kept = n
		}
		told = c.writing
		c.writing, c.waiting = c.waiting, nil
		if c.writing != nil {
			s.write(c)
		}
		return told, nil
	case err == nil && version != c.version:
		// A former life that has expired here and not yet there, or a write that
		// failed and has taken effect all the same.
		c.version = version
		s.write(c)
		return nil, nil
	case err == nil:
		err = errChanged
	}
	told = append(c.writing, c.waiting...)
	c.writing, c.waiting = nil, nil
	s.rollback(c)
	return told, profiles.Unavailable(err)
}

// rollback returns to what is durable. What was revoked stays so for as long as
// this process lives: the owner is told, and asks again.
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

// errChanged is a write that nobody but this Service could have made.
var errChanged = errors.New("cred: a stored chain was written behind our back")

// keeps reports whether the octets of a chain are kept: only tokens are told to
// others. An opaque credential is a secret of its owner and this endpoint, and one
// of mtls says nothing on another channel.
func (s *Service) keeps(c *chain) bool { return s.opts.Store != nil && s.opts.Keep && c.kind == JWT }

// keep has the octets of the last link kept, if that is so. They are with the
// Store before the record that counts them.
func (s *Service) keep(c *chain, octets []byte) {
	if !s.keeps(c) {
		return
	}
	octets = append([]byte{}, octets...)
	s.opts.Store.Put(spaceOctets, c.place(len(c.links)-1), 0, c.owner, octets, s.clock.storage(c.until()),
		func(bool, uint64, []byte, error) {}) // Forward finds out
}

// unkeep removes the octets of a chain.
func (s *Service) unkeep(c *chain) {
	if !s.keeps(c) {
		return
	}
	for i := range c.links {
		s.opts.Store.Delete(spaceOctets, c.place(i), 0, func(bool, error) {}) // or they expire
	}
}

// place is where the octets of a link are.
func (c *chain) place(i int) string { return c.key() + c.nonce + string(rune('0'+i)) }
