package a2a_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// disk is what survives the processes that use it.
type disk struct {
	mu      sync.Mutex
	version uint64
	records map[[2]string]record
	logs    map[[2]string]*log
	now     func() time.Time
}

type record struct {
	version uint64
	value   []byte
	expires time.Time
}

type log struct {
	last    uint64
	entries []logEntry
}

type logEntry struct {
	seq     uint64
	id      string
	data    []byte
	expires time.Time
}

func newDisk() *disk {
	return &disk{records: make(map[[2]string]record), logs: make(map[[2]string]*log), now: time.Now}
}

// memory is a store on a disk, as one process has it open. It does what package
// store promises, in memory, and fails when it is told to.
type memory struct {
	store.Logs // panics where Append, Trim and Drop are called

	*disk
	work sync.WaitGroup

	queue chan func()
	gate  chan struct{} // one slot, filled to stop the writer

	count   sync.Mutex
	ops     int    // writes and reads so far
	failAt  int    // number of the first operation that fails, or 0
	failFor int    // how many operations fail from there on
	applied bool   // those that fail are carried out all the same
	poor    string // owner that has no room left
	closed  bool
}

// The errors of operations that were told to fail.
var (
	unavailable = fmt.Errorf("memory: %w", store.ErrUnavailable)
	noRoom      = fmt.Errorf("memory: %w", store.ErrQuota)
)

// impoverish leaves an owner no room.
func (m *memory) impoverish(owner string) {
	m.count.Lock()
	defer m.count.Unlock()
	m.poor = owner
}

func (m *memory) room(owner string) error {
	m.count.Lock()
	defer m.count.Unlock()
	if owner == m.poor && owner != "" {
		return noRoom
	}
	return nil
}

// open opens a disk until the test ends.
func (d *disk) open(t testing.TB) *memory {
	m := &memory{disk: d, queue: make(chan func(), 1<<16), gate: make(chan struct{}, 1)}
	m.work.Go(func() {
		for f := range m.queue {
			m.gate <- struct{}{}
			<-m.gate
			f()
		}
	})
	t.Cleanup(m.close)
	return m
}

// close lets go of the disk: what was submitted and not done is lost.
func (m *memory) close() {
	m.count.Lock()
	first := !m.closed
	m.closed = true
	m.count.Unlock()
	if first {
		close(m.queue)
	}
	m.work.Wait()
}

// operations returns the writes and reads so far.
func (m *memory) operations() int {
	m.count.Lock()
	defer m.count.Unlock()
	return m.ops
}

// step counts an operation and says whether it fails, and whether it is carried
// out.
func (m *memory) step() (err error, apply bool) { //nolint:revive // the error is the point
	m.count.Lock()
	defer m.count.Unlock()
	if m.closed {
		return unavailable, false
	}
	m.ops++
	if m.failAt > 0 && m.ops >= m.failAt && m.ops < m.failAt+m.failFor {
		return unavailable, m.applied
	}
	return nil, true
}

// fault has operations fail, from the n-th on.
func (m *memory) fault(n, ops int, applied bool) {
	m.count.Lock()
	defer m.count.Unlock()
	m.ops, m.failAt, m.failFor, m.applied = 0, n, ops, applied
}

// faulted reports whether one has.
func (m *memory) faulted() bool {
	m.count.Lock()
	defer m.count.Unlock()
	return m.ops >= m.failAt
}

func (m *memory) submit(f func()) {
	m.count.Lock()
	defer m.count.Unlock()
	if m.closed {
		go f()
		return
	}
	m.queue <- f
}

func (m *memory) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	m.submit(func() {
		err, apply := m.step()
		if full := m.room(owner); full != nil {
			err, apply = full, false
		}
		if !apply {
			done(store.PutResult{Err: err})
			return
		}
		m.mu.Lock()
		at := [2]string{space, key}
		r, ok := m.records[at]
		if ok && m.expired(r.expires) {
			r = record{}
		}
		wrote := r.version == was
		if wrote {
			m.version++
			r = record{m.version, slices.Clone(value), expires}
			m.records[at] = r
		}
		m.mu.Unlock()
		switch {
		case err != nil:
			done(store.PutResult{Err: err})
		case wrote:
			done(store.PutResult{Wrote: true, Version: r.version})
		default:
			done(store.PutResult{Version: r.version, Current: slices.Clone(r.value)})
		}
	})
}

func (m *memory) expired(at time.Time) bool { return !at.IsZero() && !m.now().Before(at) }

func (m *memory) Delete(space, key string, was uint64, done func(bool, error)) {
	m.submit(func() {
		err, apply := m.step()
		removed := false
		if apply {
			m.mu.Lock()
			at := [2]string{space, key}
			if r, ok := m.records[at]; !ok || was == 0 || r.version == was {
				removed = true
				delete(m.records, at)
			}
			m.mu.Unlock()
		}
		done(removed && err == nil, err)
	})
}

func (m *memory) Get(ctx context.Context, space, key string) (uint64, []byte, error) {
	if err, _ := m.step(); err != nil {
		return 0, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[[2]string{space, key}]
	if m.expired(r.expires) {
		return 0, nil, ctx.Err()
	}
	return r.version, slices.Clone(r.value), ctx.Err()
}

func (m *memory) Scan(ctx context.Context, space, prefix, after string, yield func(string, uint64, []byte) bool) error {
	if err, _ := m.step(); err != nil {
		return err
	}
	m.mu.Lock()
	found := maps.Clone(m.records)
	m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(found), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) })
	for _, at := range keys {
		r := found[at]
		if at[0] != space || !strings.HasPrefix(at[1], prefix) || at[1] <= after || m.expired(r.expires) {
			continue
		}
		if !yield(at[1], r.version, slices.Clone(r.value)) {
			break
		}
	}
	return ctx.Err()
}

func (m *memory) AppendAll(space, name, owner string, entries []store.Entry, expires time.Time, done func(store.AppendAllResult)) {
	m.submit(func() {
		err, apply := m.step()
		if full := m.room(owner); full != nil {
			err, apply = full, false
		}
		if !apply {
			done(store.AppendAllResult{Err: err})
			return
		}
		var seqs []uint64
		m.mu.Lock()
		l := m.log(space, name)
		for _, e := range entries {
			if i := slices.IndexFunc(l.entries, func(there logEntry) bool { return e.ID != "" && there.id == e.ID }); i >= 0 {
				seqs = append(seqs, l.entries[i].seq)
				continue
			}
			l.last++
			l.entries = append(l.entries, logEntry{l.last, e.ID, slices.Clone(e.Data), expires})
			seqs = append(seqs, l.last)
		}
		m.mu.Unlock()
		if err != nil {
			done(store.AppendAllResult{Err: err})
			return
		}
		done(store.AppendAllResult{Seqs: seqs})
	})
}

func (m *memory) log(space, name string) *log {
	at := [2]string{space, name}
	if m.logs[at] == nil {
		m.logs[at] = new(log)
	}
	return m.logs[at]
}

func (m *memory) Read(ctx context.Context, space, name string, after uint64, yield func(uint64, string, []byte) bool) error {
	if err, _ := m.step(); err != nil {
		return err
	}
	m.mu.Lock()
	entries := slices.Clone(m.log(space, name).entries)
	m.mu.Unlock()
	for _, e := range entries {
		if e.seq <= after || m.expired(e.expires) {
			continue
		}
		data := slices.Clone(e.data)
		more := yield(e.seq, e.id, data)
		clear(data)
		if !more {
			break
		}
	}
	return ctx.Err()
}

func (m *memory) Span(_ context.Context, space, name string) (first, last uint64, err error) {
	if err, _ := m.step(); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.log(space, name)
	for _, e := range l.entries {
		if !m.expired(e.expires) {
			return e.seq, l.last, nil
		}
	}
	return l.last + 1, l.last, nil
}

// trim forgets the first entries of every log.
func (d *disk) trim(through uint64) { d.lose(1, through) }

// lose removes the entries of all logs with numbers from first to last.
func (d *disk) lose(first, last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		l.entries = slices.DeleteFunc(l.entries, func(e logEntry) bool { return first <= e.seq && e.seq <= last })
	}
}

// size counts what is held of a space.
func (d *disk) size(space string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := range d.records {
		if at[0] == space {
			n++
		}
	}
	return n
}
