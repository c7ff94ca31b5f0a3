package memory_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

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

// A body waits for its first octets, and later for the others.
func TestRS36ABodyWaitsForRoomFiveSecondsInAll(t *testing.T) {
	for _, announced := range []int64{400 << 10, -1} {
		for wait, want := range map[time.Duration]error{2400 * time.Millisecond: nil, 3 * time.Second: memory.ErrFull} {
			synctest.Test(t, func(t *testing.T) {
				b := memory.New(1 << 20)
				other := b.Share("other")
				defer other.Close()
				if !other.Try(192<<10, memory.Opening) || !other.Try(600<<10, memory.Large) {
					t.Fatal("no room in an empty budget")
				}
				time.AfterFunc(wait, func() { other.Give(192<<10, memory.Opening) })
				time.AfterFunc(2*wait, func() { other.Give(600<<10, memory.Large) })
				h := b.Hold("a")
				defer h.Release()
				began := time.Now()
				_, err := h.ReadAll(t.Context(), memory.Body{Reader: bytes.NewReader(make([]byte, 400<<10)), Announced: announced})
				if took := time.Since(began); !errors.Is(err, want) || took > memory.BodyWait {
					t.Errorf("length %d, two waits of %v: %v after %v, want %v", announced, wait, err, took, want)
				}
			})
		}
	}
}

// Of a large body a copy passes inside this process, for which there is no second wait.
func TestRS36RoomForACopyIsTakenWithThatForTheBody(t *testing.T) {
	for size, copies := range map[int]int{64<<10 - 1: 1, 64 << 10: 2, 1 << 20: 2} {
		for _, announced := range []int64{int64(size), -1} {
			b := memory.New(16 << 20)
			h := b.Hold("a")
			r := &watched{Reader: bytes.NewReader(make([]byte, size)), t: t, b: b}
			got, err := h.ReadAll(t.Context(), memory.Body{Reader: r, Announced: announced, Twice: true})
			if err != nil || len(got) != size {
				t.Fatal(len(got), err)
			}
			if used := b.Used(); used < copies*size || used > copies*(2*size) || copies == 1 && used > 64<<10 {
				t.Errorf("%d octets are in use for a body of %d, want it %d times", used, size, copies)
			}
			h.Release()
			if used := b.Used(); used != 0 {
				t.Errorf("%d octets are in use after the end", used)
			}
		}
	}
	b := memory.New(16 << 20) // of which one has 7/8 at most
	for size, want := range map[int]error{13 << 19: nil, 7 << 20: memory.ErrFull} {
		h := b.Hold("a")
		_, err := h.ReadAll(t.Context(), memory.Body{Reader: bytes.NewReader(make([]byte, size)), Announced: int64(size), Twice: true, Wait: 1})
		if !errors.Is(err, want) {
			t.Errorf("%d octets: %v, want %v", size, err, want)
		}
		h.Release()
	}
}

// An HTTP request is answered in a budget that is full of others: the answer has the octets of its body.
func TestRS36AnAnswerHasTheOctetsOfItsBody(t *testing.T) {
	const size = 1 << 20
	for _, twice := range []bool{false, true} {
		b := memory.New(16 << 20)
		h := b.Hold("a")
		if _, err := h.ReadAll(t.Context(), memory.Body{Reader: bytes.NewReader(make([]byte, size)), Announced: size, Twice: twice}); err != nil {
			t.Fatal(err)
		}
		body := b.Used()
		fill(b.Share("b"), 1<<10, memory.Large)
		free := 15<<20 - b.Used() // beside the sixteenth for small messages
		if h.Answer(body + free + 1) {
			t.Error("an octet too many was taken")
		}
		if !h.Answer(body + free) {
			t.Errorf("no room for the answer with a body of %d octets", body)
		}
		used := b.Used()
		if h.Release(); used-b.Used() != body+free {
			t.Errorf("%d octets were given back, want %d", used-b.Used(), body+free)
		}
	}
	b := memory.New(16 << 20) // with room for both the body keeps its octets
	h := b.Hold("a")
	defer h.Release()
	if !h.Add(size) || !h.Answer(size) || b.Used() != 2*size {
		t.Errorf("%d octets are in use, want %d", b.Used(), 2*size)
	}
}
