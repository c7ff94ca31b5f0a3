package sdlserver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
)

// Ways route envelopes to partners, and events to agents other than this endpoint. They
// work also when this endpoint does not serve A2A-SDL. It implements Onward of profile
// 1024.
type Ways struct {
	part.Passive
	sdlagent.Heads
	o      WayOptions
	log    *zap.Logger
	own    atomic.Pointer[string] // agent_id of this endpoint; empty: none
	routes atomic.Pointer[routes]
	ears   ears
}

// WayOptions configure Ways.
type WayOptions struct {
	Config    *config.Config
	Log       *zap.Logger
	Self      func() string // identity of this endpoint
	Served    *served.Profiles
	Guard     Guard
	Directory *partner.Directory
}

// NewWays reads sdl.routes for the first time.
func NewWays(o WayOptions) (*Ways, error) {
	w := &Ways{o: o, log: o.Log.Named(boundlog.Backend)}
	w.SetAgentID(o.Config.SDL.AgentID)
	change, err := w.Prepare(o.Config)
	if err != nil {
		return nil, err
	}
	change.Commit()
	return w, nil
}

// SetAgentID changes the agent_id of this endpoint.
func (w *Ways) SetAgentID(id string) { w.own.Store(&id) }

// RoutesSection is the routes.
func RoutesSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "sdl.routes", Stays: "the old ones stay", Keys: []string{"sdl.routes"}, Prepare: prepare}
}

// Prepare reads sdl.routes.
func (w *Ways) Prepare(c *config.Config) (part.Change, error) {
	list, err := newRoutes(c.SDL.Routes)
	return part.Change{
		Fields: []zap.Field{zap.Int("sdl_routes", len(list))},
		Commit: func() bool {
			for _, warning := range Unreached(&c.SDL) {
				w.log.Warn(warning)
			}
			w.routes.Store(&list)
			return false
		},
	}, err
}

// Offer implements part.Part.
func (w *Ways) Offer(o *all.Options) error {
	o.SDL.Onward = w
	return nil
}

// Owns implements Onward.
func (w *Ways) Owns(identity, agentID string) bool { return w.o.Guard.MayUse(identity, agentID) }

// May implements Onward.
func (w *Ways) May(identity, agentID string) bool { return mayAs(w.o.Guard, identity, agentID) }

// Route implements Onward. It returns the empty string for an agent_id of this endpoint.
func (w *Ways) Route(agentID string) string {
	if agentID == *w.own.Load() {
		return ""
	}
	return w.routes.Load().find(agentID)
}

// Concerns implements Onward.
func (w *Ways) Concerns(identity, agentID string) bool {
	return agentID != *w.own.Load() && w.o.Directory.Knows(identity)
}

// Bring implements Onward: it delivers an event to the session of its agent. If that fails,
// the relay keeps the event under the identity of the sender.
func (w *Ways) Bring(ctx context.Context, e *carriage.Event) error {
	if link := w.o.Directory.Of(e.To); link != nil {
		return w.pass(ctx, link, e)
	}
	if e.Session != nil && w.tell(ctx, e.Session, e.Body) == nil {
		return nil
	}
	return w.keep(ctx, e, sdlagent.Topic(e.AgentID))
}

// tell delivers an event on a session. Of pipes only those of streams accept one.
func (w *Ways) tell(ctx context.Context, s profiles.Session, body []byte) error {
	if part.Inside(s.Peer()) {
		return w.ears.tell(s, body)
	}
	return carriage.Tell(ctx, s, body)
}

// State delivers an event of this endpoint to an agent of a partner. known is false if
// identity is not a partner.
func (w *Ways) State(ctx context.Context, identity, agentID string, body []byte) (known bool, err error) {
	link := w.o.Directory.Of(identity)
	if link == nil {
		return false, nil
	}
	return true, w.pass(ctx, link, &carriage.Event{From: w.o.Self(), To: identity, AgentID: agentID, Body: body})
}

// pass sends an event to a partner and waits for its confirmation. If that fails, the relay
// keeps the event for the partner.
func (w *Ways) pass(ctx context.Context, link *partner.Link, e *carriage.Event) error {
	if up := link.Now(); up != nil && profiles.Serves(up.Session, carriage.ProfileID) && profiles.Serves(up.Session, rpc.ProfileID) && w.take(ctx, up, e) == nil {
		return nil
	}
	return w.keep(ctx, e, link.Name()+"/"+sdlagent.Topic(e.AgentID))
}

// take sends an event to a partner and returns when the partner has accepted it.
func (w *Ways) take(ctx context.Context, up *partner.Up, e *carriage.Event) error {
	env := e1.Envelope{ProfileID: carriage.ProfileID, MsgType: carriage.TypeEvt, Payload: e.Body}
	if e.From != w.o.Self() {
		env.Extensions = e.Passage.Append(nil, time.Now())
		ctx = profiles.WithCaller(ctx, e.From)
	}
	return confirmed(ctx, up.Session, env)
}

// keep stores an event in the relay. A repeated event is stored once.
func (w *Ways) keep(ctx context.Context, e *carriage.Event, topic string) error {
	if !w.o.Guard.Allowed(e.From, relay.Name, "publish", topic) {
		return profiles.Deny(&profiles.Error{
			Code: profiles.SecurityPolicy, Detail: "sdl_relay",
			Text: fmt.Sprintf("sdl: the agent is not here, and no rule lets %s publish %.200s to the relay", e.From, topic),
		})
	}
	id := sha256.Sum256(e.Body)
	return w.o.Served.Set().Relay.Keep(ctx, e.From, &relay.Publication{ID: id[:], Topic: topic, Payload: e.Body, Hops: e.Passage.Hops})
}
