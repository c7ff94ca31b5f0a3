package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// stream returns the frames of the bodies given.
func stream(bodies ...string) []byte {
	var b []byte
	for _, body := range bodies {
		b = Append(b, []byte(body))
	}
	return b
}

// all reads to the first error and returns the bodies and that error.
func all(r *Reader) (bodies []string, err error) {
	for {
		body, err := r.Next()
		if err != nil {
			r.Release()
			return bodies, err
		}
		bodies = append(bodies, string(body))
	}
}

func prefix(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// chunks returns a source that gives its parts one Read each and then EOF.
type chunks struct {
	parts [][]byte
	reads int
}

func (c *chunks) Read(p []byte) (int, error) {
	c.reads++
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.parts[0])
	if c.parts[0] = c.parts[0][n:]; len(c.parts[0]) == 0 {
		c.parts = c.parts[1:]
	}
	return n, nil
}

func TestNextReturnsBodiesInOrder(t *testing.T) {
	want := []string{"a", "bc", string(make([]byte, 100_000)), "d"}
	got, err := all(NewReader(bytes.NewReader(stream(want...)), Options{}))
	if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
		t.Errorf("%d bodies, error %v, want %d and io.EOF", len(got), err, len(want))
	}
}

func TestFR01ZeroLengthAndCutPrefixAreRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		input string
		want  error
	}{
		{"length 0", "\x00\x00\x00\x00", ErrZeroLength},
		{"length 0 after a frame", "\x00\x00\x00\x01x\x00\x00\x00\x00", ErrZeroLength},
		{"prefix of 1 octet", "\x00", ErrTruncated},
		{"prefix of 2 octets", "\x00\x00", ErrTruncated},
		{"prefix of 3 octets", "\x00\x00\x00", ErrTruncated},
		{"prefix without a body", "\x00\x00\x00\x02", ErrTruncated},
		{"body cut short", "\x00\x00\x00\x02x", ErrTruncated},
		{"end between frames", "\x00\x00\x00\x01x", io.EOF},
		{"end at once", "", io.EOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewReader(bytes.NewReader([]byte(test.input)), Options{})
			if _, err := all(r); !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if !r.Ready() {
				t.Error("not Ready after an error, want Next to fail at once")
			}
			if _, err := r.Next(); !errors.Is(err, test.want) {
				t.Errorf("again: error %v, want %v", err, test.want)
			}
		})
	}
}

func TestEveryCutOfAFrameIsTruncated(t *testing.T) {
	whole := stream("0123456789")
	for n := 1; n < len(whole); n++ {
		for name, src := range map[string]io.Reader{
			"io.EOF":              bytes.NewReader(whole[:n]),
			"io.ErrUnexpectedEOF": io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(io.ErrUnexpectedEOF)),
		} {
			if _, err := NewReader(src, Options{}).Next(); !errors.Is(err, ErrTruncated) {
				t.Errorf("cut at %d by %s: error %v, want %v", n, name, err, ErrTruncated)
			}
		}
	}
}

func TestFR02OversizedPrefixIsRefusedOnThePrefixAlone(t *testing.T) {
	for _, limit := range []int{0, 16, 2078, MaxLimit} {
		bound := limit
		if limit == 0 {
			bound = DefaultLimit
		}
		for _, n := range []uint32{uint32(bound) + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			t.Run(fmt.Sprintf("length %d, limit %d", n, bound), func(t *testing.T) {
				var r *Reader
				least := uint64(1 << 63) // what else allocates meanwhile is not ours
				for range 5 {
					src := &chunks{parts: [][]byte{stream("good"), prefix(n), bytes.Repeat([]byte("x"), 64)}}
					r = NewReader(src, Options{Limit: limit, Reserve: func(int, int) error {
						t.Error("asked to grow")
						return nil
					}})
					if _, err := r.Next(); err != nil {
						t.Fatal(err)
					}
					src.reads = 0
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					_, err := r.Next()
					runtime.ReadMemStats(&after)
					least = min(least, after.TotalAlloc-before.TotalAlloc)
					var large *TooLargeError
					if !errors.As(err, &large) || large.Length != n || large.Limit != bound {
						t.Fatalf("error %v, want length %d above limit %d", err, n, bound)
					}
					if src.reads != 1 {
						t.Fatalf("%d reads, want 1: none after the prefix is complete", src.reads)
					}
				}
				if least > 4<<10 {
					t.Errorf("%d octets allocated, want 4096 at most", least)
				}
				if have, whole := r.Partial(); have != HeaderSize || whole != HeaderSize {
					t.Errorf("Partial() = %d, %d, want the prefix alone", have, whole)
				}
			})
		}
	}
}

func TestFR07LimitAndLimitPlusOne(t *testing.T) {
	const limit = 100
	for _, n := range []int{limit - 1, limit} {
		body, err := NewReader(bytes.NewReader(stream(string(make([]byte, n)))), Options{Limit: limit}).Next()
		if err != nil || len(body) != n {
			t.Errorf("length %d: body of %d, error %v", n, len(body), err)
		}
	}
	_, err := NewReader(bytes.NewReader(stream(string(make([]byte, limit+1)))), Options{Limit: limit}).Next()
	if large := new(TooLargeError); !errors.As(err, &large) {
		t.Errorf("length %d: error %v, want a TooLargeError", limit+1, err)
	}
	// A good frame before random octets is still delivered.
	r := NewReader(bytes.NewReader(append(stream("good"), 0xff, 0xff, 0xff, 0xff, 1, 2, 3)), Options{})
	bodies, err := all(r)
	if large := new(TooLargeError); !errors.As(err, &large) || !slices.Equal(bodies, []string{"good"}) {
		t.Errorf("bodies %q, error %v, want the good one and a TooLargeError", bodies, err)
	}
}

func TestFR06SplitReadsDoNotChangeFrames(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	var bodies []string
	for range 1000 {
		bodies = append(bodies, string(make([]byte, 1+r.IntN(200))))
	}
	bodies = append(bodies, string(make([]byte, 300_000)), "last")
	octets := stream(bodies...)
	for name, src := range map[string]io.Reader{
		"coalesced":         bytes.NewReader(octets),
		"an octet at once":  iotest.OneByteReader(bytes.NewReader(octets)),
		"half of each read": iotest.HalfReader(bytes.NewReader(octets)),
		"EOF with data":     iotest.DataErrReader(bytes.NewReader(octets)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := all(NewReader(src, Options{}))
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(bodies, got); diff != "" {
				t.Error("bodies differ")
			}
		})
	}
	short := stream("first", "second", "third")
	for cut := 1; cut < len(short); cut++ {
		got, err := all(NewReader(&chunks{parts: [][]byte{short[:cut], short[cut:]}}, Options{}))
		if !errors.Is(err, io.EOF) || !slices.Equal(got, []string{"first", "second", "third"}) {
			t.Errorf("split at %d: %q, %v", cut, got, err)
		}
	}
}

// counting counts the octets that a source gave.
type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestBufferGrowsOnlyAsOctetsArrive(t *testing.T) {
	octets := stream(string(make([]byte, DefaultLimit)))
	for _, chunk := range []int{1 << 10, 16 << 10, 64 << 10, 1 << 20} {
		src := &counting{Reader: bytes.NewReader(octets)}
		var r *Reader
		r = NewReader(readerFunc(func(p []byte) (int, error) {
			if len(r.buf) > 2*src.n+window+slack {
				t.Fatalf("chunks of %d: buffer of %d after %d octets", chunk, len(r.buf), src.n)
			}
			return src.Read(p[:min(len(p), chunk)])
		}), Options{})
		body, err := r.Next()
		if err != nil || len(body) != DefaultLimit {
			t.Fatalf("body of %d, error %v", len(body), err)
		}
		if len(r.buf) != DefaultLimit+slack {
			t.Errorf("chunks of %d: buffer of %d for a body of %d, want one class", chunk, len(r.buf), DefaultLimit)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestReadsStopAtTheEndOfALargeFrame(t *testing.T) {
	octets := stream(string(make([]byte, 1<<20)), "next")
	src := &counting{Reader: bytes.NewReader(octets)}
	if body, err := NewReader(src, Options{}).Next(); err != nil || len(body) != 1<<20 {
		t.Fatalf("body of %d, error %v", len(body), err)
	}
	if src.n != HeaderSize+1<<20 {
		t.Errorf("%d octets read for a frame of %d", src.n, HeaderSize+1<<20)
	}
}

// budget keeps the account of a Reader's growth.
type budget struct {
	t    *testing.T
	held int
	peak int
	deny int // refuse to grow beyond
}

var errBudget = errors.New("no more")

func (b *budget) reserve(from, to int) error {
	if b.held == 0 {
		b.held = window + slack
	}
	if from != b.held {
		b.t.Errorf("reserve(%d, %d), but %d are held", from, to, b.held)
	}
	if to > from && b.deny > 0 && to > b.deny {
		return errBudget
	}
	b.held = to
	b.peak = max(b.peak, to)
	return nil
}

func TestReserveIsAskedForGrowthAndToldOfReturn(t *testing.T) {
	b := &budget{t: t}
	large := string(make([]byte, 1<<20))
	bodies := append([]string{large}, slices.Repeat([]string{"small"}, smallRun+1)...)
	r := NewReader(iotest.OneByteReader(bytes.NewReader(stream(bodies...))), Options{Reserve: b.reserve})
	if _, err := all(r); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if b.peak != 1<<20+slack || b.held != window+slack {
		t.Errorf("peak %d, held %d, want %d and %d", b.peak, b.held, 1<<20+slack, window+slack)
	}
	for name, end := range map[string]func(*Reader){
		"Close":   (*Reader).Close,
		"Release": func(r *Reader) { r.Release() },
		"Reset":   func(r *Reader) { r.Reset(nil, Options{}) },
	} {
		b := &budget{t: t}
		r := NewReader(bytes.NewReader(stream(large)), Options{Reserve: b.reserve})
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if end(r); b.held != window+slack {
			t.Errorf("%s: %d still reserved", name, b.held-window-slack)
		}
	}
}

func TestReserveCanRefuse(t *testing.T) {
	b := &budget{t: t, deny: 256 << 10}
	r := NewReader(bytes.NewReader(stream("first", string(make([]byte, 1<<20)))), Options{Reserve: b.reserve})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, errBudget) {
			t.Fatalf("error %v, want that of Reserve, kept", err)
		}
	}
	if len(r.buf) > b.deny {
		t.Errorf("buffer of %d, want %d at most", len(r.buf), b.deny)
	}
}

func TestGrownBufferIsGivenBackAfterSmallFrames(t *testing.T) {
	bodies := []string{string(make([]byte, 1<<20))}
	for i := range 10 * smallRun {
		bodies = append(bodies, fmt.Sprintf("%05d", i))
	}
	octets := stream(bodies...)
	for name, src := range map[string]io.Reader{
		"reads that end with a frame": &chunks{parts: [][]byte{octets[:4+1<<20], octets[4+1<<20 : 4+1<<20+9*smallRun], octets[4+1<<20+9*smallRun:]}},
		// No read ever ends where a frame ends.
		"reads that end in a frame": &chunks{parts: append([][]byte{octets[:4+1<<20+4]}, slices.Collect(slices.Chunk(octets[4+1<<20+4:], 9*smallRun))...)},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(src, Options{})
			for i := range 1 + 9*smallRun {
				body, err := r.Next()
				if err != nil || string(body) != bodies[i] {
					t.Fatalf("frame %d: body of %d, error %v", i, len(body), err)
				}
			}
			if len(r.buf) != window+slack {
				t.Errorf("buffer of %d, want %d", len(r.buf), window+slack)
			}
		})
	}
}

func TestReleaseKeepsWhatIsUnread(t *testing.T) {
	src := &chunks{parts: [][]byte{stream("a", "b"), stream("c")}}
	r := NewReader(src, Options{})
	want := []string{"a", "b", "c"}
	for i, body := range want {
		if i < 2 && i > 0 && r.Release() {
			t.Fatalf("released with %q unread", want[i:])
		}
		got, err := r.Next()
		if err != nil || string(got) != body {
			t.Fatalf("%q, %v, want %q", got, err, body)
		}
	}
	if !r.Release() || r.buf != nil {
		t.Error("the buffer was not released though all of it was read")
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want io.EOF", err)
	}
}

func TestIdleReaderOwnsNoBuffer(t *testing.T) {
	reads := make(chan int, 1)
	r := NewReader(readerFunc(func(p []byte) (int, error) { reads <- len(p); return 0, io.EOF }), Options{})
	_, _ = r.Next()
	if n := <-reads; n != 1 || r.buf != nil {
		t.Errorf("waited with a read of %d octets and a buffer of %d, want 1 and none", n, len(r.buf))
	}
}

func TestTimeoutsAreResumable(t *testing.T) {
	octets := stream("first", string(make([]byte, 100_000)), "last")
	for _, step := range []int{1, 1000, 7000} {
		rest, late := octets, false
		r := NewReader(readerFunc(func(p []byte) (int, error) {
			if late = !late; late {
				return 0, fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded)
			}
			if len(rest) == 0 {
				return 0, io.EOF
			}
			n := copy(p[:min(len(p), step)], rest)
			rest = rest[n:]
			return n, nil
		}), Options{})
		var got []int
		for {
			body, err := r.Next()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, len(body))
		}
		if !slices.Equal(got, []int{5, 100_000, 4}) {
			t.Errorf("step %d: bodies of %v", step, got)
		}
	}
}

func TestErrorsAreKept(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(bytes.NewReader(stream("a")), iotest.ErrReader(broken)), Options{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
	idle := NewReader(readerFunc(func([]byte) (int, error) { return 0, nil }), Options{})
	if _, err := idle.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("error %v, want %v", err, io.ErrNoProgress)
	}
	r.Close()
	closed := NewReader(bytes.NewReader(stream("a")), Options{})
	closed.Close()
	if _, err := closed.Next(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want %v", err, io.ErrClosedPipe)
	}
}

func TestReadyAndPartial(t *testing.T) {
	octets := append(stream("ab", "cdef"), 0, 0, 0, 0)
	src := &chunks{parts: [][]byte{octets[:1], octets[1:8], octets[8:14], octets[14:]}}
	r := NewReader(src, Options{})
	want := func(when string, ready bool, have, whole int) {
		t.Helper()
		h, w := r.Partial()
		if r.Ready() != ready || h != have || w != whole {
			t.Errorf("%s: Ready %v, Partial %d of %d, want %v, %d of %d", when, r.Ready(), h, w, ready, have, whole)
		}
	}
	want("at first", false, 0, 0)
	for _, body := range []string{"ab", "cdef"} {
		got, err := r.Next()
		if err != nil || string(got) != body {
			t.Fatalf("%q, %v, want %q", got, err, body)
		}
		if body == "ab" {
			want("after the first", false, 2, HeaderSize)
		}
	}
	want("after the second", false, 0, 0)
	if _, err := r.Next(); !errors.Is(err, ErrZeroLength) {
		t.Error(err)
	}
	want("after the end", true, 4, 4)

	r = NewReader(&chunks{parts: [][]byte{stream("abc")[:5]}}, Options{})
	_, _ = r.Next()
	want("inside a body", true, 5, 7)
	r = NewReader(&chunks{parts: [][]byte{stream("a", "b")}}, Options{})
	_, _ = r.Next()
	want("with a frame at hand", true, 5, 5)
}

func TestWindowsAreCapped(t *testing.T) {
	r := NewReader(bytes.NewReader(stream("ab", "cd")), Options{})
	first, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	_ = append(first, "overwritten?"...)
	if second, err := r.Next(); err != nil || string(second) != "cd" {
		t.Errorf("%q, %v: an append to the first window reached the second", second, err)
	}
}

func TestOptionsOutOfRangePanic(t *testing.T) {
	for _, limit := range []int{-1, MaxLimit + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("limit %d accepted", limit)
				}
			}()
			NewReader(nil, Options{Limit: limit})
		}()
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, size := range []int{64, 4 << 10, 1 << 20} {
		octets := stream(slices.Repeat([]string{string(make([]byte, size))}, 4)...)
		src := new(bytes.Reader)
		r := NewReader(src, Options{})
		if n := testing.AllocsPerRun(20, func() {
			src.Reset(octets)
			for range 4 {
				if _, err := r.Next(); err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("%d octets: %v allocations for 4 frames, want none", size, n)
		}
	}
}

func FuzzReaderSplit(f *testing.F) {
	f.Add(stream("a", "bc", "def"), uint64(1))
	f.Add([]byte("\x00\x00\x00\x00"), uint64(2))
	f.Add([]byte("\x00\x00\x00\x05abc"), uint64(3))
	f.Add(stream(string(make([]byte, 70_000)), "x"), uint64(4))
	f.Add([]byte("\xff\xff\xff\xffabc"), uint64(5))
	pool := new(Pool)
	f.Fuzz(func(t *testing.T, octets []byte, seed uint64) {
		opts := Options{Limit: 1 << 20, Pool: pool}
		want, wantErr := all(NewReader(bytes.NewReader(octets), opts))
		rng := rand.New(rand.NewPCG(seed, seed))
		rest := octets
		got, gotErr := all(NewReader(readerFunc(func(p []byte) (int, error) {
			if len(rest) == 0 {
				return 0, io.EOF
			}
			n := copy(p[:1+rng.IntN(len(p))], rest[:1+rng.IntN(len(rest))])
			rest = rest[n:]
			return n, nil
		}), opts))
		if !slices.Equal(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("split: %d bodies, %v; whole: %d bodies, %v", len(got), gotErr, len(want), wantErr)
		}
		if errors.Is(wantErr, io.EOF) {
			if again := stream(want...); !bytes.Equal(again, octets) {
				t.Fatalf("frames read and written again differ")
			}
		}
	})
}

// A frame is asked for once, with what the whole of it needs; a larger one returns the buffer of the
// one before, so that nothing is held while Reserve waits.
func TestReserveIsAskedOnceForAFrame(t *testing.T) {
	var calls [][2]int
	bodies := []string{string(make([]byte, 1<<20)), string(make([]byte, 300<<10)), string(make([]byte, 3<<20))}
	bodies = append(bodies, slices.Repeat([]string{"small"}, smallRun+1)...)
	for name, src := range map[string]io.Reader{
		"at once":        bytes.NewReader(stream(bodies...)),
		"octet by octet": iotest.OneByteReader(bytes.NewReader(stream(bodies...))),
	} {
		t.Run(name, func(t *testing.T) {
			calls = nil
			r := NewReader(src, Options{Reserve: func(from, to int) error {
				calls = append(calls, [2]int{from, to})
				return nil
			}})
			if got, err := all(r); !errors.Is(err, io.EOF) || len(got) != len(bodies) {
				t.Fatalf("%d frames, %v", len(got), err)
			}
			want := [][2]int{{firstSize, 1<<20 + slack}, {1<<20 + slack, firstSize}, {firstSize, 4<<20 + slack}, {4<<20 + slack, firstSize}}
			if !slices.Equal(calls, want) {
				t.Errorf("calls %v, want %v", calls, want)
			}
		})
	}
}

// The buffer of a large frame is the caller's after Detach, and what follows is read into another.
func TestDetachGivesTheBufferAway(t *testing.T) {
	held := 0
	bodies := []string{strings.Repeat("a", 300<<10), "small", strings.Repeat("b", 70<<10), "next", "last"}
	r := NewReader(bytes.NewReader(stream(bodies...)), Options{Reserve: func(_, to int) error {
		held = to
		return nil
	}})
	for i, want := range bodies {
		body, err := r.Next()
		if err != nil || string(body) != want {
			t.Fatalf("frame %d: %d octets, %v", i, len(body), err)
		}
		grown := r.Grown()
		buf := r.Detach()
		if (buf != nil) != (grown > 0) || grown > 0 && grown != held {
			t.Errorf("frame %d: a buffer of %d, %d were reserved", i, len(buf), grown)
		}
		if buf != nil && (r.Grown() != 0 || string(body) != want) {
			t.Errorf("frame %d: still %d reserved", i, r.Grown())
		}
		clear(body)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}
