//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/test/cluster"
)

const (
	nodes     = 3
	mostTime  = time.Minute // for each step
	tlsOnly   = "swp+tls"
	quicOnly  = "swp+quic"
	hubName   = "hub"
	eastName  = "east"
	westName  = "west"
	toolsName = "tools"
)

// scene is a cluster, its partners, and the work with it.
type scene struct {
	out    io.Writer
	swpd   string        // program
	first  string        // program of the nodes at the beginning, empty: swpd
	strict bool          // a call that fails is a fault, because no node ends without notice
	calm   time.Duration // between two events
	settle time.Duration // for the last work to arrive
	began  time.Time
	dir    string // empty

	hub      *cluster.Cluster
	partners [2]*cluster.Organisation
	ledger   cluster.Ledger
	work     []errand
}

// say prints what happens.
func (s *scene) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%5.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// play starts everything, has the work go on while plot runs, and returns the verdict.
func (s *scene) play(ctx context.Context, plot func(context.Context) error) (err error) {
	stop, err := s.start(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	return s.operate(ctx, plot)
}

// start starts PostgreSQL, the nodes and the partners. stop ends what has started, also after an error.
func (s *scene) start(ctx context.Context) (stop func() error, err error) {
	var closers []func() error
	stop = func() (err error) {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
		return err
	}
	if s.hub, err = cluster.New(hubName, filepath.Join(s.dir, hubName)); err != nil {
		return stop, err
	}
	closers = append(closers, s.hub.Close)
	for i, name := range []string{eastName, westName} {
		o := &cluster.Organisation{Name: name, Dir: filepath.Join(s.dir, name)}
		if o.Address, err = cluster.FreeAddress(); err != nil {
			return stop, err
		}
		if err = o.Authenticate(); err != nil {
			return stop, err
		}
		s.partners[i] = o
	}
	east, west := s.partners[0], s.partners[1]
	server := httptest.NewServer(tools(s.begin()))
	closers = append(closers, func() error { server.Close(); return nil })
	extra := fmt.Sprintf("mcp: {servers: {%s: {url: %q}}}\n", toolsName, server.URL)
	if err = s.hub.Configure(extra, cluster.Partner{Organisation: east}, cluster.Partner{Organisation: west}); err != nil {
		return stop, err
	}
	for range nodes {
		p, err := s.hub.Add(cmp.Or(s.first, s.swpd))
		if err == nil {
			err = s.up(ctx, p)
		}
		if err != nil {
			return stop, err
		}
	}
	s.say("PostgreSQL and %d nodes run; clients and partners know the one address %s", nodes, s.hub.Address)
	for i, scheme := range []string{tlsOnly, quicOnly} {
		o := s.partners[i]
		if err = o.Configure("", cluster.Partner{Organisation: &s.hub.Organisation, Scheme: scheme}); err != nil {
			return stop, err
		}
		p, err := o.Start(s.swpd, o.Name)
		if err != nil {
			return stop, err
		}
		closers = append(closers, func() error { p.Kill(); return nil })
		err = s.within(ctx, func(ctx context.Context) error { return p.Logs(ctx, "partner connected") })
		if err != nil {
			return stop, err
		}
		s.say("the partner %s is linked to the cluster over %s", o.Name, scheme)
	}
	return stop, nil
}

// errand is work of one kind, from a sender to a receiver.
type errand struct {
	kind    *cluster.Kind
	send    sender
	receive receiver // nil: the MCP server
}

// begin makes all work, and returns the kinds that the MCP server receives, by name.
func (s *scene) begin() (called map[string]*cluster.Kind) {
	overTLS, overQUIC := s.hub.Dial(tlsOnly, s.hub.Address), s.hub.Dial(quicOnly, s.hub.Address)
	east, west := s.partners[0], s.partners[1]
	atEast, atWest := east.Dial(tlsOnly, east.Address), west.Dial(quicOnly, west.Address)
	called = make(map[string]*cluster.Kind)
	add := func(name string, send sender, receive receiver) {
		k := s.ledger.Kind(name)
		s.work = append(s.work, errand{k, send, receive})
		if receive == nil {
			called[name] = k
		}
	}
	add("events to a subscriber", publish(overTLS), subscribe(overQUIC))
	add("tasks for an agent", send(overQUIC), work(func(ctx context.Context, set *all.Set) (*client.Client, error) {
		return s.hub.DialWith(ctx, tlsOnly, s.hub.Address, set)
	}))
	add("deliveries from east", deliver(atEast, hubName+"/jobs"), consume(overTLS, "jobs"))
	add("deliveries to west", deliver(overQUIC, westName+"/jobs"), consume(atWest, "jobs"))
	add("tool calls", call(overQUIC, toolsName, !s.strict), nil)
	add("tool calls of west", call(atWest, hubName+"/"+toolsName, !s.strict), nil)
	return called
}

// operate has all work go on while plot runs, and compares at the end.
func (s *scene) operate(ctx context.Context, plot func(context.Context) error) error {
	receiving, stopReceiving := context.WithCancel(ctx)
	defer stopReceiving()
	life, end := context.WithCancel(ctx)
	defer end()
	sending, stopSending := context.WithCancel(life)
	defer stopSending()
	var receivers, senders, attaching sync.WaitGroup
	for _, e := range s.work {
		if e.receive != nil {
			attaching.Add(1)
			receivers.Go(func() { e.receive(receiving, e.kind, sync.OnceFunc(attaching.Done)) })
		}
	}
	defer receivers.Wait()
	defer stopReceiving()
	if err := s.within(ctx, func(ctx context.Context) error { return finished(ctx, &attaching) }); err != nil {
		return errors.Join(err, s.ledger.Verdict())
	}
	for _, e := range s.work {
		senders.Go(func() { e.send(sending, life, e.kind) })
	}
	defer senders.Wait()
	defer end()
	err := s.goesOn(ctx, "work of all kinds has begun")
	if err == nil {
		err = plot(ctx)
	}
	stopSending()
	if err == nil {
		s.say("clients begin nothing new, and end what they have begun")
		err = s.within(ctx, func(ctx context.Context) error { return finished(ctx, &senders) })
	}
	if err == nil {
		err = s.spread()
	}
	if err == nil { // if something is missing, the verdict says what
		arriving, cancel := context.WithTimeout(ctx, s.settle)
		_ = cluster.Await(arriving, func() string {
			if n := s.ledger.Missing(); n > 0 {
				return fmt.Sprint(n, " are missing")
			}
			return ""
		})
		cancel()
	}
	_, _ = fmt.Fprintln(s.out)
	err = errors.Join(err, s.ledger.Report(s.out), s.ledger.Verdict())
	if err == nil {
		_, _ = fmt.Fprintln(s.out, "\nnothing lost")
	}
	return err
}

// spread says which nodes got connections, and fails if only one did.
func (s *scene) spread() error {
	var list []string
	for name, n := range s.hub.Balancer.Taken() {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, n))
		}
	}
	slices.Sort(list)
	s.say("connections that the present nodes got: %s", strings.Join(list, ", "))
	if len(list) < 2 {
		return errors.New("connections go to one node only")
	}
	return nil
}

// finished waits for goroutines.
func finished(ctx context.Context, all *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("clients do not come so far: %w", context.Cause(ctx))
	}
}

// within bounds a step.
func (s *scene) within(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime, fmt.Errorf("not within %v", mostTime))
	defer cancel()
	return step(ctx)
}

func (s *scene) up(ctx context.Context, p *cluster.Process) error {
	return s.within(ctx, func(ctx context.Context) error { return s.hub.Up(ctx, p) })
}

// goesOn waits until new work of each kind has arrived and is acknowledged.
func (s *scene) goesOn(ctx context.Context, what string) error {
	began, mark := time.Now(), s.ledger.Mark()
	err := s.within(ctx, func(ctx context.Context) error {
		return cluster.Await(ctx, func() string { return strings.Join(s.ledger.Since(mark), ", ") })
	})
	if err != nil {
		return fmt.Errorf("no new work: %w", err)
	}
	s.say("%s after %.1f s", what, time.Since(began).Seconds())
	return nil
}

// rest has undisturbed work for a while.
func (s *scene) rest(ctx context.Context) error {
	select {
	case <-time.After(s.calm):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
