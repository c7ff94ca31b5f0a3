package profiles

import (
	"strings"
	"sync"
)

// PartnerAnswers keep single answers of partners, by the full name of the subject, which
// begins with the name of the partner, and a detail of the question, such as a version.
// Answers above a bound are not kept. It is safe for concurrent use.
type PartnerAnswers[A any] struct {
	Most       int                // answers and listed entries of one partner together
	MostOctets int                // and their octets
	Size       func(answer A) int // octets of an answer

	mu sync.Mutex
	of map[string]*partnerAnswers[A]
}

type partnerAnswers[A any] struct {
	kept   map[answerKey]A
	listed int // entries of the list
	octets int // of all
}

type answerKey struct{ name, about string }

// set has a partner have no answers, and a list. The caller holds mu.
func (p *PartnerAnswers[A]) set(partner string, entries, octets int) *partnerAnswers[A] {
	if p.of == nil {
		p.of = make(map[string]*partnerAnswers[A])
	}
	l := &partnerAnswers[A]{kept: make(map[answerKey]A), listed: entries, octets: octets}
	p.of[partner] = l
	return l
}

// Listed notes that a partner has a new list with so many entries and octets, and drops
// the answers about names that are not listed, because the partner may have revoked them.
func (p *PartnerAnswers[A]) Listed(partner string, entries, octets int, listed func(name string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.of[partner]
	now := p.set(partner, entries, octets)
	if before == nil {
		return
	}
	for key, answer := range before.kept {
		if listed(key.name) {
			p.put(now, key, answer)
		}
	}
}

// Keep keeps an answer in place of the one before.
func (p *PartnerAnswers[A]) Keep(name, about string, answer A) {
	p.mu.Lock()
	defer p.mu.Unlock()
	partner, _, _ := strings.Cut(name, "/")
	l := p.of[partner]
	if l == nil {
		l = p.set(partner, 0, 0)
	}
	p.put(l, answerKey{name, about}, answer)
}

// put keeps an answer if there is room for it. The caller holds mu.
func (p *PartnerAnswers[A]) put(l *partnerAnswers[A], key answerKey, answer A) {
	p.drop(l, key)
	if size := p.Size(answer); len(l.kept)+l.listed < p.Most && l.octets+size <= p.MostOctets {
		l.kept[key] = answer
		l.octets += size
	}
}

// drop drops an answer. The caller holds mu.
func (p *PartnerAnswers[A]) drop(l *partnerAnswers[A], key answerKey) {
	if answer, ok := l.kept[key]; ok {
		l.octets -= p.Size(answer)
		delete(l.kept, key)
	}
}

// Get returns an answer that was kept.
func (p *PartnerAnswers[A]) Get(name, about string) (answer A, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	partner, _, _ := strings.Cut(name, "/")
	if l := p.of[partner]; l != nil {
		answer, ok = l.kept[answerKey{name, about}]
	}
	return answer, ok
}

// Drop drops all answers about a name.
func (p *PartnerAnswers[A]) Drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	partner, _, _ := strings.Cut(name, "/")
	l := p.of[partner]
	if l == nil {
		return
	}
	for key := range l.kept {
		if key.name == name {
			p.drop(l, key)
		}
	}
}

// Forget drops everything about a partner.
func (p *PartnerAnswers[A]) Forget(partner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, partner)
}
