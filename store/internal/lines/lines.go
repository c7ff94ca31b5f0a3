// Package lines performs the operations of an engine of store.Blobs: for one name in the
// order of their submission, for different names concurrently.
package lines

import (
	"sync"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
)

// Operation is a submitted operation. Args is what the engine needs to perform it, and OK
// and Err what Done is called with after that.
type Operation[A any] struct {
	Owner  string // who uses its place and its octets
	Octets int    // in memory while it waits
	Joins  bool   // it may be performed together with neighbours that join
	Args   A
	Done   func(ok bool, err error)
	OK     bool
	Err    error
}

// Options configure Lines.
type Options[A any] struct {
	// Length and Octets limit what waits; owners share both. A single operation of any size
	// is accepted.
	Length, Octets int

	// Together limits the octets of operations that are performed together.
	Together int

	// Perform performs one operation, or several that join, and sets OK and Err of each.
	Perform func(name string, ops []*Operation[A])

	// Owner returns the owner of operations of a name that have none and have no other one
	// before them. It is called with a mutex of Lines held. May be nil.
	Owner func(name string) string

	// Idle is called when nothing waits for a name any more, with a mutex of Lines held.
	// May be nil.
	Idle func(name string)
}

// Lines holds the operations that wait. All methods can be called concurrently.
type Lines[A any] struct {
	options Options[A]

	mu      sync.Mutex
	lines   map[string]*line[A] // of names that have a goroutine or are claimed
	waiting fair.Shares         // operations, by owner
	octets  fair.Shares         // of those
	closed  bool
	work    sync.WaitGroup // goroutines of names, and claims
}

// line is guarded by the mutex of Lines.
type line[A any] struct {
	name    string
	waiting []*Operation[A]
	telling bool // its goroutine only calls Done
	claimed bool // see Claim
	working bool // it has a goroutine
}

// New returns Lines without operations.
func New[A any](o Options[A]) *Lines[A] {
	return &Lines[A]{
		options: o, lines: make(map[string]*line[A]),
		waiting: fair.NewShares(o.Length), octets: fair.NewShares(o.Octets),
	}
}

// Submit enters an operation. It never waits: a separate goroutine reports a refusal, which
// is store.ErrClosed, store.ErrBusy or store.ErrShare.
func (l *Lines[A]) Submit(name string, op *Operation[A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.lines[name]
	if op.Owner == "" {
		op.Owner = l.owner(name, of)
	}
	var refuse *store.Error
	switch {
	case l.closed:
		refuse = store.ErrClosed
	case l.waiting.Used() > 0:
		refuse = l.busy(op)
	}
	if refuse != nil {
		go op.Done(false, refuse)
		return
	}
	l.waiting.Force(op.Owner, 1)
	l.octets.Force(op.Owner, op.Octets)
	if of == nil {
		of = l.add(name)
	}
	of.waiting = append(of.waiting, op)
	if !of.working && !of.claimed {
		l.start(of)
	}
}

func (l *Lines[A]) add(name string) *line[A] {
	of := &line[A]{name: name}
	l.lines[name] = of
	return of
}

func (l *Lines[A]) start(of *line[A]) {
	of.working = true
	l.work.Go(func() { l.serve(of) })
}

// owner returns the owner of the last operation that waits for a name. The caller holds mu.
func (l *Lines[A]) owner(name string, of *line[A]) string {
	switch {
	case of != nil && len(of.waiting) > 0:
		return of.waiting[len(of.waiting)-1].Owner
	case l.options.Owner != nil:
		return l.options.Owner(name)
	}
	return ""
}

// busy returns why an operation cannot wait; nil if it can. The caller holds mu.
func (l *Lines[A]) busy(op *Operation[A]) *store.Error {
	switch max(l.waiting.Ask(op.Owner, 1), l.octets.Ask(op.Owner, op.Octets)) {
	case fair.Taken:
		return nil
	case fair.Full:
		return store.ErrShare
	}
	return store.ErrBusy
}

// serve performs the operations of one name until none is left.
func (l *Lines[A]) serve(of *line[A]) {
	for {
		l.mu.Lock()
		of.telling = false
		if of.claimed {
			of.working = false
			l.mu.Unlock()
			return // the end of the claim starts another goroutine
		}
		ops := of.waiting
		of.waiting = nil
		if len(ops) == 0 {
			of.working = false
			l.forget(of)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for len(ops) > 0 {
			n := l.together(ops)
			l.options.Perform(of.name, ops[:n])
			l.mu.Lock()
			for _, op := range ops[:n] {
				l.waiting.Give(op.Owner, 1)
				l.octets.Give(op.Owner, op.Octets)
			}
			of.telling = len(ops) == n
			l.mu.Unlock()
			for _, op := range ops[:n] {
				op.Done(op.OK, op.Err)
			}
			ops = ops[n:]
		}
	}
}

// together returns how many of the first operations are performed together.
func (l *Lines[A]) together(ops []*Operation[A]) int {
	n, octets := 1, ops[0].Octets
	for ops[0].Joins && n < len(ops) && ops[n].Joins && octets+ops[n].Octets <= l.options.Together {
		octets += ops[n].Octets
		n++
	}
	return n
}

// forget removes a line without operations. The caller holds mu.
func (l *Lines[A]) forget(of *line[A]) {
	delete(l.lines, of.name)
	if l.options.Idle != nil {
		l.options.Idle(of.name)
	}
}

// Claim keeps operations of a name from being performed until release is called. ok is false
// while one is performed, and after Close has begun.
func (l *Lines[A]) Claim(name string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.lines[name]
	switch {
	case l.closed:
		return nil, false
	case of == nil:
		of = l.add(name)
	case of.claimed || of.working && !of.telling:
		return nil, false
	}
	of.claimed = true
	l.work.Add(1)
	return func() {
		defer l.work.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		of.claimed = false
		switch {
		case of.working: // it calls Done, and goes on
		case len(of.waiting) > 0:
			l.start(of)
		default:
			l.forget(of)
		}
	}, true
}

// Pool returns whose operations wait.
func (l *Lines[A]) Pool(name string) fair.Pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Pool(name)
}

// Close refuses further operations. It returns after the last one was performed, Done of each
// was called, and each claim was released.
func (l *Lines[A]) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
}
