package frame

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

const (
	// window is how many octets a Reader asks for at once while frames are small. Many
	// small frames arrive in one read and are parsed in the buffer.
	window = 64 << 10

	// smallRun is how many small frames in a row make the Reader return a buffer that grew
	// for a large one. Otherwise one artifact of 8 MiB would pin 8 MiB on its stream for
	// good.
	smallRun = 16

	// firstSize is the size of the buffer of a window.
	firstSize = window + slack

	// emptyReads is how many reads in a row may return no octets and no error.
	emptyReads = 100
)

// Options configure a Reader. The zero value is usable.
type Options struct {
	// Limit is MAX_FRAME_BYTES, the largest body in octets. Zero means
	// DefaultLimit. NewReader panics if it is negative or above MaxLimit.
	Limit int

	// Pool lends the buffers. Nil means that the Reader makes one for itself.
	Pool *Pool

	// Reserve is called before the buffer grows for a frame that does not fit, with the size
	// of the first window and the size that the whole frame needs, in octets. It is called
	// once for a frame, and the buffer gets its size at once. A frame that is larger than a grown
	// buffer has that buffer returned first. So the caller of Next may wait in Reserve without
	// holding what others wait for. If Reserve returns an error, nothing is allocated and the
	// Reader fails with that error. When a grown buffer is returned, Reserve is called with the
	// two sizes exchanged and its result is ignored. With nil the buffer grows up to Limit with
	// the octets that arrive.
	Reserve func(from, to int) error
}

// Reader splits a stream into frames. It is not safe for concurrent use.
//
// Memory: an idle Reader (after Release) owns one octet. While frames arrive it owns a
// window of 64 KiB. The window grows only after it is full with octets of a larger frame: with
// Options.Reserve to the size of the frame, else to twice its own. It shrinks after a run of
// small frames.
type Reader struct {
	src     io.Reader
	limit   int
	pool    *Pool
	reserve func(from, to int) error

	buf        []byte // len(buf) == cap(buf), or nil when released
	reserved   int    // octets to which the buffer may grow; at most firstSize: to that of the window
	start, end int    // unread octets are buf[start:end]
	small      int    // small frames since the last large one
	one        [1]byte
	err        error // first fatal error, kept
}

// NewReader returns a Reader of the frames in src.
func NewReader(src io.Reader, opts Options) *Reader {
	r := new(Reader)
	r.Reset(src, opts)
	return r
}

// Reset makes r a new Reader of src. A buffer it still holds is given back.
func (r *Reader) Reset(src io.Reader, opts Options) {
	if opts.Limit < 0 || opts.Limit > MaxLimit {
		panic("frame: Options.Limit out of range")
	}
	if opts.Limit == 0 {
		opts.Limit = DefaultLimit
	}
	if opts.Pool == nil {
		opts.Pool = new(Pool)
	}
	if r.buf != nil {
		r.drop()
	}
	*r = Reader{src: src, limit: opts.Limit, pool: opts.Pool, reserve: opts.Reserve}
}

// Next returns the body of the next frame.
//
// The slice is a window into the Reader's buffer, valid until the next call to Next,
// Release or Reset. Its capacity is limited, so an append copies. At a clean end of stream
// the error is io.EOF; a stream that ends inside a frame is ErrTruncated.
//
// Errors are sticky: after an error every call returns the same one. The exception is a
// read timeout (os.ErrDeadlineExceeded): a later call continues at the same octet.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	for {
		body, err := r.parse()
		if body != nil || err != nil {
			return body, r.keep(err)
		}
		if err := r.fill(); err != nil {
			return nil, r.keep(err)
		}
	}
}

// Ready reports whether Next will return without reading from the source:
// a whole frame has arrived, or an error is certain.
func (r *Reader) Ready() bool {
	if r.err != nil {
		return true
	}
	n := r.end - r.start
	if n < HeaderSize {
		return false
	}
	length := binary.BigEndian.Uint32(r.buf[r.start:])
	return length == 0 || uint64(length) > uint64(r.limit) || uint64(n-HeaderSize) >= uint64(length)
}

// Partial returns how many octets of an incomplete frame have arrived, and the size of the
// whole frame with its prefix. While the prefix is incomplete, or its length is above the
// limit, whole is HeaderSize. Between frames both are zero.
func (r *Reader) Partial() (have, whole int) {
	have = r.end - r.start
	switch {
	case have == 0:
		return 0, 0
	case have < HeaderSize:
		return have, HeaderSize
	}
	length := binary.BigEndian.Uint32(r.buf[r.start:])
	if uint64(length) > uint64(r.limit) {
		return have, HeaderSize
	}
	return have, HeaderSize + int(length)
}

// Arrived returns the octets of the body of an incomplete frame that have arrived. They are valid as
// those of Next.
func (r *Reader) Arrived() []byte {
	if r.end-r.start <= HeaderSize {
		return nil
	}
	return r.buf[r.start+HeaderSize : r.end : r.end]
}

// Release returns the buffer to the pool if it holds no unread octets, and reports whether
// the Reader now owns none. The next read then waits with a buffer of one octet. Windows
// returned before are invalid.
func (r *Reader) Release() bool {
	if r.start < r.end {
		return false
	}
	if r.buf != nil {
		r.drop()
	}
	return true
}

// Grown returns the octets that Reserve has granted for the buffer, 0 for a first window.
func (r *Reader) Grown() int {
	if r.reserved <= firstSize {
		return 0
	}
	return r.reserved
}

// Detach gives the caller the buffer with the body that Next returned last, and the octets that
// Reserve has granted. The windows into it stay valid; the caller puts the buffer into
// the Pool. It returns nil, and does nothing, for a buffer that did not grow.
func (r *Reader) Detach() []byte {
	rest := r.buf[r.start:r.end]
	if len(r.buf) <= firstSize || len(rest) > firstSize {
		return nil
	}
	buf := r.buf
	r.buf, r.reserved, r.small, r.start, r.end = nil, 0, 0, 0, 0
	if len(rest) > 0 {
		r.buf = r.take(window)
		r.end = copy(r.buf, rest)
	}
	return buf
}

// Close returns the buffer to the pool, even if it holds unread octets. Next then returns
// io.ErrClosedPipe. Windows returned before are invalid.
func (r *Reader) Close() {
	if r.buf != nil {
		r.drop()
	}
	_ = r.keep(io.ErrClosedPipe)
}

// parse returns the body of a frame that has arrived completely, or nil if more octets are
// needed. The error says why the prefix is refused.
func (r *Reader) parse() ([]byte, error) {
	n := r.end - r.start
	if n < HeaderSize {
		return nil, nil
	}
	length := binary.BigEndian.Uint32(r.buf[r.start:])
	if length == 0 {
		return nil, ErrZeroLength
	}
	if uint64(length) > uint64(r.limit) {
		return nil, &TooLargeError{Length: length, Limit: r.limit}
	}
	size := int(length)
	if n-HeaderSize < size {
		return nil, nil
	}
	from := r.start + HeaderSize
	r.start = from + size
	if size > window/2 {
		r.small = 0
	} else {
		r.small++
	}
	return r.buf[from:r.start:r.start], nil
}

// fill reads once, after making room.
func (r *Reader) fill() error {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	if len(r.buf) > firstSize {
		if _, whole := r.Partial(); r.small >= smallRun || whole > r.reserved {
			r.shrink(whole)
		}
	}
	if r.buf == nil {
		return r.fillFirst()
	}
	if err := r.room(); err != nil {
		return err
	}
	p := r.buf[r.end:]
	if have, whole := r.Partial(); whole > window {
		// Read at most to the end of a large frame. The next frame then starts at the front
		// of the buffer, so that megabytes of it never have to be moved there.
		p = p[:min(len(p), whole-have)]
	} else {
		// The next frame may need a larger buffer. The octets that are read before its length
		// is known fit into a first window.
		p = p[:min(len(p), window)]
	}
	return r.readInto(p)
}

// fillFirst waits with a buffer of one octet: a silent stream owns no window.
func (r *Reader) fillFirst() error {
	n, err := r.read(r.one[:])
	if n == 0 {
		return r.ended(err)
	}
	r.buf = r.take(window)
	r.buf[0] = r.one[0]
	r.start, r.end = 0, 1
	return nil
}

// shrink returns a grown buffer unless the arriving frame needs it, or needs a larger one. It
// does not wait for a pause: a peer whose frames always end in the middle of a read would pin
// the buffer for good.
func (r *Reader) shrink(whole int) {
	have := r.end - r.start
	switch {
	case have == 0:
		r.drop()
	case have <= firstSize && (whole <= window || whole > r.reserved):
		rest := r.take(window)
		copy(rest, r.buf[r.start:r.end])
		r.drop()
		r.buf, r.end = rest, have
	}
}

// room makes sure that there is space to read into: first by moving a partial
// frame to the front, then by growing. It is called only when no whole frame
// is in the buffer.
func (r *Reader) room() error {
	have, whole := r.Partial()
	if r.start > 0 && (r.end == len(r.buf) || len(r.buf)-r.start < whole) {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, have
	}
	if r.end < len(r.buf) {
		return nil
	}
	// The buffer is full with one incomplete frame.
	need := Capacity(whole)
	if need > max(r.reserved, firstSize) {
		if r.reserve != nil {
			if err := r.reserve(firstSize, need); err != nil {
				return err
			}
		}
		r.reserved = need
	}
	// A reserved size is taken at once: buffers of growing sizes would be garbage, and their
	// octets copied. Otherwise the buffer is full of octets that have arrived, and a doubled one has
	// at most twice as many. The next size is that of the next class, without doubling the slack.
	to := need
	if r.reserve == nil {
		to = Capacity(min(2*len(r.buf)-slack, whole))
	}
	bigger := r.take(to)
	copy(bigger, r.buf[:r.end])
	r.pool.Put(r.buf)
	r.buf = bigger
	return nil
}

func (r *Reader) readInto(p []byte) error {
	n, err := r.read(p)
	r.end += n
	if n > 0 {
		return nil // an error that came with octets will come again
	}
	return r.ended(err)
}

// read reads at least one octet or returns an error.
func (r *Reader) read(p []byte) (int, error) {
	for range emptyReads {
		n, err := r.src.Read(p)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// ended turns the end of the source into the end of the stream or a truncation.
func (r *Reader) ended(err error) error {
	if (err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)) && r.start < r.end {
		return ErrTruncated
	}
	return err
}

func (r *Reader) keep(err error) error {
	if err != nil && r.err == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.err = err
	}
	return err
}

func (r *Reader) take(n int) []byte {
	b := r.pool.Get(n)
	return b[:cap(b)]
}

func (r *Reader) drop() {
	if r.reserve != nil && r.reserved > firstSize {
		_ = r.reserve(r.reserved, firstSize)
	}
	r.pool.Put(r.buf)
	r.buf, r.reserved, r.start, r.end, r.small = nil, 0, 0, 0, 0
}
