package fair

import "sync"

// Budget is Shares that are safe for concurrent use. Its zero value has no capacity, see Bound.
type Budget struct {
	mu     sync.Mutex
	shares Shares
}

// NewBudget returns the Budget of a capacity.
func NewBudget(capacity int) *Budget { return &Budget{shares: NewShares(capacity)} }

// Bound is Bound of Shares.
func (b *Budget) Bound(capacity int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares.Bound(capacity)
}

// Take is Take of Shares.
func (b *Budget) Take(identity string, n int) Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shares.Take(identity, n)
}

// Ask is Ask of Shares.
func (b *Budget) Ask(identity string, n int) Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shares.Ask(identity, n)
}

// Add takes n for an identity although its share may not allow it, or gives back what is below 0.
func (b *Budget) Add(identity string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 0 {
		b.shares.Give(identity, -n)
		return
	}
	b.shares.Force(identity, n)
}

// Give is Give of Shares.
func (b *Budget) Give(identity string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares.Give(identity, n)
}

// Over reports whether an identity has to give back something: it uses more than its share, or all
// use more than there is.
func (b *Budget) Over(identity string) bool { return b.Ask(identity, 0) != Taken }

// Used is Used of Shares.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shares.Used()
}

// Pool is Pool of Shares.
func (b *Budget) Pool(name string) Pool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shares.Pool(name)
}
