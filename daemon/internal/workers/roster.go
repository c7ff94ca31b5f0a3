package workers

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/profiles/a2a"
)

// roster holds the executors of tasks from one section of the configuration, by name. A
// reload keeps an executor whose entry has not changed. A changed or removed one gets no
// new tasks and is closed after its last task. Reloads are serial; all other methods are
// safe for concurrent use.
type roster[C any, E executor] struct {
	key   string                                // key of the section
	build func(name string, conf *C) (E, error) // makes an executor; connects and starts nothing
	bare  func(conf C) C                        // an entry without its declared hints
	left  func(name string)                     // called when the last executor of a name was closed

	mu   sync.Mutex
	now  map[string]*enlisted[C, E]   // current executors, by name
	here map[*enlisted[C, E]]struct{} // current executors, and those that finish their last tasks
}

type executor interface {
	registrations() []a2a.Registration
	close() // called when it is no longer in use
}

// enlisted is an executor with its entry of the configuration.
type enlisted[C any, E executor] struct {
	is    E
	name  string
	conf  C
	tasks []a2a.Registration
	kinds atomic.Int32 // Registrations with unfinished tasks
}

// prepare returns the executors of a section: current ones whose entry has not changed,
// else new ones.
func (r *roster[C, E]) prepare(section map[string]C) (map[string]*enlisted[C, E], error) {
	next := make(map[string]*enlisted[C, E], len(section))
	for _, name := range slices.Sorted(maps.Keys(section)) {
		conf := section[name]
		if old := r.named(name); old != nil && reflect.DeepEqual(r.bare(old.conf), r.bare(conf)) {
			next[name] = old
			continue
		}
		one, err := r.build(name, &conf)
		if err != nil {
			r.abandon(next)
			return nil, fmt.Errorf("%s.%s: %w", r.key, name, err)
		}
		next[name] = r.enlist(name, &conf, one)
	}
	return next, nil
}

func (r *roster[C, E]) enlist(name string, conf *C, one E) *enlisted[C, E] {
	e := &enlisted[C, E]{is: one, name: name, conf: *conf, tasks: one.registrations()}
	e.kinds.Store(int32(len(e.tasks)))
	for i := range e.tasks {
		e.tasks[i].Left = func() {
			if e.kinds.Add(-1) == 0 {
				r.leave(e)
			}
		}
	}
	return e
}

// named returns the current executor of a name, or nil.
func (r *roster[C, E]) named(name string) *enlisted[C, E] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now[name]
}

// abandon closes the new executors that prepare made.
func (r *roster[C, E]) abandon(next map[string]*enlisted[C, E]) {
	for name, one := range next {
		if r.named(name) != one {
			one.is.close()
		}
	}
}

// put makes next current, and returns the Registrations to remove and to add.
func (r *roster[C, E]) put(next map[string]*enlisted[C, E]) (gone, come []a2a.Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, one := range r.now {
		if next[name] != one {
			gone = append(gone, one.tasks...)
		}
	}
	if r.here == nil {
		r.here = make(map[*enlisted[C, E]]struct{})
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if one := next[name]; r.now[name] != one {
			come = append(come, one.tasks...)
			r.here[one] = struct{}{}
		}
	}
	r.now = next
	return gone, come
}

// record makes next current, and has a record of each executor, without what is known of changed ones.
func record[C any, E executor](records *health.Records, kind health.Kind, r *roster[C, E], next map[string]*enlisted[C, E]) (gone, come []a2a.Registration) {
	records.Set(kind, slices.Collect(maps.Keys(next))...)
	for _, one := range r.inForce() {
		if next[one.name] != one {
			records.Of(kind, one.name).Changed()
		}
	}
	return r.put(next)
}

// inForce returns the current executors, by name.
func (r *roster[C, E]) inForce() (list []*enlisted[C, E]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.now)) {
		list = append(list, r.now[name])
	}
	return list
}

// registrations returns the Workers of the current executors.
func (r *roster[C, E]) registrations() (list []a2a.Registration) {
	for _, one := range r.inForce() {
		list = append(list, one.tasks...)
	}
	return list
}

// leave closes an executor without unfinished tasks.
func (r *roster[C, E]) leave(one *enlisted[C, E]) {
	r.mu.Lock()
	_, here := r.here[one]
	delete(r.here, one)
	last := true
	for other := range r.here {
		last = last && other.name != one.name
	}
	r.mu.Unlock()
	if !here { // all were closed
		return
	}
	one.is.close()
	if last {
		r.left(one.name)
	}
}

// list returns all executors that are not closed.
func (r *roster[C, E]) list() []*enlisted[C, E] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.here))
}

// close closes all executors. No task may be running.
func (r *roster[C, E]) close() {
	r.mu.Lock()
	all := r.here
	r.now, r.here = nil, nil
	r.mu.Unlock()
	for one := range all {
		one.is.close()
	}
}
