package artifact

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// HashSHA256 is the one hash_alg, which is compared without regard to case.
const HashSHA256 = "sha256"

// checkHash refuses a hash_alg other than sha256 as one that is not supported.
func (m *Offer) checkHash() error {
	switch {
	case !bytes.EqualFold(m.HashAlg, []byte(HashSHA256)):
		return refuse(CodeUnsupportedHash, "hash_alg %.32q, want %s", m.HashAlg, HashSHA256)
	case len(m.Hash) != sha256.Size:
		return profiles.Errorf(profiles.InvalidProfilePayload, "artifact: hash: %d octets, want %d", len(m.Hash), sha256.Size)
	}
	return nil
}

// uploads are the uploads with pending operations of the store. The state of all others is
// in the store.
type uploads struct {
	mu   sync.Mutex
	live map[string]*upload // by name in the store
}

// upload is guarded by the mutex of uploads.
type upload struct {
	name    string
	tag     tag
	rank    uint64 // of the artifact that it replaces; 0: of none
	next    uint64 // index of the next chunk
	end     uint64 // where it begins
	waiting int    // operations in progress
	begun   bool   // the store has the part
	broken  bool   // one of them has failed, or will: later chunks are out of order
	sealing bool   // the last chunk has arrived
	offers  []func(error)
}

// add enters an upload with one operation in progress. The caller holds mu.
func (u *uploads) add(up *upload) *upload {
	up.waiting = 1
	u.live[up.name] = up
	return up
}

// finish ends one operation of an upload. After the last one the upload is removed, because
// the store has its state.
func (u *uploads) finish(up *upload, failed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up.broken = up.broken || failed
	if up.waiting--; up.waiting == 0 {
		delete(u.live, up.name)
	}
}

// offer serves an ART_OFFER.
func (s *Service) offer(req *profiles.Request, w profiles.Responder) error {
	var m Offer
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	identity, id := req.Identity(), string(m.ArtifactID)
	if !req.May(s.opts.Access, s.profile.Name, "offer", id) {
		return errDenied
	}
	s.offered(req, id)
	switch {
	case s.opts.Store == nil:
		return errStore
	case m.TotalSize > s.limits.Load().MaxSize:
		return with(DetailSize, refuse(CodeTooLarge, "total_size %d, want at most %d", m.TotalSize, s.limits.Load().MaxSize))
	case len(m.Metadata) > s.limits.Load().MaxMetadata:
		return with(DetailSize, refuse(CodeTooLarge, "metadata of %d octets, want at most %d", len(m.Metadata), s.limits.Load().MaxMetadata))
	}
	name, err := nameOf(id, identity)
	if err != nil {
		return err
	}
	t := tagOf(&m)
	up, err := s.lockUploads(w.Context(), name)
	switch {
	case err != nil:
		return err
	case up != nil && up.waiting > 0:
		defer s.uploads.mu.Unlock()
		return s.offerAgain(up, &t, req)
	case up != nil:
		return s.offerPart(up, &t, &m, w)
	}
	s.uploads.mu.Unlock()
	b, found, err := s.opts.Store.Blob(w.Context(), name)
	rank := uint64(0)
	switch {
	case err != nil:
		return unavailable(err)
	case found && t.is(b.Tag):
		// It is complete: there is nothing to send.
		return w.Finish(heldAnswer(m.ArtifactID, b.Mark, b.Size))
	case found:
		rank = rankOf(b.Version, b.Tag)
	}
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	if up := s.uploads.live[name]; up != nil {
		return s.offerAgain(up, &t, req)
	}
	up = s.uploads.add(&upload{name: name, tag: t, rank: rank, offers: []func(error){req.Defer()}})
	note := append([]byte{}, m.Metadata...)
	s.opts.Store.Begin(name, identity, t.size, t.encode(up.rank), note, s.limits.Load().Abandoned, func(made bool, err error) {
		s.began(up, made, err)
	})
	return nil
}

// began ends the OFFERs that waited until a part was made.
func (s *Service) began(up *upload, made bool, err error) {
	switch {
	case err != nil:
		err = unavailable(err)
	case !made:
		err = errSealing // the upload was removed and exists again: the next offer finds it
	}
	s.uploads.mu.Lock()
	offers := up.offers
	up.offers, up.begun = nil, true
	s.uploads.mu.Unlock()
	s.uploads.finish(up, err != nil)
	for _, done := range offers {
		done(err)
	}
}

// offerAgain handles an OFFER of an artifact that is being received now. The caller holds
// mu.
func (s *Service) offerAgain(up *upload, t *tag, req *profiles.Request) error {
	switch {
	case up.tag != *t:
		return errConflict()
	case up.begun || len(up.offers) >= maxOffers:
		return errSealing
	}
	up.offers = append(up.offers, req.Defer())
	return nil
}

// maxOffers is how many OFFERs may wait for one part to be made.
const maxOffers = 16

// offerPart handles an OFFER of an artifact that was received in part. The caller holds mu, which it
// unlocks.
func (s *Service) offerPart(up *upload, t *tag, m *Offer, w profiles.Responder) error {
	// All octets may be stored, if the connection or the process ended before they were verified.
	up.sealing = up.tag == *t && up.next != 0 && up.end == t.size
	if up.sealing {
		s.uploads.add(up)
	}
	s.uploads.mu.Unlock()
	switch {
	case up.tag != *t:
		return errConflict()
	case up.sealing:
		s.seal(up, func(error) {})
		return errSealing
	case up.next == 0:
		return nil // nothing is stored: the upload begins
	}
	return w.Finish(heldAnswer(m.ArtifactID, up.next, up.end))
}

func errConflict() error {
	return with(DetailConflict, refuse(CodeConflict, "another offer of this artifact_id is under way"))
}
