// Package served makes the profiles that this endpoint serves, and gives them what the
// configuration says: agent cards, keys of credentials, hints, and who carries out tasks.
package served

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
)

// Profiles are those of a daemon, as a part of it. They are there once Make has made them;
// other parts are made ahead of it and have them by reference. It implements
// profiles.Carrier and profiles.Policy with what the profiles say.
type Profiles struct {
	part.Passive
	set    *all.Set // nil until they are there
	log    *zap.Logger
	hiring hiring // of a reload that is under way
}

// New makes no profile yet.
func New(log *zap.Logger) *Profiles { return &Profiles{log: log} }

// Options configure the profiles beside what the parts offer.
type Options struct {
	Version string
	More    []*profiles.Profile   // of the program that embeds this one
	Methods map[string]rpc.Method // likewise

	Idle         time.Duration // after which a connection is ended
	Handler      time.Duration // that a method may take
	ReplayWindow time.Duration // of RPC
}

// Make makes the profiles with what the parts offer.
func (p *Profiles) Make(parts part.List, opts Options) error {
	o := all.Options{
		Version: opts.Version, More: opts.More, Idle: opts.Idle,
		RPC: rpc.Options{Methods: opts.Methods, Handler: opts.Handler, ReplayWindow: opts.ReplayWindow},
	}
	if err := parts.Offer(&o); err != nil {
		return err
	}
	var err error
	p.set, err = all.New(o)
	return err
}

// Set is the profiles, nil until they are there.
func (p *Profiles) Set() *all.Set { return p.set }

// Tables are the profiles that there are to serve, with those of the program that embeds
// this one.
func Tables(more []*profiles.Profile) []*profiles.Profile { return slices.Concat(all.Tables(), more) }

// Attach implements profiles.Carrier.
func (p *Profiles) Attach(ctx context.Context, profile *profiles.Profile, req *profiles.Request) context.Context {
	return p.set.Carriers.Attach(ctx, profile, req)
}

// Forward implements profiles.Carrier.
func (p *Profiles) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	return p.set.Carriers.Forward(ctx, lane, m)
}

// Violated implements profiles.Policy: it holds calls against the hints of peers.
func (p *Profiles) Violated(ctx context.Context, profile, name string) *profiles.Violation {
	return p.set.Hints.Violated(ctx, profile, name)
}

// Collectors implements part.Part.
func (p *Profiles) Collectors() []prometheus.Collector {
	return []prometheus.Collector{liveTasks(p.set.A2A), waitingTasks(p.set.A2A), relayed{p.set.Relay}}
}

// Retire implements part.Part. Who listens, and consumers, would do so to the last.
func (p *Profiles) Retire() {
	p.set.Events.Drain()
	p.set.MCP.Drain()
	p.set.Relay.Drain()
}

// Drain implements part.Part. Nobody need be connected for a task to be worth its end.
func (p *Profiles) Drain(ctx context.Context) error { return p.set.A2A.Drain(ctx) }

// Close implements part.Part.
func (p *Profiles) Close() error {
	if p.set != nil {
		p.set.Close()
	}
	return nil
}
