// Package served builds the profiles that this endpoint serves and passes them their
// configuration: agent cards, credential keys, policy hints and workers.
package served

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/claimed"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
)

// Profiles are the profiles of a daemon, as one of its parts. Other parts get a reference
// before Make has built the profiles. It implements profiles.Carrier by calling the profiles.
type Profiles struct {
	part.Passive
	set    *all.Set // nil before Make
	log    *zap.Logger
	hiring hiring // of the current reload
}

// New returns Profiles without content; see Make.
func New(log *zap.Logger) *Profiles { return &Profiles{log: log} }

// Options configure the profiles, in addition to the offers of the parts.
type Options struct {
	Version string
	More    []*profiles.Profile   // profiles of the embedding program
	Methods map[string]rpc.Method // likewise

	Handler      time.Duration // time limit of a method
	ReplayWindow time.Duration // of RPC
}

// Make builds the profiles with the contributions of the parts.
func (p *Profiles) Make(parts part.List, opts Options) error {
	o := all.Options{
		Version: opts.Version, Conformance: claimed.Classes(), More: opts.More, TellBounds: true, Callers: true,
		RPC: rpc.Options{Methods: opts.Methods, Handler: opts.Handler, ReplayWindow: opts.ReplayWindow},
	}
	if err := parts.Offer(&o); err != nil {
		return err
	}
	var err error
	p.set, err = all.New(o)
	return err
}

// Set returns the profiles; nil before Make.
func (p *Profiles) Set() *all.Set { return p.set }

// Tables lists the profiles that can be served, with the profiles of the embedding program.
func Tables(more []*profiles.Profile) []*profiles.Profile { return slices.Concat(all.Tables(), more) }

// Attach implements profiles.Carrier.
func (p *Profiles) Attach(ctx context.Context, profile *profiles.Profile, req *profiles.Request) context.Context {
	return p.set.Carriers.Attach(ctx, profile, req)
}

// Forward implements profiles.Carrier.
func (p *Profiles) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	return p.set.Carriers.Forward(ctx, lane, m)
}

// Inside returns the Carrier for sessions to this endpoint under the identity of a peer: a
// trace context and hints are sent, but no chain, because this endpoint knows it.
func (p *Profiles) Inside() profiles.Carrier { return inside{p} }

type inside struct{ p *Profiles }

// Attach implements profiles.Carrier.
func (in inside) Attach(ctx context.Context, profile *profiles.Profile, req *profiles.Request) context.Context {
	return in.p.Attach(ctx, profile, req)
}

// Forward implements profiles.Carrier.
func (in inside) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	return profiles.Carriers{in.p.set.Traces, in.p.set.Hints}.Forward(ctx, lane, m)
}

// Recheck implements part.Part: it ends work that the rules no longer allow.
func (p *Profiles) Recheck() (kept, closed int) {
	for _, profile := range p.set.Registry.All() {
		if profile.Review != nil {
			profile.Review()
		}
	}
	return 0, 0
}

// Collectors implements part.Part.
func (p *Profiles) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		liveTasks(p.set.A2A), waitingTasks(p.set.A2A), relayed{p.set.Relay},
		counted("swpd_mcp_undelivered_total", "Notifications that a peer got none of because it did not read, or of a call that had ended.", func() uint64 { return p.set.MCP.Stats().Dropped }),
		counted("swpd_mcp_overruns_total", "Calls to partners that ended because their notifications came faster than the caller read them.", func() uint64 { return p.set.MCP.Stats().Overrun }),
	}
}

// Retire implements part.Part. It ends subscriptions and consumers, which would otherwise
// last until the connection ends.
func (p *Profiles) Retire() {
	p.set.Events.Drain()
	p.set.MCP.Drain()
	p.set.Relay.Drain()
}

// Drain implements part.Part. Tasks may finish although their initiator is not connected.
func (p *Profiles) Drain(ctx context.Context) error { return p.set.A2A.Drain(ctx) }

// Close implements part.Part.
func (p *Profiles) Close() error {
	if p.set != nil {
		p.set.Close()
	}
	return nil
}

// counted is a counter that is read at scrape time.
func counted(name, help string, value func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
}
