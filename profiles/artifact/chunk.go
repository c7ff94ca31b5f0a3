package artifact

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// chunk serves an ART_CHUNK of an upload.
func (s *Service) chunk(req *profiles.Request, w profiles.Responder) error {
	var m Chunk
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	id := string(m.ArtifactID)
	s.inherits(req, id)
	identity := req.Identity()
	name, err := nameOf(id, identity)
	if err != nil {
		return err
	}
	part := profiles.Subject{Operation: "chunk", Name: id, Part: !m.IsTerminal}
	if m.IsTerminal {
		part.Before = m.Offset
	}
	req.Exchange.About(part)
	switch {
	case s.opts.Store == nil:
		return errUnknown
	case !s.opts.Access.Allowed(identity, s.profile.Name, "offer", id):
		return errHidden
	}
	up, err := s.lockUploads(w.Context(), name)
	if err != nil {
		return err
	}
	if up == nil {
		s.uploads.mu.Unlock()
		return s.after(name, &m, w)
	}
	defer s.uploads.mu.Unlock()
	switch fault := up.fits(&m); {
	case fault == nil:
	case m.IsTerminal && fault == errSize:
		return s.discard(up, req)
	default:
		return fault
	}
	if up.waiting >= s.limits.Load().Window {
		return errWindow
	}
	held, w, err := req.Hold()
	if err != nil {
		return err
	}
	index, terminal := m.ChunkIndex, m.IsTerminal
	_ = m.Decode(held.Payload) // again, from the copy
	s.enter(up)
	up.next++
	up.end += uint64(len(m.Data))
	up.sealing = terminal
	answer := func(err error) {
		if err != nil {
			w.Fail(err)
			return
		}
		_ = w.Finish(ackAnswer([]byte(id), index)) // fails if the peer has disconnected
	}
	s.opts.Store.Append(name, m.Offset, up.next, m.Data, func(wrote bool, err error) {
		switch {
		case err != nil:
			s.uploads.finish(up, true)
			answer(unavailable(err))
		case !wrote:
			// An earlier chunk has failed.
			s.uploads.finish(up, true)
			answer(errOrdering)
		case terminal:
			s.seal(up, answer)
		default:
			s.uploads.finish(up, false)
			answer(nil)
		}
	})
	return nil
}

// lockUploads locks mu, unless there is an error, and returns an upload, entered or not; nil without one.
// The store may wait, so it is asked before. If the upload goes on in between, the store refuses the next
// chunk.
func (s *Service) lockUploads(ctx context.Context, name string) (*upload, error) {
	s.uploads.mu.Lock()
	if up := s.uploads.live[name]; up != nil {
		return up, nil
	}
	s.uploads.mu.Unlock()
	p, found, err := s.opts.Store.Part(ctx, name)
	if err != nil {
		return nil, unavailable(err)
	}
	var stored *upload
	if found {
		t, err := decodeTag(p.Tag)
		if err != nil {
			return nil, err
		}
		stored = &upload{name: name, tag: t, rank: rankOf(0, p.Tag), next: p.Mark, end: p.Held, begun: true}
	}
	s.uploads.mu.Lock()
	if up := s.uploads.live[name]; up != nil {
		return up, nil
	}
	return stored, nil
}

// after answers a chunk without an upload. It may repeat the known end of a complete artifact: an uploader
// that learned from the ACK of its OFFER that all octets are stored may continue with this chunk.
func (s *Service) after(name string, m *Chunk, w profiles.Responder) error {
	b, found, err := s.opts.Store.Blob(w.Context(), name)
	switch {
	case err != nil:
		return unavailable(err)
	case found && m.IsTerminal && len(m.Data) == 0 && m.Offset == b.Size && m.ChunkIndex == b.Mark:
		return w.Finish(ackAnswer(m.ArtifactID, m.ChunkIndex))
	}
	return errUnknown
}

// enter counts one more operation in progress. The caller holds mu.
func (s *Service) enter(up *upload) {
	up.waiting++
	s.uploads.live[up.name] = up
}

var (
	errOrdering = domain(with(DetailOrdering, refuse(CodeOrdering, "chunk_index is not the next one; an equal offer tells which is")))
	errSize     = with(DetailSize, refuse(CodeSizeMismatch, "the octets are not as many as were offered"))
	errOffset   = with(DetailOffset, refuse(CodeInvalidOffset, "offset is not where the chunk before has ended"))
	errDigest   = with(DetailHash, refuse(CodeIntegrity, "the octets are not those of the hash; they were discarded"))
)

// fits reports whether a chunk is the next one of an upload.
func (up *upload) fits(m *Chunk) error {
	left := up.tag.size - up.end
	switch n := uint64(len(m.Data)); {
	case up.broken || up.sealing || m.ChunkIndex != up.next:
		return errOrdering
	case m.Offset != up.end:
		return errOffset
	case n > left, m.IsTerminal && n < left:
		return errSize
	}
	return nil
}

// seal verifies the artifact and makes it visible, and ends its operation in progress. The caller does not
// hold mu.
func (s *Service) seal(up *upload, answer func(error)) {
	if up.rank != 0 {
		b, found, err := s.opts.Store.Blob(s.ctx, up.name)
		switch {
		case err != nil:
			s.uploads.finish(up, true)
			answer(unavailable(err))
			return
		case !found || rankOf(b.Version, b.Tag) != up.rank:
			// Its rank would take the place of an artifact that has become the first since.
			s.opts.Store.Discard(up.name, func(bool, error) {
				s.uploads.finish(up, true)
				answer(errReplaced)
			})
			return
		}
	}
	s.opts.Store.Seal(up.name, up.tag.sum, s.limits.Load().Retention, func(sealed bool, err error) {
		s.uploads.finish(up, err != nil || !sealed)
		switch {
		case err != nil:
			answer(unavailable(err))
		case !sealed:
			answer(errDigest)
		default:
			answer(nil)
		}
	})
}

// discard ends an upload whose last chunk has the wrong size. The caller holds mu.
func (s *Service) discard(up *upload, req *profiles.Request) error {
	_, w, err := req.Hold()
	if err != nil {
		return err
	}
	s.enter(up)
	up.broken = true
	s.opts.Store.Discard(up.name, func(_ bool, err error) {
		s.uploads.finish(up, true)
		if err != nil {
			w.Fail(unavailable(err))
			return
		}
		w.Fail(errSize)
	})
	return nil
}
