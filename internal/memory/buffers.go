package memory

import (
	"slices"
	"sync"
)

// buffers are the buffers of large messages that nobody uses. They are kept for the next
// messages, because while memory is short each new one would be allocated beside the garbage of
// those before. At most an eighth of the budget is kept: no more than is free of it, but a sixteenth
// in any case.
type buffers struct {
	mu     sync.Mutex
	idle   [][]byte // the latest last
	octets int
}

// Lend returns a buffer of length n with any content, to which at most a sixteenth of n is left for
// appending. The caller pays for n, and may call Return when nobody uses the buffer.
func (b *Budget) Lend(n int) []byte {
	if buf := b.buffers.find(n); buf != nil {
		return buf[:n]
	}
	return make([]byte, n)
}

// Return keeps a buffer for Lend. It must not be used afterwards. Buffers up to Small are not kept.
func (b *Budget) Return(buf []byte) {
	if cap(buf) > Small {
		b.buffers.keep(buf[:0], min(max(b.Limit()-b.Used(), b.Limit()/16), b.Limit()/8))
	}
}

// Forget gives up the buffers that Return has kept.
func (b *Budget) Forget() {
	b.buffers.mu.Lock()
	defer b.buffers.mu.Unlock()
	b.buffers.idle, b.buffers.octets = nil, 0
}

// find takes the idle buffer that was used last of those that fit.
func (p *buffers) find(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, buf := range slices.Backward(p.idle) {
		if size := cap(buf); size >= n && size-n <= n/16 {
			p.idle = slices.Delete(p.idle, i, i+1)
			p.octets -= size
			return buf
		}
	}
	return nil
}

// keep adds a buffer, and gives up those that were used first and are too much.
func (p *buffers) keep(buf []byte, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, buf)
	p.octets += cap(buf)
	n := 0
	for ; p.octets > most; n++ {
		p.octets -= cap(p.idle[n])
	}
	p.idle = slices.Delete(p.idle, 0, n)
}
