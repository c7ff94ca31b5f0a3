package tooldisc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
)

// Bounds on what one server may have.
const (
	MaxServerTools  = 10_000
	MaxServerOctets = 64 << 20 // of its tools together, unless Options say otherwise
)

// pauses are those before a server is read again that could not be read.
var pauses = backoff.Exponential{First: time.Second, Longest: time.Minute}

// watch keeps the tools of one server up to date while somebody asks for them.
type watch struct {
	s      *Service
	name   string
	server Server

	mu      sync.Mutex
	run     *run      // nil while nobody asks
	read    time.Time // when the last listing came; zero: none did
	fault   error     // why the last attempt failed, after that; nil: it did not
	stopped bool      // for good
}

// run is one time of following a server.
type run struct {
	cancel context.CancelFunc
	idle   *time.Timer   // nil if it goes on for good
	tried  chan struct{} // closed when the first attempt has come to something
	once   sync.Once
}

func (r *run) markTried() { r.once.Do(func() { close(r.tried) }) }

// ask records a request for the tools. It returns a channel to wait for, or nil if the
// tools are recent enough.
func (w *watch) ask() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.run == nil:
		w.start()
	case w.run.idle != nil:
		w.run.idle.Reset(w.s.pace.Load().Idle)
	}
	if w.run == nil || !w.read.IsZero() && w.s.opts.Now().Sub(w.read) <= w.s.pace.Load().Refresh {
		return nil
	}
	return w.run.tried
}

// start begins to follow the server, unless the Service is closed. The caller
// holds mu.
func (w *watch) start() {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r := &run{cancel: cancel, tried: make(chan struct{})}
	if pace := s.pace.Load(); !pace.Eager {
		r.idle = time.AfterFunc(pace.Idle, func() { w.end(r) })
	}
	w.run = r
	s.work.Go(func() {
		defer cancel()
		defer r.markTried()
		w.follow(ctx, r)
	})
}

// again restarts following the server, if it is followed or all servers are.
func (w *watch) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.run
	if w.stopped || old == nil && !w.s.pace.Load().Eager {
		return
	}
	w.run = nil
	if old != nil {
		old.cancel()
	}
	w.start()
}

// stop stops following the server for good. It is another one now, or none.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if r := w.run; r != nil {
		w.run = nil
		r.cancel()
	}
}

// end stops following the server because nobody asks for it.
func (w *watch) end(r *run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == r {
		w.run = nil
	}
	r.cancel()
}

// follow follows the server until ctx ends, with a pause after each time that
// there was nothing more to follow.
func (w *watch) follow(ctx context.Context, r *run) {
	if r.idle != nil {
		defer r.idle.Stop()
	}
	failures := 0
	for {
		began := time.Now()
		err := w.once(ctx, r)
		if ctx.Err() != nil {
			return
		}
		if err == nil || time.Since(began) > w.s.pace.Load().Refresh {
			failures = 0
		}
		pause := w.s.pace.Load().Refresh
		if err != nil {
			w.failed(r, err)
			w.s.opts.Report(w.name, err)
			pause = pauses.After(failures)
			failures++
		}
		r.markTried()
		if backoff.Wait(ctx, pause) != nil {
			return
		}
	}
}

// once follows the server once. Until its first listing it takes one of the slots for servers
// that are being read, but no longer than others can wait behind it.
func (w *watch) once(ctx context.Context, r *run) error {
	select {
	case w.s.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	var free sync.Once
	release := func() { free.Do(func() { <-w.s.reading }) }
	defer release()
	defer time.AfterFunc(profiles.TurnWait, release).Stop()
	return w.server.Follow(ctx, func(l Listing) {
		release()
		w.take(r, &l)
		r.markTried()
	})
}

// take makes a listing known, unless it comes when nobody asked any more.
func (w *watch) take(r *run, l *Listing) {
	list, fault := entries(w.name, l, w.s.opts.ServerOctets)
	w.mu.Lock()
	current := w.run == r
	if current {
		w.read, w.fault = w.s.opts.Now(), nil
	}
	w.mu.Unlock()
	if !current {
		return
	}
	w.s.opts.Report(w.name, fault)
	w.s.replace(w, list)
}

// failed records why the server could not be read.
func (w *watch) failed(r *run, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == r {
		w.fault = err
	}
}

// unread returns why the tools of the server are not known, or may be outdated; empty if
// they are known.
func (w *watch) unread() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.fault != nil:
		return w.fault.Error()
	case w.read.IsZero() && w.run != nil:
		return "it has not answered yet"
	}
	return ""
}

// noVersion is the version of the tools of a server that has none.
const noVersion = "0"

// entries returns the entries of a listing without invalid ones and those above the limits;
// fault describes the omitted ones.
func entries(server string, l *Listing, maxOctets int) (list []*entry, fault error) {
	version := l.Version
	if version == "" || len(version) > MaxText {
		version = noVersion
	}
	left, octets := 0, 0
	leave := func(err error) {
		if left++; fault == nil {
			fault = err
		}
	}
	seen := make(map[string]bool)
	for _, tool := range l.Tools {
		if octets += len(tool); len(list) == MaxServerTools || octets > maxOctets {
			leave(fmt.Errorf("tooldisc: %s has more than %d tools or %d octets of them", server, MaxServerTools, maxOctets))
			octets -= len(tool)
			continue
		}
		e, err := fromMCP(server, version, tool)
		switch {
		case err != nil:
			leave(err)
		case seen[e.ID]:
			leave(fmt.Errorf("tooldisc: %s has two tools named %.80q", server, e.Name))
		default:
			seen[e.ID] = true
			list = append(list, e)
		}
	}
	if left > 1 {
		fault = errors.Join(fault, fmt.Errorf("tooldisc: %s: %d tools are not told in all", server, left))
	}
	return list, fault
}

// replace makes list the tools of a server, unless that is another one by now.
func (s *Service) replace(w *watch, list []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (*s.watches.Load())[w.name] != w {
		return
	}
	s.lists[w.name] = list
	s.publish()
}

// await has servers read that were not of late, all at once, and waits for those
// that are being read for the first time since somebody asked, or for ctx.
func (s *Service) await(ctx context.Context, watches map[string]*watch) {
	var due []<-chan struct{}
	for _, w := range watches {
		if tried := w.ask(); tried != nil {
			due = append(due, tried)
		}
	}
	if len(due) == 0 {
		return
	}
	for _, tried := range due {
		select {
		case <-tried:
		case <-ctx.Done():
			return
		}
	}
}
