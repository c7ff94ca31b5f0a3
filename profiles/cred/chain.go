package cred

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/slimwire/swp/profiles"
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

	told []telling // to whom its octets were sent, and who does not know yet of its revocation

	// gone are the digests of the tokens of a revoked chain. The last others of them are
	// revoked for other owners too.
	gone   []string
	others int

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
	c.kind, c.nonce, c.made, c.kept, c.links, c.told = kind, string(nonce), now, 0, []link{*first}, nil
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
	if c.kind == JWT {
		for i := range c.links {
			c.gone = append(c.gone, string(c.links[i].sum[:]))
		}
		c.others = len(c.links) - c.mine()
	}
	c.revoked, c.links = true, nil
}

// mine returns the place of the first token that its owner may revoke for everybody: one of
// which it is the issuer or the subject, or a first credential that is its own. It may
// revoke those after it, too, because they derive from it. A caller that a peer asserts may
// not, because the peer has other callers.
func (c *chain) mine() int {
	if profiles.For(c.owner) != "" {
		return len(c.links)
	}
	for i := range c.links {
		l := &c.links[i]
		if l.subject == c.owner || l.issuer == c.owner || i == 0 && (l.bearer || l.leaf != "") {
			return i
		}
	}
	return len(c.links)
}

// tokens yields the digests of the tokens of a revoked chain, and whether they are revoked
// for other owners too.
func (c *chain) tokens() iter.Seq2[[sha256.Size]byte, bool] {
	return func(yield func([sha256.Size]byte, bool) bool) {
		for i, sum := range c.gone {
			if !yield([sha256.Size]byte([]byte(sum)), i >= len(c.gone)-c.others) {
				return
			}
		}
	}
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
	for _, sum := range c.gone {
		dst = p1.AppendBytes(dst, 9, sum)
	}
	dst = p1.AppendUint(dst, 10, uint64(c.others))
	for i := range c.told {
		dst = p1.AppendBytes(dst, 11, c.told[i].encode())
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
	var others uint64
	err := p1.Scan(value, &c.owner, &c.id, &c.kind, &c.nonce, &c.made, &c.revoked, &c.buried, func(message []byte) error {
		c.links = append(c.links, link{})
		return c.links[len(c.links)-1].decode(message)
	}, &c.gone, &others, func(message []byte) error {
		c.told = append(c.told, telling{})
		to := &c.told[len(c.told)-1]
		return p1.Scan(message, &to.peer, &to.caller)
	})
	c.others = int(min(others, maxDepth))
	size := func(sum string) bool { return len(sum) != sha256.Size }
	c.kept = len(c.links)
	switch {
	case err != nil:
		return damaged(err)
	case slices.ContainsFunc(c.gone, size) || len(c.gone) > maxDepth || c.others > len(c.gone):
		return errors.New("cred: stored chain: digests of revoked tokens")
	case len(c.nonce) != nonceSize || c.revoked != (len(c.links) == 0) || len(c.links) > maxDepth || len(c.told) > maxTold:
		return fmt.Errorf("cred: stored chain: nonce of %d octets, %d links, revoked %v", len(c.nonce), len(c.links), c.revoked)
	}
	return nil
}

func (l *link) decode(message []byte) error {
	var sum []byte
	err := p1.Scan(message, &sum, &l.issuer, &l.subject, &l.scopes, &l.key, &l.leaf, &l.bearer, &l.expires, &l.until, &l.endless, &l.said)
	if copy(l.sum[:], sum) != len(l.sum) && err == nil {
		return fmt.Errorf("digest of %d octets, want %d", len(sum), len(l.sum))
	}
	return err
}

// damaged is the error for a stored value that cannot be read. It does not wrap the
// error of p1, which would blame the peer.
func damaged(err error) error { return errors.New("cred: stored chain: " + err.Error()) }
