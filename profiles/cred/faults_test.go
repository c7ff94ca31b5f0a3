package cred_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/store"
)

// failing is a Store whose writes fail while it is told to.
type failing struct {
	cred.Store
	fails atomic.Bool
}

var errDisk = errors.New("disk")

func (f *failing) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	if f.fails.Load() {
		go done(store.PutResult{Err: errDisk})
		return
	}
	f.Store.Put(space, key, was, owner, value, expires, done)
}

func TestWhatIsNotStoredIsNotKept(t *testing.T) {
	engine := memory(t, t.TempDir())
	disk := &failing{Store: engine}
	w := newWorld(t, func(o *cred.Options) { o.Store = disk })
	a := w.peer(alice)
	const broken = "INTERNAL_ERROR"
	disk.fails.Store(true)
	w.want("present", a.present("opaque", []byte("secret"), "c"), broken)
	w.want("in use", a.use("c"), "no")
	disk.fails.Store(false)
	w.want("present", a.present("opaque", []byte("secret"), "c"), "")
	disk.fails.Store(true)
	w.want("delegate", a.delegate("c", []byte("d"), time.Minute), broken)
	w.want("in use as before", a.use("c"), "alice [] 1")
	disk.fails.Store(false)
	w.want("delegate", a.delegate("c", []byte("d"), time.Minute), "")
	w.want("in use", a.use("c"), "alice [] 2")

	// What was revoked stays so at once, and is told to be kept only once it is.
	disk.fails.Store(true)
	w.want("revoke", a.revoke("c"), broken)
	w.want("in use", a.use("c"), "no")
	w.want("revoke again", a.revoke("c"), broken)
	disk.fails.Store(false)
	w.want("and again", a.revoke("c"), "")
	w.want("and again", a.revoke("c"), "")
	w = newWorldAt(t, w.clock, func(o *cred.Options) { o.Store = engine })
	w.want("after a restart", w.peer(alice).present("opaque", []byte("secret"), "c"), cred.CodeRevoked)
}

func TestADamagedStoreIsNoReasonToForget(t *testing.T) {
	engine := memory(t, t.TempDir())
	done := make(chan error, 1)
	engine.Put("cred", "key", 0, "", []byte{8, 1}, time.Time{}, func(r store.PutResult) { done <- r.Err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := cred.New(t.Context(), cred.Options{Store: engine}); err == nil {
		t.Error("a chain that cannot be read was passed over")
	}
}
