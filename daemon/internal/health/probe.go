package health

import (
	"context"
	"net"
	"net/url"
	"time"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/backoff"
)

const (
	// tick is the interval in which watches are looked at, probes begin and the file is written.
	tick = 5 * time.Second

	// idle is how long a thing that works is not used until it is asked.
	idle = 5 * time.Minute

	// probeFor bounds a probe.
	probeFor = 30 * time.Second

	// maxProbes bounds the probes at once.
	maxProbes = 8
)

// pauses are the pauses between probes of a thing that fails.
var pauses = backoff.Exponential{First: tick, Longest: idle}

// Prober returns the function that asks a thing whether it works, and reports the answer to its Entry. It is nil for a thing
// that is not asked. The function returns soon after the end of ctx.
type Prober func(name string) func(ctx context.Context, e *Entry)

// Probe has things of a kind be asked at the start, after five minutes without a use, and while they fail.
func (r *Records) Probe(kind Kind, of Prober) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probers[kind] = of
}

// Serve implements part.Part: it looks at things and asks them.
func (r *Records) Serve(ctx context.Context) {
	defer r.probes.Wait()
	r.open()
	r.ask(ctx)
	part.Every(ctx, tick, func() {
		r.look()
		r.ask(ctx)
		r.save(false)
	})
}

// open begins to look at things that are known elsewhere. From then on all things are set.
func (r *Records) open() {
	r.mu.Lock()
	r.opened = true
	r.mu.Unlock()
	r.look()
	r.mu.Lock()
	r.found = nil
	r.mu.Unlock()
}

// Retire implements part.Part: nothing is news from now on, because all things end.
func (r *Records) Retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = true
}

// Close implements part.Part: it writes the file.
func (r *Records) Close() error {
	r.save(true)
	return nil
}

// ask begins the probes that are due. What finds no place waits for the next tick.
func (r *Records) ask(ctx context.Context) {
	r.mu.Lock()
	probers := r.probers
	retired := r.retired
	r.mu.Unlock()
	for _, e := range r.entries() {
		of := probers[e.kind]
		if of == nil || retired || !e.due(time.Now()) {
			continue
		}
		probe := of(e.name)
		if probe == nil {
			continue
		}
		select {
		case r.probing <- struct{}{}:
		default:
			return
		}
		e.begin()
		r.probes.Go(func() {
			defer func() { <-r.probing }()
			ctx, cancel := context.WithTimeout(ctx, probeFor)
			defer cancel()
			probe(ctx, e)
			e.end()
		})
	}
}

// due reports whether a thing is to be asked.
func (e *Entry) due(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probing {
		return false
	}
	if e.asked.IsZero() {
		return true
	}
	if e.state == Failing {
		return now.Sub(e.asked) >= pauses.After(e.tries-1)
	}
	return now.Sub(e.asked) >= idle && now.Sub(time.Unix(e.worked.Load(), 0)) >= idle
}

// begin and end are called around a probe.
func (e *Entry) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probing = true
}

func (e *Entry) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probing, e.asked = false, time.Now()
	if e.state == Failing {
		e.tries++
	} else {
		e.tries = 0
	}
}

// connectFor bounds the wait for a connection.
const connectFor = 5 * time.Second

// Connects returns a probe of a thing at a URL: it opens a connection and closes it. fault is reported for a thing that accepts no connection.
func Connects(address string, fault Fault) func(ctx context.Context, e *Entry) {
	return func(ctx context.Context, e *Entry) {
		dialer := net.Dialer{Timeout: connectFor}
		conn, err := dialer.DialContext(ctx, "tcp", hostPort(address))
		switch {
		case err == nil:
			_ = conn.Close()
			e.Reached()
		case ctx.Err() == nil:
			e.Failed(fault, err, nil)
		}
	}
}

// hostPort returns the host and the port of a URL, which was checked.
func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // net knows the ports of http and https
	}
	return net.JoinHostPort(u.Hostname(), port)
}
