// Package slip reads section slip: which agents use nSLIP and SLIP v1, for which of them
// the relay keeps messages, and which of them partners serve.
package slip

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	messages "github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Words is section slip in use: the agents of nSLIP, and the absent agents for which the
// relay keeps messages. Agents named exactly are listed as agents of this endpoint, so that
// partners send messages for them here; patterns are not listed. Agents of slip.a2a, on sessions
// and behind partners, have SLIP-A2A here. It implements Relay of profile 1025 and agdisc.Source.
type Words struct {
	part.Passive
	o      Options
	now    atomic.Pointer[table]
	bridge *bridge
}

// table is the result of one reading of the section.
type table struct {
	messages.Options               // without the fields that a reload cannot change
	kept             *access.Names // nil: nobody
	names            []string      // agent_ids and patterns for which messages are kept
	agents           map[string]*A2A
	ttl              time.Duration // lifetime of kept messages
}

// read reads the files that the configuration names.
func (w *Words) read(c *config.SLIP) (*table, error) {
	t := &table{names: c.Relay, ttl: c.TTL, agents: make(map[string]*A2A, len(c.A2A))}
	t.Numbers, t.Forms = c.Numbers(), make(map[string]uint64)
	for agent, form := range c.Forms {
		t.Forms[agent] = messages.TypeNSLIP
		if form == config.FormBinary {
			t.Forms[agent] = messages.TypeBinary
		}
	}
	var err error
	for agent, conf := range c.A2A {
		if t.agents[agent], err = newA2A(agent, !strings.Contains(agent, "/"), &conf, w.Anchors, w.o.Log); err != nil {
			return nil, fmt.Errorf("slip.a2a.%s: %w", agent, err)
		}
	}
	if t.Anchors, err = ReadAnchors(c.UCR); err != nil || len(c.Relay) == 0 {
		return t, err
	}
	if t.kept, err = access.NewNames(c.Relay); err != nil {
		return nil, fmt.Errorf("slip.relay: %w", err)
	}
	return t, nil
}

// Options configure Words.
type Options struct {
	Config    *config.Config
	Log       *zap.Logger
	MayUse    func(identity, agentID string) bool // whether an identity may use an agent_id
	Directory *partner.Directory
	Served    *served.Profiles
	Door      part.DoorOptions

	// Remote returns the extension of an agent at a URL, nil for another.
	Remote func(agentID string) *A2A
}

// New reads section slip.
func New(o Options) (*Words, error) {
	w := &Words{o: o}
	w.o.Log = o.Log.Named(boundlog.Backend)
	t, err := w.read(&o.Config.SLIP)
	if err != nil {
		return nil, err
	}
	w.now.Store(t)
	w.bridge, err = newBridge(w, o.Door)
	return w, err
}

// hearers are the Workers of agents of slip.a2a that hear profile 1025: a session may declare
// that the agent gets messages of A2A itself.
func (w *Words) hearers(t *table) (list []a2a.Registration) {
	for agent, s := range t.agents {
		if !s.own || !slipstream.IsAgent(agent) {
			continue
		}
		carry := func(ctx context.Context, t *a2a.Task, line slipa2a.Line) error {
			return w.bridge.carry(ctx, agent, t, line)
		}
		list = append(list, a2a.Registration{Agent: agent, Spare: true, Kinds: []string{sending}, Worker: s.x.Lines(agent, carry)})
	}
	return list
}

// Open implements part.Part.
func (w *Words) Open() error { return w.bridge.way.Open(bridgeExchanges) }

// Door implements part.Part.
func (w *Words) Door() *part.Door { return w.bridge.way }

// Recheck implements part.Part.
func (w *Words) Recheck() (kept, closed int) { return w.bridge.way.Recheck() }

// Close implements part.Part.
func (w *Words) Close() error {
	w.bridge.close()
	return nil
}

// Offer implements part.Part.
func (w *Words) Offer(o *all.Options) error {
	now := w.now.Load()
	o.SLIP = now.Options
	o.SLIP.MayUse, o.SLIP.Partners, o.SLIP.Relay, o.SLIP.Bridge = w.o.MayUse, newRoutes(w.o.Directory), w, w.bridge
	o.A2A.Workers = append(o.A2A.Workers, w.hearers(now)...)
	o.AGDISC.Sources = append(o.AGDISC.Sources, w)
	o.Card = w.card
	inner := o.A2A.Ward // of the store, which was offered before
	o.A2A.Ward = func(agent string, t *a2a.Task) a2a.Ward { return w.ward(agent, t, inner(agent, t)) }
	return nil
}

// Section is the reloadable part of the configuration.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "slip", Stays: "the old one stays", Keys: []string{"slip"}, Files: files, Prepare: prepare}
}

// Prepare reads section slip.
func (w *Words) Prepare(c *config.Config) (part.Change, error) {
	t, err := w.read(&c.SLIP)
	return part.Change{
		Fields: []zap.Field{zap.Int("slip_agents", len(c.SLIP.Agents)), zap.Int("slip_kept", len(c.SLIP.Relay)), zap.Int("slip_a2a", len(c.SLIP.A2A))},
		Commit: func() bool {
			w.o.Served.Replace(w.hearers(w.now.Swap(t)), w.hearers(t))
			_ = w.o.Served.Set().SLIP.SetWords(t.Options) // the configuration was checked
			return false
		},
		Then: w.o.Served.Hire,
	}, err
}

// Anchors returns the anchors in force, nil for the core.
func (w *Words) Anchors() *ucr.Table { return w.now.Load().Anchors }

// files lists the files that the section watches.
func files(c *config.Config) []string {
	if c.SLIP.UCR == "" {
		return nil
	}
	return []string{c.SLIP.UCR}
}

// Keeps implements Relay of profile 1025.
func (w *Words) Keeps(agentID string) bool {
	kept := w.now.Load().kept
	return kept != nil && kept.Match(agentID)
}

// Keep implements Relay of profile 1025.
func (w *Words) Keep(ctx context.Context, identity, agentID string, msgID, text []byte, hops uint64) error {
	return all.KeepSLIP(w.o.Served.Set().Relay, all.SLIPRelay{TTL: w.now.Load().ttl}).Keep(ctx, identity, agentID, msgID, text, hops)
}

// ReadAnchors reads the anchors of this installation. It returns nil for an empty file
// name.
func ReadAnchors(file string) (*ucr.Table, error) {
	if file == "" {
		return nil, nil
	}
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("slip.ucr: %w", config.Unreadable(file, err))
	}
	t, err := ucr.Load(octets)
	if err != nil {
		return nil, fmt.Errorf("slip.ucr: %s: %w", file, err)
	}
	return t, nil
}

// Agents implements agdisc.Source.
func (w *Words) Agents() []agdisc.Entry {
	var list []agdisc.Entry
	for _, agent := range w.now.Load().names {
		if slipstream.IsAgent(agent) {
			list = append(list, agdisc.Entry{AgentID: agent, Card: new(false)})
		}
	}
	return list
}

// Card implements agdisc.Source. These agents have no cards.
func (*Words) Card(string, func(agdisc.Card, error)) bool { return false }
