package mcpfront

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
)

// feed is one ordered stream of messages to the client of a session: those of one POST, or,
// with number 0, those of the GET stream. A message has the event id "<number>-<place>";
// places count from 1. A client that reconnects with the last id that it received gets the
// later messages.
type feed struct {
	n      uint64
	last   uint64  // place of the newest message
	read   uint64  // up to this place all has been written to the client
	lost   uint64  // messages up to this number may be gone
	unread int     // octets above read
	reader *reader // the one that writes it to the client now
	told   bool    // the client has seen an id, so it can come back
	over   bool    // no message follows
	status int     // HTTP status of the last message, if it is the only one
}

// reader is one HTTP response that writes a feed.
type reader struct{ left chan struct{} } // closed when another one takes its place

// entry is a message of a feed.
type entry struct {
	feed   *feed
	place  uint64
	octets []byte
	paid   bool // its octets are counted in held
}

// Bounds of messages queued for a client.
const (
	maxUnread       = 1 << 20 // octets of a feed that is being written, beyond which its source waits
	maxUnreadEvents = 256
	maxAway         = 256 // messages for a GET stream that is not there
	storedSessions  = 64  // Options.MaxStored times this is what the sessions of all callers share
)

var (
	errStreams = errors.New("mcpfront: too many exchanges of this session")
	errDropped = errors.New("mcpfront: the session has ended")
)

// openFeed begins the feed of a call, which counts as work until the caller calls
// work.Done. It fails if there are too many, or the session has ended.
func (s *frontSession) openFeed() (*feed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dropped:
		return nil, errDropped
	case len(s.feeds) > s.f.opts.MaxStreams:
		return nil, errStreams
	}
	s.work.Add(1)
	s.feedsMade++
	fd := &feed{n: s.feedsMade}
	s.feeds[fd.n] = fd
	return fd, nil
}

// append adds a message to a feed. While a client is reading and slow, it waits.
func (s *frontSession) append(fd *feed, octets []byte) (kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for fd.reader != nil && (fd.unread > maxUnread || fd.last-fd.read >= maxUnreadEvents) && s.ctx.Err() == nil {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.ctx.Done():
		}
		s.mu.Lock()
	}
	if fd.n == 0 && fd.reader == nil && fd.last-fd.read >= maxAway || !s.pay(len(octets)) {
		s.f.counts.dropped.Add(1)
		return false
	}
	s.put(fd, octets, true)
	return true
}

// finish adds the last message of a feed, if there is one, and its HTTP status. If there is no
// room for the answer to the request with an id, an error replaces it.
func (s *frontSession) finish(fd *feed, id []byte, status int, octets []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd.status, fd.over = status, true
	if octets == nil {
		s.wake()
		return
	}
	paid := s.pay(len(octets))
	if !paid {
		s.f.counts.dropped.Add(1)
		octets, fd.status = s.f.failure(id, errAnswer), http.StatusOK
	}
	s.put(fd, octets, paid)
}

// pay takes n octets for a message, for which old messages are given up if necessary. The
// caller holds mu.
func (s *frontSession) pay(n int) bool {
	for !s.held.Add(n) {
		if !s.giveUp() {
			return false
		}
	}
	return true
}

// put is called with mu held.
func (s *frontSession) put(fd *feed, octets []byte, paid bool) {
	if s.dropped && fd.reader == nil {
		if paid {
			s.held.Sub(len(octets))
		}
		return
	}
	fd.last++
	fd.unread += len(octets)
	s.entries = append(s.entries, entry{fd, fd.last, octets, paid})
	s.octets += int64(len(octets))
	s.f.stored.Add(s.caller, len(octets))
	s.makeRoom()
	s.wake()
}

// makeRoom gives up the oldest messages while there are too many, but for those
// that are on their way to a client. The caller holds mu.
func (s *frontSession) makeRoom() {
	o := &s.f.opts
	for len(s.entries) > o.MaxEvents || s.octets > o.MaxStored || s.f.stored.Over(s.caller) {
		if !s.giveUp() {
			return
		}
	}
}

// giveUp gives up the oldest message that is not on its way to a client, and reports whether
// there was one. The caller holds mu.
func (s *frontSession) giveUp() bool {
	i := slices.IndexFunc(s.entries, func(e entry) bool { return e.feed.reader == nil && !e.last() || e.place <= e.feed.read })
	if i < 0 {
		return false
	}
	e := s.entries[i]
	if e.place > e.feed.read {
		s.f.counts.dropped.Add(1)
		e.feed.unread -= len(e.octets)
	}
	e.feed.lost = e.place
	s.remove(i)
	return true
}

// last says whether it is the newest message of its feed: an unread message is kept
// at least until the next one.
func (e *entry) last() bool { return e.place == e.feed.last }

// remove forgets a message, and with its last message a feed. The caller holds mu.
func (s *frontSession) remove(i int) {
	e := s.entries[i]
	s.entries = slices.Delete(s.entries, i, i+1)
	s.unstore(e)
	s.forget(e.feed)
}

// unstore takes a message out of the figures. The caller holds mu.
func (s *frontSession) unstore(e entry) {
	s.octets -= int64(len(e.octets))
	s.f.stored.Add(s.caller, -len(e.octets))
	if e.paid {
		s.held.Sub(len(e.octets))
	}
}

// discard drops messages even if a client could still ask for them. The caller holds
// mu.
func (s *frontSession) discard(which func(entry) bool) {
	s.entries = slices.DeleteFunc(s.entries, func(e entry) bool {
		if !which(e) {
			return false
		}
		s.unstore(e)
		return true
	})
}

// forget gives up a feed of which nothing is left. The caller holds mu.
func (s *frontSession) forget(fd *feed) {
	if fd.over && fd.reader == nil && !slices.ContainsFunc(s.entries, func(e entry) bool { return e.feed == fd }) {
		delete(s.feeds, fd.n)
	}
}

// wake wakes the goroutines that wait for a change. The caller holds mu.
func (s *frontSession) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// claim makes r the reader of a feed. An earlier one ends: its client may be gone without a sign.
func (s *frontSession) claim(fd *feed, r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd.reader != nil {
		close(fd.reader.left)
	}
	fd.reader = r
}

// leave is called when r writes no more.
func (s *frontSession) leave(fd *feed, r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd.reader != r {
		return
	}
	fd.reader = nil
	if s.dropped || fd.over && fd.read == fd.last && !fd.told {
		s.discard(func(e entry) bool { return e.feed == fd })
	}
	s.forget(fd)
	s.makeRoom()
	s.wake()
}

// place finds where a client was, by the id of the last event that it saw.
func (s *frontSession) place(id string) (fd *feed, after uint64, err error) {
	first, second, ok := strings.Cut(id, "-")
	n, err1 := strconv.ParseUint(first, 10, 64)
	after, err2 := strconv.ParseUint(second, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return nil, 0, fmt.Errorf("mcpfront: Last-Event-ID %.32q is none of this server", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fd = s.feeds[n]
	if fd == nil || after > fd.last || after < fd.lost {
		return nil, 0, fmt.Errorf("mcpfront: the messages after event %.32q are no longer stored", id)
	}
	return fd, after, nil
}

// since returns the messages of a feed after a place.
func (s *frontSession) since(fd *feed, after uint64) (list []entry, over bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.feed == fd && e.place > after {
			list = append(list, e)
		}
	}
	return list, fd.over, s.changed
}

// wrote notes that the client has been sent everything up to a place.
func (s *frontSession) wrote(fd *feed, upTo uint64, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd.told = fd.told || told
	if upTo <= fd.read {
		return
	}
	for _, e := range s.entries {
		if e.feed == fd && e.place > fd.read && e.place <= upTo {
			fd.unread -= len(e.octets)
		}
	}
	fd.read = upTo
	s.makeRoom()
	s.wake()
}

// primedFrom is the first version in which a stream begins with an event without a message. Clients of
// earlier ones may take it for a message.
const primedFrom = "2025-11-25"

// primed reports whether streams of the session begin with an event without a message.
func (s *frontSession) primed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= primedFrom // both are dates
}

// serve writes a feed to a client, from a place on, until it is over or the client
// is gone. The response to a POST is one JSON document if the feed has no more than
// that to say and says it soon, unless the client prefers events.
func (s *frontSession) serve(w http.ResponseWriter, r *http.Request, fd *feed, me *reader, after uint64) {
	defer s.leave(fd, me)
	out := eventWriter{f: s.f, w: w}
	defer out.end()
	copies := s.f.opts.Memory.Hold(s.caller)
	defer copies.Release()
	stop := r.Context().Done()
	var draining <-chan struct{}
	if fd.n == 0 {
		draining = s.f.ctx.Done()
	}
	post, events := r.Method == http.MethodPost, prefersEvents(r)
	prime := s.primed()
	first := s.f.opts.KeepAlive
	if post && prime {
		first = min(first, s.f.opts.Soon)
	}
	alive := time.NewTicker(first)
	defer alive.Stop()
	begin := func() {
		if prime && !out.begun {
			out.prime(fmt.Sprintf("%d-%d", fd.n, after))
			s.wrote(fd, 0, true)
		}
	}
	if !post { // whoever opens a stream wants to know that it is open
		begin()
		if out.flush() != nil {
			return
		}
	}
	for {
		if ended(r.Context()) {
			return
		}
		list, over, changed := s.since(fd, after)
		if over && !s.open() {
			w.Header().Del(mcpheader.Session) // which initialize is answered with
		}
		if post && !out.begun && over && fd.last == 1 && len(list) == 1 && (!events || fd.status != http.StatusOK) {
			s.f.writeJSON(w, fd.status, list[0].octets)
			s.wrote(fd, 1, false)
			return
		}
		if len(list) > 0 {
			begin()
		}
		for _, e := range list {
			if !copies.Add(len(e.octets)) {
				return // the client may come back for it
			}
			out.add(fmt.Sprintf("%d-%d", fd.n, e.place), e.octets)
			after = e.place
		}
		if len(list) > 0 || over && !out.begun {
			if out.flush() != nil {
				s.wrote(fd, 0, true)
				return
			}
			copies.Clear()
			s.wrote(fd, after, len(list) > 0)
			alive.Reset(s.f.opts.KeepAlive)
			continue
		}
		if over {
			return
		}
		select {
		case <-changed:
		case <-alive.C:
			if prime && !out.begun {
				begin()
			} else {
				out.comment()
			}
			alive.Reset(s.f.opts.KeepAlive)
			if out.flush() != nil {
				return
			}
		case <-stop:
			return
		case <-me.left:
			return
		case <-draining:
			return
		case <-s.ctx.Done():
			if list, _, _ := s.since(fd, after); len(list) == 0 {
				return
			}
		}
	}
}
