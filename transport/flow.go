package transport

import (
	"io"
	"os"
	"sync"
	"time"
)

// flow is one direction of an in-memory stream: a bounded queue of octets between one
// reader and one writer. It waits only on a sync.Cond and on timers, so that
// testing/synctest can detect that it is blocked.
type flow struct {
	mu    sync.Mutex
	wake  sync.Cond // any change below
	buf   []byte    // unread octets are buf[start:]
	start int
	limit int // octets that may be unread

	fin  bool  // nothing more will be written
	read bool  // the reader has seen the end, or was aborted
	rerr error // what Read fails with, before anything buffered
	last error // what Read fails with behind the buffer once fin is set; io.EOF if nil
	werr error // what Write fails with

	rdl, wdl deadline
}

func newFlow(limit int) *flow {
	f := &flow{limit: limit}
	f.wake.L = &f.mu
	return f
}

func (f *flow) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.rerr != nil:
			return 0, f.rerr
		case f.rdl.passed:
			return 0, os.ErrDeadlineExceeded
		case f.start < len(f.buf):
			n := copy(p, f.buf[f.start:])
			if f.start += n; f.start == len(f.buf) {
				f.buf, f.start = f.buf[:0], 0
			}
			f.wake.Broadcast()
			return n, nil
		case f.fin:
			f.read = true
			if f.last != nil {
				return 0, f.last
			}
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		f.wake.Wait()
	}
}

func (f *flow) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for {
		switch {
		case f.werr != nil:
			return n, f.werr
		case f.fin:
			return n, io.ErrClosedPipe
		case f.wdl.passed:
			return n, os.ErrDeadlineExceeded
		}
		if room := f.limit - (len(f.buf) - f.start); room > 0 && len(p) > 0 {
			take := min(room, len(p))
			if len(f.buf)+take > cap(f.buf) && f.start > 0 {
				f.buf, f.start = f.buf[:copy(f.buf, f.buf[f.start:])], 0
			}
			f.buf = append(f.buf, p[:take]...)
			n, p = n+take, p[take:]
			f.wake.Broadcast()
		}
		if len(p) == 0 {
			return n, nil
		}
		f.wake.Wait()
	}
}

// finish ends the stream after the buffered octets: the reader then gets io.EOF. Later
// writes fail with werr, or with io.ErrClosedPipe if it is nil.
func (f *flow) finish(werr error) { f.conclude(nil, werr) }

// conclude is finish, but the reader gets last in place of io.EOF. The first call decides.
func (f *flow) conclude(last, werr error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fin {
		f.fin, f.last = true, last
	}
	if f.werr == nil {
		f.werr = werr
	}
	f.wdl.stop()
	f.wake.Broadcast()
}

// reset is abort by the writer. It changes nothing after conclude: the reader still gets what
// was written, and then the first reason.
func (f *flow) reset(rerr, werr error) {
	f.mu.Lock()
	concluded := f.last != nil
	f.mu.Unlock()
	if !concluded {
		f.abort(rerr, werr)
	}
}

// abort fails both sides at once and drops what is buffered. The first abort
// decides the errors.
func (f *flow) abort(rerr, werr error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rerr == nil {
		f.rerr = rerr
	}
	if f.werr == nil {
		f.werr = werr
	}
	f.fin, f.read = true, true
	f.buf, f.start = nil, 0
	f.rdl.stop()
	f.wdl.stop()
	f.wake.Broadcast()
}

// probe is Prober.Probe.
func (f *flow) probe() (rest int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.rerr != nil:
		return 0, f.rerr
	case f.fin:
		return int64(len(f.buf) - f.start), nil
	}
	return -1, nil
}

// over reports whether the direction is finished for both sides.
func (f *flow) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fin && f.read
}

// finished reports whether nothing more will be written.
func (f *flow) finished() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fin
}

func (f *flow) setDeadline(d *deadline, t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		set := d.set
		d.timer = time.AfterFunc(left, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if d.set == set {
				d.passed = true
				f.wake.Broadcast()
			}
		})
		return
	}
	d.passed = true
	f.wake.Broadcast()
}

// deadline is guarded by the mutex of its flow.
type deadline struct {
	passed bool
	timer  *time.Timer
	set    uint64 // counts stops, so that a timer which fired late changes nothing
}

func (d *deadline) stop() {
	d.set++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
