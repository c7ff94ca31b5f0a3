package artifact

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// downloads counts the GETs that are being answered.
type downloads struct {
	mu     sync.Mutex
	places fair.Shares
	closed bool
	work   sync.WaitGroup
}

// enter counts one more, unless a bound is reached. Identities share the places.
func (d *downloads) enter(o *Options, identity string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.places.Exceeds(identity, 1, o.DownloadsPerIdentity, profiles.Asserters(o.Access)) {
		return errDownloads
	}
	d.places.Bound(o.Downloads)
	if fault := d.places.Take(identity, 1).Refuse(errDownloads); fault != nil {
		return fault
	}
	d.work.Add(1)
	return nil
}

// leave undoes enter.
func (d *downloads) leave(identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.places.Give(identity, 1)
	d.work.Done()
}

// Pools returns who uses the downloads, and the reads of octets and listings.
func (s *Service) Pools() []fair.Pool {
	s.downloads.mu.Lock()
	defer s.downloads.mu.Unlock()
	s.downloads.places.Bound(s.limits.Load().Downloads)
	return []fair.Pool{s.downloads.places.Pool("artifact downloads"), s.reads.Pool("artifact reads"), s.lists.Pool("artifact listings")}
}

// close refuses new downloads, and waits for the current ones.
func (d *downloads) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.work.Wait()
}

// get serves an ART_GET.
func (s *Service) get(req *profiles.Request) error {
	var m Get
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("get", string(m.ArtifactID))
	if s.opts.Store == nil {
		return errUnknown
	}
	identity := req.Identity()
	if err := s.downloads.enter(s.limits.Load(), identity); err != nil {
		return err
	}
	held, w, err := req.Hold()
	if err != nil {
		s.downloads.leave(identity)
		return err
	}
	go func() {
		defer s.downloads.leave(identity)
		w.Fail(s.answerHeld(identity, held, w))
	}()
	return nil
}

// answerHeld answers the copy of a GET, until the peer disconnects or this endpoint stops.
func (s *Service) answerHeld(identity string, req *profiles.Request, w profiles.Responder) error {
	ctx, cancel := context.WithCancelCause(w.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()
	var m Get
	err := m.Decode(req.Payload)
	if err == nil {
		err = s.answer(ctx, identity, &m, w)
	}
	if err != nil && s.ctx.Err() != nil && w.Context().Err() == nil {
		return errEnding
	}
	return err
}

// found is an artifact that a peer may get.
type found struct {
	name    string // in the store
	version uint64
	tag     tag
}

// find returns the artifact of an artifact_id for an identity, for an answer by w: its own, else the one that
// was completed first, or replaces that. An artifact that it may not get is errUnknown, like an absent one.
func (s *Service) find(ctx context.Context, identity, id string, w profiles.Responder) (*found, error) {
	own, err := nameOf(id, identity)
	if err == nil {
		switch b, ok, err := s.opts.Store.Blob(ctx, own); {
		case err != nil:
			return nil, unavailable(err)
		case ok:
			t, err := decodeTag(b.Tag)
			return &found{own, b.Version, t}, err
		}
	}
	if !profiles.Allowed(w, s.opts.Access, identity, s.profile.Name, "get", id) {
		return nil, errHidden
	}
	var first *found
	var rank uint64
	var bad error
	err = s.opts.Store.Scan(ctx, allOf(id), "", func(b store.BlobInfo) bool {
		if own := rankOf(b.Version, b.Tag); first == nil || own < rank {
			first, rank = &found{name: b.Name, version: b.Version}, own
			first.tag, bad = decodeTag(b.Tag)
		}
		return bad == nil
	})
	switch {
	case err != nil:
		return nil, unavailable(err)
	case bad != nil:
		return nil, bad
	case first == nil:
		return nil, errUnknown
	}
	return first, nil
}

var errRange = domain(with(DetailRange, refuse(CodeInvalidRange, "the range begins beyond the artifact, or behind its own end")))

// span returns the octets that a GET requests.
func (s *Service) span(m *Get, t *tag) (start, end uint64, err error) {
	start, end = m.Start, m.End
	if len(m.ResumeToken) > 0 {
		if start, err = s.readToken(m.ResumeToken, m.ArtifactID, t); err != nil {
			return 0, 0, err
		}
	}
	if start > t.size || end != 0 && start > end {
		return 0, 0, errRange
	}
	if end == 0 || end > t.size {
		end = t.size
	}
	return start, end, nil
}

// answer sends the chunks of a GET. No chunk is the terminal answer, because a terminal
// answer could not be retried. An error is for the sender of the GET.
func (s *Service) answer(ctx context.Context, identity string, m *Get, w profiles.Responder) error {
	a, err := s.find(ctx, identity, string(m.ArtifactID), w)
	if err != nil {
		return err
	}
	at, end, err := s.span(m, &a.tag)
	if err != nil {
		return err
	}
	chunk := s.limits.Load().Chunk
	for index := uint64(0); ; index++ {
		if err := w.Pace(ctx, chunk); err != nil {
			return err
		}
		n := min(uint64(chunk), end-at)
		last := at+n == end // an empty range also has one chunk
		if err := s.send(ctx, identity, a, &Chunk{ArtifactID: m.ArtifactID, ChunkIndex: index, Offset: at}, int(n), last, w); err != nil || last {
			return err
		}
		at += n
	}
}

// carriers are buffers for chunks being sent.
var carriers = sync.Pool{New: func() any { return new(carrier) }}

// send reads the octets of one chunk for an identity and sends it. last says that it ends the range.
func (s *Service) send(ctx context.Context, to string, a *found, c *Chunk, n int, last bool, w profiles.Responder) error {
	buf := carriers.Get().(*carrier) //nolint:errcheck // the pool holds nothing else
	defer carriers.Put(buf)
	c.Data = buf.room(n)
	if n > 0 {
		if err := s.reads.Take(ctx, to); err != nil {
			return err
		}
		got, ok, err := s.opts.Store.ReadAt(ctx, a.name, a.version, c.Data, c.Offset)
		s.reads.Give(to)
		switch {
		case err != nil:
			return unavailable(err)
		case !ok || got < n:
			return errChanged
		}
	}
	after := c.Offset + uint64(n)
	if c.IsTerminal = after == a.tag.size; !c.IsTerminal {
		c.ResumeToken = s.appendToken(nil, c.ArtifactID, &a.tag, after)
	}
	return sendPatiently(ctx, w, e1.Envelope{MsgType: TypeChunk, Payload: buf.payload(c)}, last)
}

// sendPatiently sends a chunk when there is room for it. last says that it ends the range.
func sendPatiently(ctx context.Context, w profiles.Responder, env e1.Envelope, last bool) error {
	send := w.Send
	if last {
		send = func(env e1.Envelope) error { return profiles.SendLast(w, env) }
	}
	for {
		err := send(env)
		var fault *profiles.Error
		if !errors.As(err, &fault) || !fault.Pace {
			return err
		}
		// Other exchanges have used up the queue.
		if err := backoff.Wait(ctx, retryEvery); err != nil {
			return err
		}
	}
}

const retryEvery = 50 * time.Millisecond
