package frame

import (
	"math/bits"
	"sync"
)

// Buffers come in sizes 2^k + slack. The slack lets a body of exactly 2^k
// octets and its prefix share the class of 2^k: at the default limit of 8 MiB
// no stream ever holds 16.
const (
	minClass = 12 // 4 KiB

	largeClass = 17 // 128 KiB: the first above 64 KiB
	maxClass   = 24 // 16 MiB; larger buffers are left to the collector
	slack      = 64
)

// Pool lends buffers by size class. The zero value is ready for use. It is safe
// for concurrent use. Buffers above 16 MiB are allocated and not kept, so the
// memory that the pool can pin is bounded by the peak of use.
type Pool struct {
	// Large lends the buffers above 64 KiB. If it is nil, the Pool keeps them as it keeps others: until
	// the second garbage collection after their use.
	Large Lender

	classes [maxClass - minClass + 1]sync.Pool // of *[]byte
	headers sync.Pool                          // of *[]byte without a buffer
}

// Lender lends large buffers. Lend returns one of n octets with any content, or a few more in its
// capacity. Return takes one back that nobody uses any more.
type Lender interface {
	Lend(n int) []byte
	Return(buf []byte)
}

// Get returns a buffer of length zero and a capacity of at least n octets. Its
// content is undefined.
func (p *Pool) Get(n int) []byte {
	c := class(n)
	if c > maxClass {
		return make([]byte, 0, n)
	}
	size := 1<<c + slack
	if p.Large != nil && c >= largeClass {
		return p.Large.Lend(size)[:0:size]
	}
	if h, ok := p.classes[c-minClass].Get().(*[]byte); ok {
		b := *h
		*h = nil
		p.headers.Put(h)
		return b[:0]
	}
	return make([]byte, 0, size)
}

// Put gives a buffer back. The caller must not use it, nor any slice of it,
// afterwards. Buffers that did not come from Get are ignored.
func (p *Pool) Put(b []byte) {
	c := class(cap(b))
	if c > maxClass || cap(b) != 1<<c+slack {
		return
	}
	if p.Large != nil && c >= largeClass {
		p.Large.Return(b)
		return
	}
	h, ok := p.headers.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	*h = b[:0]
	p.classes[c-minClass].Put(h)
}

// Capacity returns the capacity of the buffer that Get returns for n octets. It is what a holder of
// such a buffer has to account for.
func Capacity(n int) int {
	if c := class(n); c <= maxClass {
		return 1<<c + slack
	}
	return n
}

// class returns the smallest k with 2^k + slack >= n.
func class(n int) int {
	if n <= 1<<minClass+slack {
		return minClass
	}
	return bits.Len(uint(n - slack - 1))
}
