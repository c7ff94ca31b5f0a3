package memory

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrFull is the error for octets for which there is no room.
var ErrFull = errors.New("memory: too many octets in flight")

// Hold is what one request holds of a Share. It is used by one goroutine at a time.
type Hold struct {
	share *Share
	used  [2]int
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
	h.used = [2]int{}
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

// ReadAll reads r to its end. The buffer is paid for before it grows. It at most doubles with
// the octets that have arrived, and is no larger than announced octets, of which -1 says that
// they are unknown. Without room ReadAll waits until the deadline or the end of ctx, and
// then returns ErrFull. The caller owns the result. Other buffers that ReadAll has
// read into are lent again, so r must not keep them.
func (h *Hold) ReadAll(ctx context.Context, r io.Reader, announced int64, deadline time.Time) ([]byte, error) {
	var buf []byte // of the capacity that was paid for
	failed := func(err error) ([]byte, error) {
		h.share.b.Return(buf)
		return nil, err
	}
	for {
		if len(buf) == cap(buf) {
			to := max(first, 2*cap(buf))
			if announced >= int64(len(buf)) {
				to = int(min(int64(to), announced+1)) // one more to see the end
			}
			if !h.share.Take(ctx, to, Of(to), deadline) {
				return failed(ErrFull)
			}
			h.used[Of(to)] += to
			bigger := h.share.b.Lend(to)
			copy(bigger, buf)
			if cap(buf) > 0 {
				h.give(cap(buf), Of(cap(buf)))
				h.share.b.Return(buf)
			}
			buf = bigger[:len(buf):to]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return failed(err)
		}
	}
}
