package memory_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/slimwire/swp/internal/memory"
)

// watched checks before each read that the octets read so far are paid for.
type watched struct {
	io.Reader
	t    *testing.T
	b    *memory.Budget
	read int
	most int
}

func (w *watched) Read(p []byte) (int, error) {
	if used := w.b.Used(); used < w.read+len(p) {
		w.t.Errorf("%d octets are in use for a buffer of %d", used, w.read+len(p))
	}
	w.most = max(w.most, w.read+len(p))
	n, err := w.Reader.Read(p)
	w.read += n
	return n, err
}

func TestRS11ABodyIsPaidForAsItArrives(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 65_536, 65_537, 1 << 20} {
		for _, announced := range []int64{-1, int64(size), 3, 4 << 20} {
			b := memory.New(16 << 20)
			h := b.Hold("a")
			body := bytes.Repeat([]byte("x"), size)
			r := &watched{Reader: iotest.HalfReader(bytes.NewReader(body)), t: t, b: b}
			got, err := h.ReadAll(t.Context(), memory.Body{Reader: r, Announced: announced})
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d octets of %d, %v", len(got), size, err)
			}
			if limit := max(4<<10, 2*size); r.most > limit && announced != int64(size) || announced == int64(size) && r.most > size+1 {
				t.Errorf("a buffer of %d octets for %d", r.most, size)
			}
			h.Release()
			if used := b.Used(); used != 0 || len(b.Top(1)) != 0 {
				t.Errorf("%d octets in use after the end", used)
			}
		}
	}
}

func TestRS11ABodyWithoutRoomIsNotRead(t *testing.T) {
	b := memory.New(1 << 20)
	h := b.Hold("a")
	defer h.Release()
	body := bytes.NewReader(make([]byte, 2<<20))
	if _, err := h.ReadAll(t.Context(), memory.Body{Reader: body, Announced: -1, Wait: 1}); !errors.Is(err, memory.ErrFull) || body.Len() < 1<<20 {
		t.Errorf("%v with %d octets unread, want ErrFull", err, body.Len())
	}
}
