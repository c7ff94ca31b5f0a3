package frame

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/slimwire/swp/internal/effort"
)

func TestAppendWritesLengthAndBody(t *testing.T) {
	if got := Append([]byte("before"), []byte("body")); string(got) != "before\x00\x00\x00\x04body" {
		t.Errorf("%q", got)
	}
	if got := AppendHeader(nil, 0x01020304); string(got) != "\x01\x02\x03\x04" {
		t.Errorf("%x", got)
	}
	if strconv.IntSize == 64 {
		n := uint64(math.MaxUint32)
		if got := AppendHeader(nil, int(n)); string(got) != "\xff\xff\xff\xff" {
			t.Errorf("%x", got)
		}
	}
}

func TestAppendHeaderRefusesWhatWouldWrap(t *testing.T) {
	lengths := []int64{0, -1, math.MinInt32}
	if strconv.IntSize == 64 {
		lengths = append(lengths, 1<<32, 1<<32+1)
	}
	for _, n := range lengths {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("length %d written", n)
				}
			}()
			AppendHeader(nil, int(n))
		}()
	}
}

func TestErrorsSayValueAndBound(t *testing.T) {
	for err, want := range map[error]string{
		&TooLargeError{Length: 16777216, Limit: 8388608}: "frame: length 16777216 exceeds limit 8388608",
		ErrZeroLength: "frame: length 0, want at least 1",
		ErrTruncated:  "frame: stream ends inside a frame",
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestPoolClasses(t *testing.T) {
	var p Pool
	for _, test := range []struct{ n, capacity int }{
		{0, 4<<10 + slack},
		{4<<10 + slack, 4<<10 + slack},
		{4<<10 + slack + 1, 8<<10 + slack},
		{window, window + slack},
		{8<<20 + HeaderSize, 8<<20 + slack},
		{16<<20 + slack, 16<<20 + slack},
		{16<<20 + slack + 1, 16<<20 + slack + 1},
	} {
		b := p.Get(test.n)
		if len(b) != 0 || cap(b) != test.capacity || Capacity(test.n) != test.capacity {
			t.Errorf("Get(%d): length %d, capacity %d, announced %d, want 0 and %d", test.n, len(b), cap(b), Capacity(test.n), test.capacity)
		}
		p.Put(b)
	}
}

func TestPoolIgnoresForeignBuffers(t *testing.T) {
	var p Pool
	for _, n := range []int{0, 1, 100, 5000, 1 << 16, 1 << 25} {
		p.Put(make([]byte, n))
	}
	for n := range 20 {
		if b := p.Get(1 << n); cap(b) < 1<<n {
			t.Fatalf("Get(%d) has a capacity of %d", 1<<n, cap(b))
		}
	}
}

func TestPoolLendsWithoutAllocating(t *testing.T) {
	effort.Unwatched(t) // under the race detector a sync.Pool forgets at random
	var p Pool
	p.Put(p.Get(window))
	if n := testing.AllocsPerRun(100, func() { p.Put(p.Get(window)) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const batch = 64
			octets := bytes.Repeat(Append(nil, make([]byte, size)), batch)
			src := new(bytes.Reader)
			r := NewReader(src, Options{})
			b.ReportAllocs()
			b.SetBytes(int64(size + HeaderSize))
			for i := 0; b.Loop(); i++ {
				if i%batch == 0 {
					src.Reset(octets)
				}
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	body, dst := make([]byte, 64), make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst = Append(dst[:0], body)
	}
}
