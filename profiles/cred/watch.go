package cred

import (
	"math"
	"time"

	"github.com/slimwire/swp/profiles"
)

// watch is work under a chain.
type watch struct {
	peer  profiles.Peer
	id    string // of the chain
	ended func(*profiles.Error)
	timer *time.Timer
}

// watch calls ended, on another goroutine, when Delegation begins to fail for a peer and a
// chain. It returns a function that ends this.
func (s *Service) watch(peer *profiles.Peer, id string, expires int64, ended func(*profiles.Error)) (stop func()) {
	w := &watch{peer: *peer, id: id, ended: ended}
	t := &s.table
	t.mu.Lock()
	t.watches[w] = struct{}{}
	w.timer = time.AfterFunc(s.left(expires), func() {
		if s.judge(w) {
			s.table.again(w) // the clocks differ
		}
	})
	t.mu.Unlock()
	go s.judge(w) // the chain may have ended before it was watched
	return func() { t.unwatch(w) }
}

// left is the time until a time of the steady clock.
func (s *Service) left(until int64) time.Duration {
	return time.Duration(max(0, min(until-s.clock.steady(), math.MaxInt64/int64(time.Millisecond)))) * time.Millisecond
}

func (t *table) unwatch(w *watch) (watched bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, watched = t.watches[w]
	delete(t.watches, w)
	w.timer.Stop()
	return watched
}

// again sets the timer once more.
func (t *table) again(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, watched := t.watches[w]; watched {
		w.timer.Reset(time.Second)
	}
}

// judge ends the work if its chain has ended. It reports whether the chain has not.
func (s *Service) judge(w *watch) (lives bool) {
	_, err := s.Delegation(&w.peer, []byte(w.id))
	if err != nil && s.table.unwatch(w) {
		w.ended(profiles.AsError(err))
	}
	return err == nil
}

// review ends the work under chains that have ended.
func (s *Service) review() {
	s.table.mu.Lock()
	list := make([]*watch, 0, len(s.table.watches))
	for w := range s.table.watches {
		list = append(list, w)
	}
	s.table.mu.Unlock()
	for _, w := range list {
		s.judge(w)
	}
}

// reviewLater is review on another goroutine, if there is work under chains.
func (s *Service) reviewLater() {
	if len(s.table.watches) > 0 {
		go s.review()
	}
}
