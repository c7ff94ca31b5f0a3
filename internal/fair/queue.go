package fair

import (
	"iter"

	"github.com/slimwire/swp/profiles"
)

// Queue serves its items in turn: one of each peer, for a peer one of each caller, and for a
// caller the oldest first. An identity that comes later is last in the present turn.
type Queue[T any] struct {
	n      int
	peers  fifo[*group[T]] // that have items; the next in turn is first
	byPeer map[string]*group[T]
	lines  map[string]*line[T] // by identity

	// Used again, so that an identity that comes and goes does not allocate.
	spareGroups []*group[T]
	spareLines  []*line[T]
}

// group is the part of a peer in the turns.
type group[T any] struct {
	peer  string
	lines fifo[*line[T]] // that have items; the next in turn is first
}

// line has the items of one identity.
type line[T any] struct {
	identity string
	of       *group[T]
	items    fifo[T]
}

// maxSpare bounds what is kept to be used again.
const maxSpare = 64

// Len returns the number of items.
func (q *Queue[T]) Len() int { return q.n }

// Push adds an item of an identity.
func (q *Queue[T]) Push(identity string, v T) {
	l := q.lines[identity]
	if l == nil {
		l = q.enter(identity)
	}
	l.items.push(v)
	q.n++
}

// enter adds an identity at the end of the turn.
func (q *Queue[T]) enter(identity string) *line[T] {
	if q.lines == nil {
		q.lines, q.byPeer = make(map[string]*line[T]), make(map[string]*group[T])
	}
	peer := profiles.Link(identity)
	g := q.byPeer[peer]
	if g == nil {
		g = reuse(&q.spareGroups)
		g.peer = peer
		q.byPeer[peer] = g
		q.peers.push(g)
	}
	l := reuse(&q.spareLines)
	l.identity, l.of = identity, g
	q.lines[identity] = l
	g.lines.push(l)
	return l
}

// Pop removes the next item of the first identity in turn that allow accepts, or of
// the first identity if allow is nil.
func (q *Queue[T]) Pop(allow func(identity string) bool) (v T, ok bool) {
	for i := range q.peers.len() {
		g := q.peers.at(i)
		for j := range g.lines.len() {
			if allow == nil || allow(g.lines.at(j).identity) {
				return q.serve(i, j, 0), true
			}
		}
	}
	return v, false
}

// Find is Pop for items that cannot all be served: it removes the first item that allow
// accepts, of the first identity in turn with such an item.
func (q *Queue[T]) Find(allow func(v T) bool) (v T, ok bool) {
	for i := range q.peers.len() {
		g := q.peers.at(i)
		for j := range g.lines.len() {
			items := &g.lines.at(j).items
			for k := range items.len() {
				if allow(items.at(k)) {
					return q.serve(i, j, k), true
				}
			}
		}
	}
	return v, false
}

// serve removes an item, by the places of its group, line and itself, and ends the turn of
// its identity.
func (q *Queue[T]) serve(group, line, item int) T {
	g := q.peers.remove(group)
	l := g.lines.remove(line)
	v := l.items.remove(item)
	q.n--
	if l.items.len() > 0 {
		g.lines.push(l)
	} else {
		q.forget(l)
	}
	if g.lines.len() > 0 {
		q.peers.push(g)
	} else {
		q.dissolve(g)
	}
	return v
}

// Remove removes an item of an identity without a turn, the first for which is returns true.
// It reports whether there was one.
func (q *Queue[T]) Remove(identity string, is func(v T) bool) bool {
	l := q.lines[identity]
	if l == nil {
		return false
	}
	for k := range l.items.len() {
		if is(l.items.at(k)) {
			l.items.remove(k)
			q.n--
			q.tidy(l)
			return true
		}
	}
	return false
}

// tidy takes the turn from a line without items.
func (q *Queue[T]) tidy(l *line[T]) {
	if l.items.len() > 0 {
		return
	}
	g := l.of
	without(&g.lines, l)
	q.forget(l)
	if g.lines.len() == 0 {
		without(&q.peers, g)
		q.dissolve(g)
	}
}

func without[P comparable](f *fifo[P], v P) {
	for i := range f.len() {
		if f.at(i) == v {
			f.remove(i)
			return
		}
	}
}

func (q *Queue[T]) forget(l *line[T]) {
	delete(q.lines, l.identity)
	l.identity, l.of = "", nil
	keep(&q.spareLines, l)
}

func (q *Queue[T]) dissolve(g *group[T]) {
	delete(q.byPeer, g.peer)
	g.peer = ""
	keep(&q.spareGroups, g)
}

// Waiting returns the number of items of each identity, in no order.
func (q *Queue[T]) Waiting() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for identity, l := range q.lines {
			if !yield(identity, l.items.len()) {
				return
			}
		}
	}
}

func reuse[V any](spare *[]*V) *V {
	n := len(*spare)
	if n == 0 {
		return new(V)
	}
	v := (*spare)[n-1]
	(*spare)[n-1], *spare = nil, (*spare)[:n-1]
	return v
}

func keep[V any](spare *[]*V, v *V) {
	if len(*spare) < maxSpare {
		*spare = append(*spare, v)
	}
}
