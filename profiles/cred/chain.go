package cred

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/slimwire/swp/profiles/p1"
)

// chain is a credential and its delegations. A revoked chain has no links.
type chain struct {
	owner   string
	id      string
	kind    string // of the first credential
	nonce   string // distinguishes two lives of a chain_id
	made    int64  // unix milliseconds on the steady clock
	links   []link
	revoked bool
	buried  int64 // end of the revocation, on the steady clock; 0 is for ever

	version uint64        // of the record
	kept    int           // links in the record
	unsaved bool          // the record does not have the revocation
	writing []func(error) // called at the end of the current write; nil without a write
	waiting []func(error) // called at the end of the next write
}

const nonceSize = 8

// begin begins the life of a chain with its first link.
func (c *chain) begin(kind string, now int64, first *link) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	c.kind, c.nonce, c.made, c.kept, c.links = kind, string(nonce), now, 0, []link{*first}
}

func (c *chain) key() string { return keyOf(c.owner, c.id) }

// keyOf is the key of a chain in a Store: the hash of its owner, then the chain_id.
func keyOf(owner, id string) string {
	sum := sha256.Sum256([]byte(owner))
	return string(sum[:]) + id
}

// until is the time on the steady clock at which a chain is forgotten; 0 is never.
// Until then it can be revoked.
func (c *chain) until() int64 {
	if c.revoked {
		return c.buried
	}
	return c.links[0].until
}

// over reports whether a chain is forgotten.
func (c *chain) over(now int64) bool { return c.until() != 0 && c.until() <= now }

// ended reports whether a chain has expired. A link never lasts longer than its
// predecessors.
func (c *chain) ended(now int64) bool { return !c.revoked && c.links[len(c.links)-1].until <= now }

// revoke removes the links of a chain and marks it as revoked.
func (c *chain) revoke() {
	if !c.links[0].endless {
		c.buried = c.links[0].until
	}
	c.revoked, c.links = true, nil
}

// encode writes the record of a chain: a protobuf message without a schema. Its field
// numbers are never used again.
func (c *chain) encode() []byte {
	dst := p1.AppendBytes(nil, 1, c.owner)
	dst = p1.AppendBytes(dst, 2, c.id)
	dst = p1.AppendBytes(dst, 3, c.kind)
	dst = p1.AppendBytes(dst, 4, c.nonce)
	dst = p1.AppendUint(dst, 5, uint64(c.made))
	dst = p1.AppendBool(dst, 6, c.revoked)
	dst = p1.AppendUint(dst, 7, uint64(c.buried))
	for i := range c.links {
		dst = p1.AppendBytes(dst, 8, c.links[i].encode())
	}
	return dst
}

func (l *link) encode() []byte {
	dst := p1.AppendBytes(nil, 1, l.sum[:])
	dst = p1.AppendBytes(dst, 2, l.issuer)
	dst = p1.AppendBytes(dst, 3, l.subject)
	for _, scope := range l.scopes {
		dst = p1.AppendBytes(dst, 4, scope)
	}
	dst = p1.AppendBytes(dst, 5, l.key)
	dst = p1.AppendBytes(dst, 6, l.leaf)
	dst = p1.AppendBool(dst, 7, l.bearer)
	dst = p1.AppendUint(dst, 8, uint64(l.expires))
	dst = p1.AppendUint(dst, 9, uint64(l.until))
	dst = p1.AppendBool(dst, 10, l.endless)
	return p1.AppendUint(dst, 11, uint64(l.said))
}

// decode reads c from a record.
func (c *chain) decode(value []byte) error {
	*c = chain{}
	var made, buried uint64
	var broken error
	f := p1.Read(value)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Octets(&c.owner)
		case 2:
			f.Octets(&c.id)
		case 3:
			f.Octets(&c.kind)
		case 4:
			f.Octets(&c.nonce)
		case 5:
			f.Uint64(&made)
		case 6:
			f.Bool(&c.revoked)
		case 7:
			f.Uint64(&buried)
		case 8:
			var message []byte
			f.Bytes(&message)
			var l link
			if err := l.decode(message); err != nil && broken == nil {
				broken = err
			}
			c.links = append(c.links, l)
		}
	}
	c.made, c.buried, c.kept = int64(made), int64(buried), len(c.links)
	switch {
	case f.Err() != nil:
		return damaged(f.Err())
	case broken != nil:
		return damaged(broken)
	case len(c.nonce) != nonceSize || c.revoked != (len(c.links) == 0) || len(c.links) > maxDepth:
		return fmt.Errorf("cred: stored chain: nonce of %d octets, %d links, revoked %v", len(c.nonce), len(c.links), c.revoked)
	}
	return nil
}

func (l *link) decode(message []byte) error {
	var sum []byte
	var expires, until, said uint64
	f := p1.Read(message)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&sum)
		case 2:
			f.Octets(&l.issuer)
		case 3:
			f.Octets(&l.subject)
		case 4:
			var scope string
			f.Octets(&scope)
			l.scopes = append(l.scopes, scope)
		case 5:
			f.Octets(&l.key)
		case 6:
			f.Octets(&l.leaf)
		case 7:
			f.Bool(&l.bearer)
		case 8:
			f.Uint64(&expires)
		case 9:
			f.Uint64(&until)
		case 10:
			f.Bool(&l.endless)
		case 11:
			f.Uint64(&said)
		}
	}
	l.expires, l.until, l.said = int64(expires), int64(until), int64(said)
	if copy(l.sum[:], sum) != len(l.sum) && f.Err() == nil {
		return fmt.Errorf("digest of %d octets, want %d", len(sum), len(l.sum))
	}
	return f.Err()
}

// damaged is the error for a stored value that cannot be read. It does not wrap the
// error of p1, which would blame the peer.
func damaged(err error) error { return errors.New("cred: stored chain: " + err.Error()) }
