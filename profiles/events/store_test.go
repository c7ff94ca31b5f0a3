package events_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// memory is a Store whose medium a test can stall, fill up and let age. Like an
// engine it commits on one goroutine, in the order of submission.
type memory struct {
	store.Logs // panics where Trim and Drop are called

	mu      sync.Mutex
	first   uint64 // number of log[0]
	log     []stored
	ids     map[string]uint64
	records map[string]kept
	version uint64
	quota   int // entries of the log, 0 = no limit
	writes  int // entries written
	reads   int // calls of Read

	work chan func()
	done chan struct{}
}

type stored struct {
	id   string
	data []byte
	lost bool // its number stays used
}

type kept struct {
	version uint64
	value   []byte
}

func newMemory(t testing.TB) *memory {
	m := &memory{first: 1, ids: make(map[string]uint64), records: make(map[string]kept), work: make(chan func(), 1<<16), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for f := range m.work {
			f()
		}
	}()
	t.Cleanup(func() {
		close(m.work)
		<-m.done
	})
	return m
}

// stall stops commits until the function it returns is called.
func (m *memory) stall() (resume func()) {
	gate := make(chan struct{})
	m.work <- func() { <-gate }
	return sync.OnceFunc(func() { close(gate) })
}

// update changes what is stored, as nobody but a test could.
func (m *memory) update(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// forget lets the entries up to a number expire.
func (m *memory) forget(through uint64) {
	m.update(func() {
		for m.first <= through && len(m.log) > 0 {
			delete(m.ids, m.log[0].id)
			m.log = m.log[1:]
			m.first++
		}
	})
}

// lose leaves out entries by their numbers, as the repair of a damaged store does.
func (m *memory) lose(numbers ...uint64) {
	m.update(func() {
		for _, n := range numbers {
			delete(m.ids, m.log[n-m.first].id)
			m.log[n-m.first].lost = true
		}
	})
}

// quotaError is what an engine says of a quota that is used up.
type quotaError struct{ error }

func (quotaError) StoreDetail() string { return "store_quota" }
func (quotaError) Retryable() bool     { return true }

var errQuota = quotaError{errors.New("quota")}

func (m *memory) Append(_, _, id, _ string, data []byte, _ time.Time, done func(store.AppendResult)) {
	m.work <- func() {
		m.mu.Lock()
		seq, known := m.ids[id]
		equal, full := false, false
		switch {
		case known:
			equal = string(m.log[seq-m.first].data) == string(data)
		case m.quota > 0 && len(m.log) >= m.quota:
			full = true
		default:
			seq = m.first + uint64(len(m.log))
			m.log = append(m.log, stored{id: id, data: slices.Clone(data)})
			m.ids[id] = seq
			m.writes++
		}
		m.mu.Unlock()
		if full {
			done(store.AppendResult{Err: errQuota})
			return
		}
		done(store.AppendResult{Seq: seq, Fresh: !known, Equal: equal})
	}
}

func (m *memory) Read(ctx context.Context, _, _ string, after uint64, yield func(uint64, string, []byte) bool) error {
	m.update(func() { m.reads++ })
	for ctx.Err() == nil {
		m.mu.Lock()
		next := max(after+1, m.first)
		if next-m.first >= uint64(len(m.log)) {
			m.mu.Unlock()
			return nil
		}
		e := m.log[next-m.first]
		m.mu.Unlock()
		if e.lost {
			after = next
			continue
		}
		octets := slices.Clone(e.data)
		more := yield(next, e.id, octets)
		clear(octets)
		if !more {
			return nil
		}
		after = next
	}
	return ctx.Err()
}

func (m *memory) Span(context.Context, string, string) (first, last uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first, m.first + uint64(len(m.log)) - 1, nil
}

func (m *memory) Put(space, key string, was uint64, _ string, value []byte, _ time.Time, done func(store.PutResult)) {
	m.work <- func() {
		m.mu.Lock()
		old := m.records[space+"/"+key]
		wrote := old.version == was
		if wrote {
			m.version++
			old = kept{m.version, slices.Clone(value)}
			m.records[space+"/"+key] = old
		}
		m.mu.Unlock()
		if wrote {
			done(store.PutResult{Wrote: true, Version: old.version})
			return
		}
		done(store.PutResult{Version: old.version, Current: old.value})
	}
}

func (m *memory) Delete(space, key string, was uint64, done func(bool, error)) {
	m.work <- func() {
		m.mu.Lock()
		old := m.records[space+"/"+key]
		removed := was == 0 || old.version == was
		if removed {
			delete(m.records, space+"/"+key)
		}
		m.mu.Unlock()
		done(removed, nil)
	}
}

func (m *memory) Get(_ context.Context, space, key string) (uint64, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[space+"/"+key]
	return r.version, slices.Clone(r.value), nil
}

func (m *memory) Scan(_ context.Context, space, prefix, after string, yield func(string, uint64, []byte) bool) error {
	m.mu.Lock()
	records := maps.Clone(m.records)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		key, ok := strings.CutPrefix(name, space+"/")
		if ok && strings.HasPrefix(key, prefix) && key > after && !yield(key, records[name].version, records[name].value) {
			return nil
		}
	}
	return nil
}
