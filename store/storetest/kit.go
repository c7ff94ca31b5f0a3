package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// kit is the environment of a test: a store, its directory and its clock.
type kit struct {
	*testing.T
	store.Store
	open    Open
	dir     string
	options Options
	memory  bool // Close loses all content

	mu  sync.Mutex
	now time.Time
}

func (k *kit) clock() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// pass moves the clock, forward or back.
func (k *kit) pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

// in returns a time from now.
func (k *kit) in(d time.Duration) time.Time { return k.clock().Add(d) }

// opens opens the store.
func (k *kit) opens() {
	k.Helper()
	s, err := k.open(k.T, k.dir, k.options)
	if err != nil {
		k.Fatal(err)
	}
	k.Store = s
}

// reopen closes the store and opens it again.
func (k *kit) reopen() {
	k.Helper()
	if k.memory {
		k.Skip("kept in memory: it cannot be opened again")
	}
	if err := k.Close(); err != nil {
		k.Fatal(err)
	}
	k.opens()
}
