package sharedblobs

import (
	"crypto/sha256"
	"errors"
	"math"
	"time"
)

// Seal implements store.Blobs. It reads the octets that are not in full segments; the digest
// of the others was computed when they were copied from the medium to these.
func (s *Store) Seal(name string, sum [32]byte, keep time.Duration, done func(sealed bool, err error)) {
	s.submit(name, "", 0, operation{do: func(t *turn) (bool, error) {
		part := t.entry.live(s.clock.Now())
		if part == nil {
			return false, nil
		}
		return t.seal(part, sum, keep)
	}}, done)
}

func (t *turn) seal(part *content, sum [32]byte, keep time.Duration) (bool, error) {
	s, next := t.s, *part
	next.written, next.expires, next.idle = s.clock.Now(), s.clock.After(keep), 0
	old := t.entry.blob
	var removed []*content
	if old != nil {
		removed = append(removed, old)
	}
	claim, err := t.claimOnce(part.owner, nothing, next.expires, func(l *ledger) {
		l.versions++
		next.version = l.versions
	}, removed...)
	if err != nil {
		return false, err
	}
	same, left, err := claim.verify(&next, sum)
	switch {
	case errors.Is(err, errOctets):
		return false, t.discardDamaged(claim, err)
	case err == nil && !same:
		_ = claim.end(errDigest, nil)
		_, err = t.discard()
		return false, err
	case err == nil:
		err = t.replace(nil, &next)
	}
	err = claim.end(err, left, removed...)
	if err == nil {
		s.repaired(t.name)
	}
	return err == nil, err
}

// errDigest ends the claim of a part whose octets have another digest.
var errDigest = errors.New("the octets have another digest")

// discardDamaged discards a part whose octets are damaged or missing, so that the upload can
// start again.
func (t *turn) discardDamaged(c *claim, why error) error {
	t.s.notice("%q: %v: the part is discarded", t.name, why)
	_ = c.end(why, nil)
	_, err := t.discard()
	return err
}

// verify reports whether the octets of a part have a digest, and makes one tail of all.
func (c *claim) verify(part *content, want [32]byte) (same bool, left []string, err error) {
	if left, err = c.merge(part); err != nil {
		return false, nil, err
	}
	digest, err := part.digest()
	if err != nil {
		return false, nil, err
	}
	start := uint64(part.full) * fullSize
	if part.full == 0 {
		start = uint64(part.note)
	}
	if len(part.tail) > 1 {
		if left, err = c.join(part, 0, left); err != nil {
			return false, nil, err
		}
	}
	err = c.t.read(part, start, math.MaxUint64, func(data []byte) { _, _ = digest.Write(data) })
	if err != nil {
		return false, nil, err
	}
	part.hash = nil
	return [sha256.Size]byte(digest.Sum(nil)) == want, left, nil
}

// Remove implements store.Blobs.
func (s *Store) Remove(name string, was uint64, done func(removed bool, err error)) {
	s.submit(name, "", 0, operation{do: func(t *turn) (bool, error) {
		blob := t.entry.blob
		if blob == nil || was != 0 && blob.version != was {
			return false, nil
		}
		removed, err := t.remove(blob, t.entry.part, nil)
		if removed {
			s.repaired(name)
		}
		return removed, err
	}}, done)
}

// repaired forgets that a blob was damaged.
func (s *Store) repaired(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.damaged, name)
}
