package workers

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/profiles/a2a"
)

// roster are those who carry out tasks as one section of the configuration has them, by
// name. One whose entry is as it was stays who it is. Another one, or none, takes the
// place of the others at once; they leave when the last task that they were given has
// ended. Reloads come one at a time; everything else may be done meanwhile.
type roster[C any, E executor] struct {
	key   string                                // of the section
	build func(name string, conf *C) (E, error) // connects and starts nothing
	bare  func(conf C) C                        // an entry without what only is declared
	left  func(name string)                     // the last one of a name has left

	mu   sync.Mutex
	now  map[string]*enlisted[C, E]   // in force, by name
	here map[*enlisted[C, E]]struct{} // these, and those that leave
}

// executor carries out tasks.
type executor interface {
	registrations() []a2a.Registration
	close() // nobody uses it any more
}

// enlisted is an executor with its entry.
type enlisted[C any, E executor] struct {
	is    E
	name  string
	conf  C
	tasks []a2a.Registration
	kinds atomic.Int32 // Registrations that something is left to do for
}

// prepare returns the executors of a section: those that are in force where their entry
// is the same, else new ones.
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

// named returns the executor that has a name now, nil if there is none.
func (r *roster[C, E]) named(name string) *enlisted[C, E] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now[name]
}

// abandon gives back what prepare has made.
func (r *roster[C, E]) abandon(next map[string]*enlisted[C, E]) {
	for name, one := range next {
		if r.named(name) != one {
			one.is.close()
		}
	}
}

// put has others be in force, and returns the Registrations that end and that begin with
// it.
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

// inForce returns those that are in force, by name.
func (r *roster[C, E]) inForce() (list []*enlisted[C, E]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.now)) {
		list = append(list, r.now[name])
	}
	return list
}

// registrations are the Workers of those in force.
func (r *roster[C, E]) registrations() (list []a2a.Registration) {
	for _, one := range r.inForce() {
		list = append(list, one.tasks...)
	}
	return list
}

// leave gives back an executor that nothing is left to do for.
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

// list returns those that are in force and those that leave.
func (r *roster[C, E]) list() []*enlisted[C, E] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.here))
}

// close gives back all, once no task is under way.
func (r *roster[C, E]) close() {
	r.mu.Lock()
	all := r.here
	r.now, r.here = nil, nil
	r.mu.Unlock()
	for one := range all {
		one.is.close()
	}
}
