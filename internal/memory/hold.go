package memory

import (
	"cmp"
	"context"
	"io"
	"time"
)

// Hold is what one request holds of a Share. It is used by one goroutine at a time.
type Hold struct {
	share *Share
	used  [sizes]int
}

// Hold returns a Hold without octets, which keeps the share of an identity until Release.
func (b *Budget) Hold(identity string) *Hold { return &Hold{share: b.Share(identity)} }

// Add takes n octets if there is room for them.
func (h *Hold) Add(n int) bool {
	of := Of(n)
	if !h.share.Try(n, of) {
		return false
	}
	h.used[of] += n
	return true
}

// Answer is Add for the answer to the request, whose large octets it may have: they are no longer
// needed when it is there. It is called once.
func (h *Hold) Answer(n int) bool {
	if h.Add(n) {
		return true
	}
	of := Of(n)
	if !h.share.Swap("", h.used[Large], Large, n, of) {
		return false
	}
	h.used[Large] = 0
	h.used[of] += n
	return true
}

// Sub gives back n octets that one call of Add has taken.
func (h *Hold) Sub(n int) { h.give(n, Of(n)) }

func (h *Hold) give(n int, of Size) {
	h.used[of] -= n
	h.share.Give(n, of)
}

// Clear gives back everything.
func (h *Hold) Clear() {
	h.share.Give(h.used[Large], Large)
	h.share.Give(h.used[Little], Little)
	h.share.Give(h.used[Opening], Opening)
	h.used = [sizes]int{}
}

// Close ends the use of the share: nothing more is taken, and the rest is given back later.
func (h *Hold) Close() { h.share.Close() }

// Release is Clear and Close.
func (h *Hold) Release() {
	h.Clear()
	h.Close()
}

// first is the size of the first buffer of ReadAll.
const first = 4 << 10

// BodyWait is how long a body waits for room whose reader cannot see that its sender is gone.
const BodyWait = 5 * time.Second

// brief is a wait that needs no later deadline.
const brief = 10 * time.Millisecond

// Body is a body for ReadAll.
type Body struct {
	// Reader is the source. It must not keep the buffers that it is given.
	Reader io.Reader

	// Announced is how many octets there will be, -1 if that is unknown.
	Announced int64

	// Twice says that a copy of the body is made while it is held, as by a frame that passes inside
	// this process. Room for both is taken at once. Up to Small the copy is free.
	Twice bool

	// Wait is how long the body waits for room altogether. Zero means BodyWait.
	Wait time.Duration

	// Conn is the connection of Reader, whose read deadline ends a read. Nil: room for the body is
	// not taken back.
	Conn Reader

	// Answer says that the body answers a call of this side, see Wait.Answer.
	Answer bool

	// Check is called with the octets so far, before more are read. Its error ends ReadAll. May be nil.
	Check func(body []byte) error

	// Waited is called with the time for which the body has waited, before it is read on. May be nil.
	Waited func(time.Duration)
}

// ReadAll reads a body to its end. Room for a body of announced length is a Room: it is taken
// once, after the first octets, for which there is room of Size Opening. Room for a body of unknown
// length is taken by Share.Grow. Memory is allocated for octets that have arrived, and at most doubles
// with them. Without room ReadAll returns ErrFull. The caller owns the result. Other buffers that
// ReadAll has read into are lent again.
func (h *Hold) ReadAll(ctx context.Context, body Body) ([]byte, error) {
	body.Wait = cmp.Or(body.Wait, BodyWait)
	r := reading{h: h, body: &body}
	buf, err := r.read(ctx)
	h.used[Large] += r.room.Keep()
	if err != nil {
		h.share.b.Return(buf)
		if r.room.Yielded() {
			err = ErrFull
		}
		return nil, err
	}
	h.settle(r.paid, r.copies(cap(buf)))
	return buf, nil
}

// copies returns what is paid for a buffer of n octets.
func (r *reading) copies(n int) int {
	if r.body.Twice && Of(n) == Large {
		return 2 * n
	}
	return n
}

// settle charges a body for its buffer instead of the octets that were taken to read it.
func (h *Hold) settle(paid charge, n int) {
	if paid.n == 0 {
		return
	}
	of := Of(paid.n)
	if n > paid.n {
		n = paid.n
	}
	h.share.turn(paid.n, paid.of, n, of)
	h.used[paid.of] -= paid.n
	h.used[of] += n
}

// charge is a number of octets that were taken.
type charge struct {
	n  int
	of Size
}

// reading is a call of ReadAll.
type reading struct {
	h    *Hold
	body *Body
	upTo int    // the largest buffer that is paid for
	paid charge // in h
	room Room

	waited time.Duration
}

func (r *reading) read(ctx context.Context) (buf []byte, err error) {
	for {
		if len(buf) == cap(buf) {
			to := max(first, 2*cap(buf))
			if size := r.body.Announced; size >= int64(len(buf)) {
				to = int(min(int64(to), size+1)) // one more to see the end
			}
			if err := r.pay(ctx, to); err != nil {
				return buf, err
			}
			bigger := r.h.share.b.Lend(to)
			copy(bigger, buf)
			r.h.share.b.Return(buf)
			buf = bigger[:len(buf):to]
		}
		n, err := r.body.Reader.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if r.room.Octets() > 0 {
			r.room.Progress(max(0, int(r.body.Announced)-len(buf)))
		}
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		case r.room.Yielded():
			return buf, ErrFull
		case r.body.Check != nil:
			if err := r.body.Check(buf); err != nil {
				return buf, err
			}
		}
	}
}

// pay sees to it that a buffer of n octets is paid for.
func (r *reading) pay(ctx context.Context, n int) error {
	if n <= r.upTo {
		return nil
	}
	began := time.Now()
	wait := r.body.Wait - r.waited
	deadline := began.Add(wait)
	next, announced := charge{}, r.body.Announced
	upTo := n
	var ok bool
	switch share := r.h.share; {
	case r.paid.n == 0 && announced >= 0 && announced < Small:
		upTo = int(announced) + 1
		next = charge{upTo, Little}
		ok = share.Take(ctx, next.n, Little, deadline)
	case r.paid.n == 0:
		upTo = Small
		next = charge{Small, First(r.body.Answer)}
		ok = share.Take(ctx, Small, next.of, deadline)
	case r.room.Octets() == 0 && announced >= int64(n)-1:
		upTo = int(announced) + 1
		err := r.room.Take(ctx, share, r.copies(upTo), upTo-n/2, Wait{Most: wait, Reader: r.body.Conn, Answer: r.body.Answer})
		if ok = err == nil; !ok && ctx.Err() != nil {
			return err
		}
	default:
		next = charge{r.copies(n), Of(n)}
		ok = share.Grow(ctx, next.n, next.of, deadline)
	}
	if !ok {
		return ErrFull
	}
	if r.paid.n > 0 {
		r.h.give(r.paid.n, r.paid.of)
	}
	if r.paid, r.upTo = next, upTo; next.n > 0 {
		r.h.used[next.of] += next.n
	}
	waited := time.Since(began)
	if r.waited += waited; r.body.Waited != nil && waited > brief {
		r.body.Waited(waited)
	}
	return nil
}
