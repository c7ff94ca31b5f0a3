package profiletest

import (
	"sync"

	"github.com/slimwire/swp/profiles"
)

// deferred are the messages of a peer that were deferred and are not done.
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

// finish ends one message; with the last one everything that waited runs. An
// endpoint may run it earlier: it knows what came before which message.
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

// Defer keeps of the request what an endpoint keeps: the msg_id.
func (x *exchange) Defer(*profiles.Request) func(error) {
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

func (x *exchange) After(f func(), _ ...[]byte) bool { return x.s.deferred.wait(f) }
