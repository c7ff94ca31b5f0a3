package profiletest

import (
	"sync"

	"github.com/slimwire/swp/profiles"
)

// deferred are the deferred messages of a peer that are not done.
type deferred struct {
	mu    sync.Mutex
	open  int
	after []func()
}

func (d *deferred) add() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
}

// finish ends one message; after the last one all waiting functions run. An endpoint may
// run them earlier, because it knows the order of messages.
func (d *deferred) finish() {
	d.mu.Lock()
	d.open--
	var ready []func()
	if d.open == 0 {
		ready, d.after = d.after, nil
	}
	d.mu.Unlock()
	for _, f := range ready {
		f()
	}
}

func (d *deferred) wait(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == 0 {
		return false
	}
	d.after = append(d.after, f)
	return true
}

func (r *exchanger) Defer(req *profiles.Request) func(error) {
	x := (*Exchange)(r)
	if x.take(req, modeHeld) == nil {
		panic(errTaken)
	}
	x.h.deferred.add()
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			x.end(err)
			x.h.deferred.finish()
		})
	}
}

func (r *exchanger) After(f func(), _ ...[]byte) bool { return r.h.deferred.wait(f) }

func (taken) Defer(*profiles.Request) func(error) { panic(errTaken) }
func (taken) After(func(), ...[]byte) bool        { return false }

// Defer keeps only the msg_id of the request, as an endpoint does.
func (x *requestExchange) Defer(*profiles.Request) func(error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.taken {
		panic("profiletest: the request was taken already")
	}
	x.taken = true
	held := *x.req
	held.Envelope = x.req.Clone()
	held.Extensions, held.Payload = nil, nil
	x.req = &held
	s := x.s
	s.deferred.add()
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			x.Fail(err)
			s.deferred.finish()
		})
	}
}

func (x *requestExchange) After(f func(), _ ...[]byte) bool { return x.s.deferred.wait(f) }
