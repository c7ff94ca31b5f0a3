package entrances

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Endpoints makes the options of the endpoints of a daemon. The fields of parts that are
// made later are set before the parts open.
type Endpoints struct {
	Config *config.Config
	Log    *zap.Logger
	Parts  *part.List // their endpoints get changed limits

	Self       func() string // identity of this endpoint
	Registry   *profiles.Registry
	Observer   endpoint.Observer
	Tracer     endpoint.Tracer
	Recorder   endpoint.Recorder
	Access     profiles.Access
	Admit      func() error
	Memory     *memory.Budget
	Proxies    *Proxies
	InFlightOf func(identity string) int // for peers with another bound of requests in flight

	// Farewells tell partners why their connections are not served.
	Farewells *endpoint.Farewells

	// Handler is called with a changed time limit of handlers.
	Handler func(time.Duration)

	// Ask asks a peer which profiles it serves, see endpoint.Options.
	Ask func(ctx context.Context, s profiles.Session) (asked bool)
}

// Options returns the options of an endpoint with or without error path. Peers get only
// messages of profiles that they are known to serve.
func (e *Endpoints) Options(errorFrames bool) endpoint.Options {
	o := boundedBy(e.Config)
	o.Identity, o.Registry, o.Observer, o.Tracer, o.Access = e.Self, e.Registry, e.Observer, e.Tracer, e.Access
	o.Recorder, o.Admit, o.Memory, o.InFlightOf, o.ErrorFrames = e.Recorder, e.Admit, e.Memory, e.InFlightOf, errorFrames
	o.Reserved, o.Ask, o.Callers = true, e.Ask, true
	o.Farewells, o.Draining = e.Farewells, causes.Draining.Code()
	return o
}

// Section has all limits but those from which other values were derived: the sizes of
// frames and their parts (stored data, the bounds of relay, artifacts and A2A-SDL).
func Section(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "limits", Stays: "the old ones stay", Prepare: prepare,
		Keys: []string{
			"limits.frame_rate", "limits.frame_burst", "limits.connections", "limits.connections_per_identity", "limits.in_flight",
			"limits.long_exchanges", "limits.handlers", "limits.in_flight_bytes", "limits.in_flight_bytes_per_connection",
			"limits.outbound_bytes_per_connection", "limits.outbound_frames_per_connection", "limits.error_budget", "limits.pace_budget",
			"limits.proxies", "limits.replay_window", "limits.idle", "limits.body", "limits.write", "limits.handler", "rate", "freshness",
		},
	}
}

// Prepare prepares changed limits for new connections.
func (e *Endpoints) Prepare(c *config.Config) (part.Change, error) {
	o := boundedBy(c)
	return part.Change{
		Fields: []zap.Field{zap.Int("connections", c.Limits.Connections), zap.Int("in_flight", c.Limits.InFlight)},
		Commit: func() bool {
			if err := e.Parts.SetLimits(o); err != nil {
				e.Log.Error("limits not taken up everywhere", zap.Error(err))
			}
			e.Proxies.Set(c.Limits.Networks())
			e.Handler(c.Limits.Handler)
			return false
		},
	}, nil
}

// boundedBy returns options with the limits of a configuration.
func boundedBy(c *config.Config) endpoint.Options {
	l := &c.Limits
	o := endpoint.Options{
		FrameLimit:   int(l.FrameBytes),
		Rate:         endpoint.Rate{Frames: l.FrameRate, Burst: c.Burst()},
		Window:       endpoint.Window{Frames: c.Rate.Frames, Period: time.Duration(c.Rate.WindowMS) * time.Millisecond},
		Freshness:    endpoint.Freshness{Skew: c.Freshness.Skew, Required: c.Freshness.Required},
		ReplayWindow: l.ReplayWindow,
		Bounds: endpoint.Bounds{
			Connections:            l.Connections,
			ConnectionsPerIdentity: l.ConnectionsPerIdentity,
			InFlight:               l.InFlight,
			LongExchanges:          l.LongExchanges,
			Handlers:               l.Handlers,
			InFlightBytes:          int(l.InFlightBytes),
			InFlightBytesPerConn:   int(l.InFlightBytesPerConn),
			OutboundBytes:          int(l.OutboundBytes),
			OutboundFrames:         l.OutboundFrames,
			ErrorBudget:            l.ErrorBudget,
			PaceBudget:             l.PaceBudget,
			Idle:                   l.Idle,
			Body:                   l.Body,
			Write:                  l.Write,
			Handler:                l.Handler,
		},
	}
	o.Envelope.MaxPayload, o.Envelope.MaxExtensions = int(l.PayloadBytes), int(l.ExtensionBytes)
	switch c.Freshness.Owner {
	case "core":
		o.Freshness.Owner = endpoint.FreshnessCore
	case "s1":
		o.Freshness.Owner = endpoint.FreshnessS1
	}
	return o
}

// NewFarewells returns Farewells to the peers that read an Error of profile 4096 at any time.
func NewFarewells(reads func(identity string) bool) *endpoint.Farewells {
	return &endpoint.Farewells{Reads: reads}
}
