//go:build unix

package main

import (
	"context"
	"time"

	"github.com/slimwire/swp/test/cluster"
)

// faults kills the active node, drains and replaces the next one, and restarts the database.
func (s *scene) faults(ctx context.Context) error {
	for _, event := range []func(context.Context) error{s.kill, s.replaceActive, s.restart} {
		if err := s.rest(ctx); err != nil {
			return err
		}
		if err := event(ctx); err != nil {
			return err
		}
		if err := s.goesOn(ctx, "work of all kinds goes on"); err != nil {
			return err
		}
	}
	return s.rest(ctx)
}

func (s *scene) kill(ctx context.Context) error {
	p, err := s.active(ctx)
	if err != nil {
		return err
	}
	s.say("kill -9 of %s, the active node", p.Name)
	p.Kill()
	s.hub.Remove(p)
	return s.follow(ctx)
}

func (s *scene) replaceActive(ctx context.Context) error {
	p, err := s.active(ctx)
	if err != nil {
		return err
	}
	return s.replace(ctx, p)
}

// replace starts a node, takes another one from the balancer and drains it, and waits until a node is active.
// A node that drains refuses new connections over TCP, and does not answer those over QUIC.
func (s *scene) replace(ctx context.Context, old *cluster.Process) error {
	p, err := s.hub.Add(s.swpd)
	if err != nil {
		return err
	}
	if err := s.up(ctx, p); err != nil {
		return err
	}
	began := time.Now()
	s.say("%s has started; %s gets no new connections, and is drained", p.Name, old.Name)
	s.hub.Remove(old)
	if err := s.within(ctx, old.Drain); err != nil {
		return err
	}
	s.say("%s has ended after %.1f s", old.Name, time.Since(began).Seconds())
	return s.follow(ctx)
}

func (s *scene) restart(ctx context.Context) error {
	s.say("PostgreSQL is restarted")
	s.hub.Server.Stop()
	if err := s.hub.Server.Start(); err != nil {
		return err
	}
	s.say("PostgreSQL is back")
	return s.follow(ctx)
}

// follow waits until a node is active.
func (s *scene) follow(ctx context.Context) error {
	p, err := s.active(ctx)
	if err == nil {
		s.say("%s is active", p.Name)
	}
	return err
}

func (s *scene) active(ctx context.Context) (p *cluster.Process, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		p, err = s.hub.Active(ctx)
		return err
	})
	return p, err
}

// upgrade replaces all nodes, those that stand by first.
func (s *scene) upgrade(ctx context.Context) error {
	active, err := s.active(ctx)
	if err != nil {
		return err
	}
	var order []*cluster.Process
	for _, p := range s.hub.Nodes() {
		if p != active {
			order = append(order, p)
		}
	}
	for _, p := range append(order, active) {
		if err := s.rest(ctx); err != nil {
			return err
		}
		if err := s.replace(ctx, p); err != nil {
			return err
		}
		if err := s.goesOn(ctx, "work of all kinds goes on"); err != nil {
			return err
		}
	}
	return s.rest(ctx)
}
