// Package fair divides what identities share: Queue gives them turns, Shares gives them
// places, and Slots lets goroutines wait for places in turn. All know two levels: first the
// peers, then the callers that one peer asserts (profiles.OnBehalf), so that no peer gains by
// the number of its callers.
//
// Queue and Shares are not safe for concurrent use: the mutex of the pool guards them. Their
// zero values are ready. In the long run no operation allocates.
package fair

// fifo is a queue of values in a buffer that is used again.
type fifo[T any] struct {
	buf  []T
	head int // of the values in buf
}

func (f *fifo[T]) len() int   { return len(f.buf) - f.head }
func (f *fifo[T]) at(i int) T { return f.buf[f.head+i] }

func (f *fifo[T]) push(v T) {
	if len(f.buf) == cap(f.buf) && f.head > len(f.buf)/2 {
		n := copy(f.buf, f.buf[f.head:])
		clear(f.buf[n:])
		f.buf, f.head = f.buf[:n], 0
	}
	f.buf = append(f.buf, v)
}

// remove removes and returns the value at i. It moves the values before i, because i is
// usually 0.
func (f *fifo[T]) remove(i int) T {
	var none T
	v := f.at(i)
	copy(f.buf[f.head+1:], f.buf[f.head:f.head+i])
	f.buf[f.head] = none
	if f.head++; f.head == len(f.buf) {
		f.buf, f.head = f.buf[:0], 0
	}
	return v
}
