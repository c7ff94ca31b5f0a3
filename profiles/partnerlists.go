package profiles

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// PartnerLists holds the lists of partners, by partner name. The list of a partner stays
// while the partner is away. The zero value is empty. It is safe for concurrent use.
type PartnerLists[E any] struct {
	Now func() time.Time // nil means time.Now

	mu    sync.Mutex
	lists map[string]*partnerList[E]
}

type partnerList[E any] struct {
	entries []E
	away    time.Time // since when; zero: the partner is there
}

func (p *PartnerLists[E]) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// Set has entries be the list of a partner that is there, in place of the one before.
// Nobody changes entries afterwards.
func (p *PartnerLists[E]) Set(partner string, entries []E) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists == nil {
		p.lists = make(map[string]*partnerList[E])
	}
	p.lists[partner] = &partnerList[E]{entries: entries}
}

// Away says that a partner is not there any more.
func (p *PartnerLists[E]) Away(partner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lists[partner]; l != nil && l.away.IsZero() {
		l.away = p.now()
	}
}

// Forget drops the list of a partner.
func (p *PartnerLists[E]) Forget(partner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lists, partner)
}

// Stale returns for how many milliseconds a partner has been away, at least 1; 0 if it is
// there or has listed nothing.
func (p *PartnerLists[E]) Stale(partner string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stale(partner)
}

func (p *PartnerLists[E]) stale(partner string) int64 {
	l := p.lists[partner]
	if l == nil || l.away.IsZero() {
		return 0
	}
	return max(p.now().Sub(l.away).Milliseconds(), 1)
}

// All yields the list of each partner with the result of Stale, in order of the partner
// names. yield must not use p.
func (p *PartnerLists[E]) All(yield func(entries []E, stale int64) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, partner := range slices.Sorted(maps.Keys(p.lists)) {
		if !yield(p.lists[partner].entries, p.stale(partner)) {
			return
		}
	}
}
