package events

import (
	"time"

	"github.com/slimwire/swp/profiles"
)

// audience is an index of the readers, so that an event wakes those that get it and costs
// nothing for the others. The mutex of the tail guards it.
type audience struct {
	access profiles.Access
	groups map[groupKey]*group
	rights map[string]*rights // by identity; of those with groups

	types, tasks, rpcs index
	begins             index // by the text before the star of a type; "" has the filters without types, tasks and rpcs
}

// group has the readers of one identity with equal filters.
type group struct {
	key     groupKey
	filter  *Filter
	rights  *rights
	readers int
	waiting *waiting // nil if no reader waits
}

type groupKey struct{ identity, filter string }

// index finds groups by a term of their filters.
type index struct {
	buckets map[string]bucket
	lengths map[int]int // how many terms have which length
}

// bucket has the groups with one term, by their rights: the rules are asked once for all
// groups of an identity.
type bucket map[*rights]map[*group]struct{}

// waiting are readers of a group that wait for its next event. They have examined every
// event before it.
type waiting struct {
	arrived chan struct{} // closed when first is set
	first   uint64        // number of the event; 0 before
}

func (a *audience) init(access profiles.Access) {
	a.access = access
	a.groups, a.rights = make(map[groupKey]*group), make(map[string]*rights)
	for _, in := range []*index{&a.types, &a.tasks, &a.rpcs, &a.begins} {
		*in = index{make(map[string]bucket), make(map[int]int)}
	}
}

// join adds a reader. The caller must call leave with the group later.
func (a *audience) join(identity string, f *Filter) *group {
	key := groupKey{identity, f.key()}
	g := a.groups[key]
	if g == nil {
		g = &group{key: key, filter: f, rights: a.rights[identity]}
		if g.rights == nil {
			g.rights = &rights{access: a.access, identity: identity}
			a.rights[identity] = g.rights
		}
		g.rights.groups++
		a.groups[key] = g
		a.each(g, (*index).add)
	}
	g.readers++
	return g
}

// leave removes a reader.
func (a *audience) leave(g *group) {
	if g.readers--; g.readers > 0 {
		return
	}
	delete(a.groups, g.key)
	a.each(g, (*index).remove)
	if g.rights.groups--; g.rights.groups == 0 {
		delete(a.rights, g.key.identity)
	}
}

// each calls do for the terms by which a group is found: the ones that select most.
func (a *audience) each(g *group, do func(in *index, term []byte, g *group)) {
	f := g.filter
	for _, id := range f.tasks {
		do(&a.tasks, id, g)
	}
	if len(f.tasks) > 0 {
		return
	}
	for _, id := range f.rpcs {
		do(&a.rpcs, id, g)
	}
	if len(f.rpcs) > 0 {
		return
	}
	for _, t := range f.types {
		if t.more {
			do(&a.begins, t.text, g)
		} else {
			do(&a.types, t.text, g)
		}
	}
	if len(f.types) == 0 {
		do(&a.begins, nil, g)
	}
}

func (in *index) add(term []byte, g *group) {
	b := in.buckets[string(term)]
	if b == nil {
		b = make(bucket)
		in.buckets[string(term)] = b
		in.lengths[len(term)]++
	}
	if b[g.rights] == nil {
		b[g.rights] = make(map[*group]struct{})
	}
	b[g.rights][g] = struct{}{}
}

// remove is the reverse of add. A filter may have a term twice.
func (in *index) remove(term []byte, g *group) {
	b := in.buckets[string(term)]
	if delete(b[g.rights], g); len(b[g.rights]) == 0 {
		delete(b, g.rights)
	}
	if b != nil && len(b) == 0 {
		delete(in.buckets, string(term))
		decrement(in.lengths, len(term))
	}
}

// reach returns what waits for an event, which is the next one of these readers.
func (a *audience) reach(e *entry) (woken []*waiting) {
	r := &e.record
	woken = a.types.buckets[string(r.EventType)].reach(e, woken)
	for n := range a.begins.lengths {
		if n <= len(r.EventType) {
			woken = a.begins.buckets[string(r.EventType[:n])].reach(e, woken)
		}
	}
	woken = a.tasks.buckets[string(r.TaskID)].reach(e, woken)
	return a.rpcs.buckets[string(r.RPCID)].reach(e, woken)
}

func (b bucket) reach(e *entry, woken []*waiting) []*waiting {
	for rights, groups := range b {
		if !rights.may(e.record.EventType) {
			continue
		}
		for g := range groups {
			if g.waiting != nil && g.filter.Match(&e.record) {
				woken = append(woken, g.wake(e.seq))
			}
		}
	}
	return woken
}

// all is reach for an entry of unknown content.
func (a *audience) all(seq uint64) (woken []*waiting) {
	for _, g := range a.groups {
		if g.waiting != nil {
			woken = append(woken, g.wake(seq))
		}
	}
	return woken
}

func (g *group) wake(seq uint64) (w *waiting) {
	w, g.waiting = g.waiting, nil
	w.first = seq
	return w
}

// wait returns what a reader waits for that has examined every event so far.
func (g *group) wait() *waiting {
	if g.waiting == nil {
		g.waiting = &waiting{arrived: make(chan struct{})}
	}
	return g.waiting
}

// rights are the answers of Access to an identity. One goroutine at a time may use them.
type rights struct {
	access   profiles.Access
	identity string // empty for this process, which may everything
	groups   int    // of the audience, that use them

	allowed map[string]bool // by event_type
	asked   time.Time       // time of the first answer in allowed
}

// accessTime is how long an answer of Access is cached, and accessTypes how many answers.
const (
	accessTime  = time.Second
	accessTypes = 64
)

// may reports whether the identity may subscribe to a type. Other types are treated as if
// they did not exist.
func (r *rights) may(eventType []byte) bool {
	if r.identity == "" || r.access == profiles.Everyone {
		return true
	}
	ok, known := r.allowed[string(eventType)]
	if now := time.Now(); !known || now.Sub(r.asked) >= accessTime {
		if len(r.allowed) >= accessTypes || now.Sub(r.asked) >= accessTime || r.allowed == nil {
			r.allowed, r.asked = make(map[string]bool), now
		}
		ok = r.access.Allowed(r.identity, "events", "subscribe", string(eventType))
		r.allowed[string(eventType)] = ok
	}
	return ok
}
