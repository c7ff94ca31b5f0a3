package memory_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/slimwire/swp/internal/memory"
)

// same reports whether two buffers have the same memory.
func same(a, b []byte) bool { return &a[:1][0] == &b[:1][0] }

func TestRS19LargeBuffersAreLentAgain(t *testing.T) {
	const size = 1 << 20
	b := memory.New(8 * 3 * size) // three are kept
	var list [4][]byte
	for i := range list {
		list[i] = b.Lend(size)
		if len(list[i]) != size {
			t.Fatalf("%d octets, want %d", len(list[i]), size)
		}
	}
	for _, buf := range list {
		b.Return(buf[:7])
	}
	for i := 3; i > 0; i-- { // the first one was too much
		if got := b.Lend(size); !same(got, list[i]) || len(got) != size {
			t.Errorf("%d octets, not those of buffer %d", len(got), i)
		}
	}
	if got := b.Lend(size); same(got, list[0]) {
		t.Error("more than an eighth of the budget was kept")
	}

	b.Return(list[1])
	if got := b.Lend(size + 1); same(got, list[1]) {
		t.Error("a buffer was lent for more than it has")
	}
	if got := b.Lend(size - size/16); same(got, list[1]) {
		t.Error("a buffer was lent for much less than it has")
	}
	if got := b.Lend(size - size/17); !same(got, list[1]) {
		t.Error("a buffer was not lent for a little less than it has")
	}
	b.Return(list[2])
	b.Forget()
	if got := b.Lend(size); same(got, list[2]) {
		t.Error("a buffer was kept after Forget")
	}
	small, large := b.Lend(memory.Small), b.Lend(memory.Small+1)
	b.Return(small)
	b.Return(large)
	if got := b.Lend(memory.Small); !same(got, large) {
		t.Error("the buffer above Small was not kept, or the other was")
	}
}

func TestRS19BuffersBesideAFullBudgetAreASixteenth(t *testing.T) {
	const size = 1 << 20
	b := memory.New(32 * size)
	for _, identity := range []string{"a", "b", "c"} {
		share := b.Share(identity)
		defer share.Close()
		if !share.Try(10*size, memory.Large) {
			t.Fatal("no room")
		}
		defer share.Give(10*size, memory.Large)
	}
	list := [3][]byte{b.Lend(size), b.Lend(size), b.Lend(size)}
	for _, buf := range list {
		b.Return(buf)
	}
	for i := 2; i > 0; i-- {
		if got := b.Lend(size); !same(got, list[i]) {
			t.Errorf("buffer %d was not kept", i)
		}
	}
	if got := b.Lend(size); same(got, list[0]) {
		t.Error("more than a sixteenth of the budget was kept")
	}
}

func TestRS19ABodyThatDoesNotEndLeavesNoGarbage(t *testing.T) {
	b := memory.New(256 << 20)
	h := b.Hold("a")
	defer h.Release()
	lost := errors.New("lost")
	read := func(size int, end error) ([]byte, error) {
		return h.ReadAll(t.Context(), memory.Body{
			Reader: io.MultiReader(bytes.NewReader(bytes.Repeat([]byte("x"), size)), iotest.ErrReader(end)), Announced: -1,
		})
	}
	if _, err := read(5<<20, lost); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	h.Clear()
	var idle int
	for size := 8 << 20; size > memory.Small; size /= 2 {
		buf := b.Lend(size)
		if buf[0] == 'x' {
			idle++
		}
		b.Return(buf)
	}
	if idle != 7 { // 128 KiB to 8 MiB
		t.Errorf("%d buffers are kept, want 7", idle)
	}
	whole, err := read(5<<20, io.EOF)
	if err != nil || len(whole) != 5<<20 {
		t.Fatal(len(whole), err)
	}
	if next := b.Lend(8 << 20); same(next, whole) {
		t.Error("the buffer of a body was lent while the caller has it")
	}
}
