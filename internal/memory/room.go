package memory

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Room is what one message of a peer may hold while it is read. It is taken as a whole, before
// the octets that need it are read; memory is allocated only for octets that have arrived. The
// zero value is a Room without octets, and can be used again after Give and Keep. A Room is
// used by one goroutine at a time.
//
// Something always completes:
//
//   - The reader of a message that has its Room waits for no other octets of the budget. The
//     Room ends with the message, or at the deadline of the reader.
//   - A reader that waits for a Room holds its first octets at most. They are of Size Opening,
//     which has a quarter of the budget, so no number of them takes the place of a Room of up to
//     five eighths of it. Those of an answer are of Size Little, and do not wait for them. A Room
//     that the budget could not have alone is refused at once.
//   - When a Room ends, the next goes to a message that answers a call (Wait.Answer), otherwise to
//     the identity that holds least, and among its readers to the first. No other reader passes
//     that one as long as Rooms are open whose end makes room for it. If it waits for octets of
//     another kind, the others pass.
//   - What is done with a message that was read needs no second Room: Keep makes the octets those
//     of the message.
//   - A request that was kept may wait for the answer of a server or a partner to which it was
//     passed on, and for its own answer to be written. So Rooms of requests leave an eighth of the
//     budget to answers besides the sixteenth of small messages: one sixteenth is for Rooms of
//     answers that arrive, the last one for answers that are written. However many requests are
//     kept, an answer of up to a sixteenth of the budget has its Room when those before it have
//     ended. The caller passes it on, without waiting for a Room, or gives it up. The
//     answer to a request that is held may have the octets of that request (Share.Swap, Hold.Answer).
//   - An answer that is written ends then, or at the deadline for that.
//
// So octets are waited for in the order Opening, Room of a request, Room of an answer, answer that
// is written, and those at the end of the order wait for peers only, each with a deadline. One kind
// of wait remains: octets of messages that were kept, for as long as their handlers have.
//
// A peer may also stall. While others wait, a message loses its Room if nothing has arrived for 5 s.
// After a reader has waited 5 s, a message that needs another 10 s at its pace loses its Room,
// too, if its identity still has as much as the identity of the reader will have. Its reader is
// woken by Wait.Reader, and asks Yielded.
type Room struct {
	share *Share
	n     int

	// While it is waited for.
	want    int
	answer  bool
	arrived int64 // when, in Budget time
	granted chan struct{}

	// While its message is read.
	reader  Reader
	yielded atomic.Bool
	since   int64        // when the message began
	total   int64        // octets that had not arrived then
	left    atomic.Int64 // octets that have not arrived
	moved   atomic.Int64 // when the latest arrived
}

// Wait says how a Room is waited for.
type Wait struct {
	// Most is how long. Zero: not at all.
	Most time.Duration

	// Gone is called once a second while the Room is waited for. An error ends that. May be nil.
	Gone func() error

	// Reader is woken when the Room is taken back. Nil: it is not taken back.
	Reader Reader

	// Answer says that the message answers a call. The caller may hold octets until then.
	Answer bool
}

// Reader is the source of a message. A deadline in the past wakes its reader; it is set by another
// goroutine and may be late.
type Reader interface {
	SetReadDeadline(t time.Time) error
}

const (
	// look is the time between two looks at those that wait.
	look = time.Second

	// stall is how long nothing arrives of a message that gives way, and how long a reader waits
	// before messages that are slow give way.
	stall = 5 * time.Second

	// slow is the time that a slow message still needs.
	slow = 10 * time.Second
)

// rooms are the rooms of a budget. Its mu guards them.
type rooms struct {
	open    map[*Room]struct{}
	octets  int      // of all that are open
	waiting []*Share // whose readers wait
	wanted  atomic.Int32
	pressed int64 // the last look
	epoch   time.Time
}

func (r *rooms) now() int64 { return int64(time.Since(r.epoch)) }

// ErrFull is the error for octets for which there is no room.
var ErrFull = errors.New("memory: too many octets in flight")

// Take takes n octets of a share for a message of which left octets have not arrived. It waits as w
// says, until ctx ends. The error is ErrFull, that of Gone, or the cause of ctx.
func (r *Room) Take(ctx context.Context, s *Share, n, left int, w Wait) error {
	b := s.b
	b.mu.Lock()
	r.share, r.want, r.answer, r.reader, r.arrived, r.granted = s, n, w.Answer, w.Reader, b.rooms.now(), nil
	if len(s.waiting) == 0 {
		b.rooms.waiting = append(b.rooms.waiting, s)
		b.rooms.wanted.Add(1)
	}
	s.enqueue(r)
	b.serve()
	var err error
	if r.n == 0 && w.Most > 0 && n <= b.alone() {
		r.granted = make(chan struct{})
		b.mu.Unlock()
		err = r.wait(ctx, w)
		b.mu.Lock()
	}
	if r.n == 0 {
		r.leave()
		b.mu.Unlock()
		return cmp.Or(err, ErrFull)
	}
	if err != nil && !errors.Is(err, ErrFull) { // it was granted too late
		r.end(false)
		b.mu.Unlock()
		return err
	}
	r.begin(left)
	b.mu.Unlock()
	b.large(n)
	return nil
}

func (r *Room) wait(ctx context.Context, w Wait) error {
	most := time.NewTimer(w.Most)
	defer most.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-r.granted:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-most.C:
			return ErrFull
		case <-tick.C:
			if w.Gone != nil {
				if err := w.Gone(); err != nil {
					return err
				}
			}
			r.share.b.press()
		}
	}
}

// enqueue adds a reader to those that wait: answers are before requests. The caller holds mu.
func (s *Share) enqueue(r *Room) {
	at := len(s.waiting)
	for r.answer && at > 0 && !s.waiting[at-1].answer {
		at--
	}
	s.waiting = slices.Insert(s.waiting, at, r)
}

// leave ends the waiting of a Room that was not granted. The caller holds mu.
func (r *Room) leave() {
	s, b := r.share, r.share.b
	s.waiting = slices.DeleteFunc(s.waiting, func(o *Room) bool { return o == r })
	b.unlist(s)
	s.forget()
	b.serve() // it may have been in front of others
}

// unlist removes a share without waiting readers from the list of those that have some.
func (b *Budget) unlist(s *Share) {
	if len(s.waiting) == 0 {
		b.rooms.waiting = slices.DeleteFunc(b.rooms.waiting, func(o *Share) bool { return o == s })
		b.rooms.wanted.Store(int32(len(b.rooms.waiting)))
	}
}

// Octets returns the octets of the Room, 0 if it has none.
func (r *Room) Octets() int { return r.n }

// begin is called when the first octets of a message have arrived. The caller holds mu.
func (r *Room) begin(left int) {
	r.since, r.total = r.share.b.rooms.now(), int64(left)
	r.moved.Store(r.since)
	r.left.Store(r.total)
}

// Progress notes how many octets of the message have not arrived. A larger number begins the next
// message.
func (r *Room) Progress(left int) {
	if int64(left) > r.left.Load() {
		r.share.b.mu.Lock()
		r.begin(left)
		r.share.b.mu.Unlock()
		return
	}
	r.left.Store(int64(left))
	r.moved.Store(r.share.b.rooms.now())
}

// Yielded reports whether the Room is taken back: its reader gives up the message, and the Room.
func (r *Room) Yielded() bool { return r.yielded.Load() }

// Wanted reports whether a Room without a message should be given: others wait, or it is one for
// an answer, which no request gets.
func (r *Room) Wanted() bool { return r.n > 0 && (r.answer || r.share.b.rooms.wanted.Load() > 0) }

// Give gives the octets back.
func (r *Room) Give() {
	if r.n == 0 {
		return
	}
	b := r.share.b
	b.mu.Lock()
	defer b.mu.Unlock()
	r.end(false)
}

// Keep ends the Room without giving its octets back, and returns their number: the message was read,
// and has them until Share.Give returns them as Large ones.
func (r *Room) Keep() int {
	n := r.n
	if n == 0 {
		return 0
	}
	b := r.share.b
	b.mu.Lock()
	defer b.mu.Unlock()
	r.end(true)
	return n
}

// end closes a Room. The caller holds mu.
func (r *Room) end(keep bool) {
	s, b, n := r.share, r.share.b, r.n
	delete(b.rooms.open, r)
	b.rooms.octets -= n
	s.rooms -= n
	r.n, r.reader = 0, nil
	if keep {
		return
	}
	s.give(n, Large)
	s.forget()
	b.wake()
}

// fits reports whether an identity may have a Room when so many octets are in use, and so many of
// them Large, and the identity has mine.
func (b *Budget) fits(r *Room, used, large, mine int) bool {
	free := b.limit - used - r.want
	least := b.limit / 16 // for small messages
	switch {
	case large == 0:
	case r.answer:
		least *= 2
	default:
		least *= 3
	}
	return free >= least && mine+r.want <= 7*free
}

// alone is the largest Room that can be had when nothing else is in use. The caller holds mu.
func (b *Budget) alone() int { return b.limit / 8 * 7 }

// serve grants rooms to those that wait. The caller holds mu.
func (b *Budget) serve() {
	w := &b.rooms
again:
	if len(w.waiting) == 0 {
		return
	}
	if len(w.waiting) > 1 {
		slices.SortFunc(w.waiting, func(x, y *Share) int {
			if a := x.waiting[0].answer; a != y.waiting[0].answer {
				if a {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(x.all(), y.all()), cmp.Compare(x.waiting[0].arrived, y.waiting[0].arrived))
		})
	}
	for _, s := range w.waiting {
		r := s.waiting[0]
		if b.fits(r, b.used, b.of[Large], s.all()) {
			b.grant(s, r)
			goto again
		}
		if b.fits(r, b.used-w.octets, b.of[Large]-w.octets, s.all()-s.rooms) {
			return // when open rooms have ended
		}
	}
}

// grant gives the first waiting reader of a share its Room.
func (b *Budget) grant(s *Share, r *Room) {
	if len(s.waiting) == 1 {
		s.waiting = s.waiting[:0]
		b.unlist(s)
	} else {
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
	r.n = r.want
	r.yielded.Store(false)
	r.left.Store(0) // until its reader knows
	b.rooms.open[r] = struct{}{}
	b.rooms.octets += r.n
	s.rooms += r.n
	s.take(r.n, Large)
	if r.granted != nil {
		close(r.granted)
	}
}

// press takes rooms of stalled messages back, because others wait.
func (b *Budget) press() {
	var told []Reader
	b.mu.Lock()
	now := b.rooms.now()
	if len(b.rooms.waiting) == 0 || now-b.rooms.pressed < int64(look/2) {
		b.mu.Unlock()
		return
	}
	b.rooms.pressed = now
	s := b.rooms.waiting[0] // in order since serve
	first := s.waiting[0]
	var slowest *Room
	most := int64(slow)
	for r := range b.rooms.open {
		if r.reader == nil || r.left.Load() <= 0 {
			continue
		}
		if r.Yielded() || now-r.moved.Load() >= int64(stall) {
			r.yielded.Store(true)
			told = append(told, r.reader)
			continue
		}
		if r.share.all()-r.n >= s.all()+first.want {
			if d := r.remaining(now); d > most {
				slowest, most = r, d
			}
		}
	}
	if slowest != nil && len(told) == 0 && now-first.arrived >= int64(stall) {
		slowest.yielded.Store(true)
		told = append(told, slowest.reader)
	}
	b.mu.Unlock()
	for _, reader := range told {
		_ = reader.SetReadDeadline(time.Unix(1, 0))
	}
}

// remaining is how long a message still needs at its pace.
func (r *Room) remaining(now int64) int64 {
	left, spent := r.left.Load(), now-r.since
	came := r.total - left
	if came <= 0 {
		return math.MaxInt64
	}
	return int64(float64(spent) / float64(came) * float64(left))
}
