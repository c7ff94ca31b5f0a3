// Package check describes, without serving anything, the services of a configuration for
// which identities and what its access rules allow. It also explains denials.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/mcpservers"
	"github.com/slimwire/swp/daemon/internal/rpcbackends"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/daemon/internal/workers"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
)

// Plan says what a configuration would serve, and to which identities.
type Plan struct {
	Config    string        `json:"config"` // file, empty for the built-in one
	Identity  string        `json:"identity"`
	NotAfter  time.Time     `json:"certificate_not_after"`
	Trust     []string      `json:"trust"` // PEM files, and the address of the Workload API
	Listeners []PlanListen  `json:"listeners"`
	Admin     string        `json:"admin"`
	Health    string        `json:"health"`
	Metrics   string        `json:"metrics"`
	Store     string        `json:"store"`
	Node      string        `json:"node,omitempty"` // with its address for the others; empty: the store is not shared
	Freshness string        `json:"freshness"`
	Open      []string      `json:"open_methods"` // methods that every peer may call
	Servers   []PlanServer  `json:"mcp_servers"`
	Workers   []PlanService `json:"a2a_workers"`
	Agents    []PlanAgent   `json:"a2a_agents"`
	Teams     []PlanTeam    `json:"teams"`
	Partners  []PlanPartner `json:"partners"`
	HTTP      PlanHTTP      `json:"http"`
	Backends  []PlanService `json:"rpc_backends"`
	Cards     []PlanName    `json:"agent_cards"` // by agent_id
	SDL       PlanSDL       `json:"sdl"`
	SLIP      PlanSLIP      `json:"slip"`
	Tools     []PlanName    `json:"tools"` // configured tools, by tool_id
	Warnings  []string      `json:"warnings"`

	// Claims has the names that are claimed there. It is nil without a certificate.
	Claims *claims.Registry `json:"-"`
}

// PlanListen is a listener of a Plan.
type PlanListen struct {
	Address     string `json:"address"`
	ErrorFrames bool   `json:"error_frames"`
	Peers       string `json:"peers"` // description of the peers that may connect
}

// PlanServer is an MCP server of a Plan: a command or a URL. It does not contain arguments
// and values of variables and headers: they may be secret.
type PlanServer struct {
	Name    string   `json:"name"`
	Default bool     `json:"default"`
	Allowed []string `json:"allowed"` // patterns of the identities with any right there

	Command   string   `json:"command,omitempty"` // as resolved
	Args      int      `json:"args,omitempty"`    // how many
	Env       []string `json:"env,omitempty"`     // names
	Idle      string   `json:"idle,omitempty"`
	MaxWorker int      `json:"max_children,omitempty"`

	URL     string   `json:"url,omitempty"`
	Headers []string `json:"headers,omitempty"` // names
}

func planServer(c *config.Config, name string) (*PlanServer, error) {
	s := c.MCP.Servers[name]
	p := &PlanServer{
		Name: name, Default: isDefault(c, name),
		Allowed: whoMay(&c.Access, func(a *access.Policy) bool { return a.Reaches(anyone, "mcp", name) }),
	}
	if s.URL == "" {
		command, err := exec.LookPath(s.Command)
		p.Command, p.Args, p.Env, p.Idle, p.MaxWorker = command, len(s.Args), slices.Sorted(maps.Keys(s.Env)), s.Idle.String(), s.MaxChildren
		return p, err // it existed when the configuration was read
	}
	h, err := mcpservers.Headers(&s)
	p.URL, p.Headers = s.URL, slices.Sorted(maps.Keys(h))
	return p, err
}

// PlanService is a worker or a backend of a Plan.
type PlanService struct {
	Name  string     `json:"name"`
	At    string     `json:"at"` // a command as resolved, or a URL
	Names []PlanName `json:"names"`
}

// PlanName is a kind, a method, a card or a tool that is served.
type PlanName struct {
	Name    string   `json:"name"`
	Allowed []string `json:"allowed"` // patterns of the identities that may use it
}

// Read reads everything that a configuration names, as daemon.Run would, but does not
// listen, start or create anything. The error is the one with which daemon.Run would fail.
func Read(c *config.Config) (*Plan, error) { return ReadBeside(c, storage.NamedIn) }

// StoredNames returns the stored names with each of several prefixes, by their kind.
type StoredNames func(ctx context.Context, c *config.Config, prefixes []string) (map[string]map[string][]string, error)

// ReadBeside is Read where stored finds the names in the store, which a running swpd may have open.
func ReadBeside(c *config.Config, stored StoredNames) (*Plan, error) {
	p := &Plan{
		Config: c.Source, Trust: c.Trust.CA, Admin: c.Admin.Address, Health: c.Health, Metrics: c.Metrics.Address, Freshness: c.Freshness.Owner, Open: all.Open(),
		Store: storage.Describe(c), Listeners: []PlanListen{}, Servers: []PlanServer{},
		Workers: []PlanService{}, Agents: []PlanAgent{}, Teams: []PlanTeam{}, Partners: []PlanPartner{}, Backends: []PlanService{}, Cards: []PlanName{}, Tools: []PlanName{}, Warnings: []string{},
	}
	if c.Store != config.StoreMemory {
		if err := disk.CanHold(c.Data); err != nil {
			return nil, fmt.Errorf("data: %w; name a directory that swpd can make or write", err)
		}
	}
	if c.Clustered() {
		name, err := c.NodeName()
		if err != nil {
			return nil, err
		}
		p.Node = name
		if at := c.Cluster.Address; at != "" {
			p.Node += ", for other nodes at " + at
		} else {
			p.Warnings = append(p.Warnings, "cluster.address is not set: peers can use this node only while it is active")
		}
	}
	policy, err := p.admitted(c)
	if err != nil {
		return nil, err
	}
	if l := &c.Limits; l.PayloadBytes >= l.FrameBytes {
		p.Warnings = append(p.Warnings, fmt.Sprintf("limits.payload_bytes is %v, and a frame of limits.frame_bytes, %v, has no room for such a payload", l.PayloadBytes, l.FrameBytes))
	}
	for _, l := range c.Listeners {
		peers := "every identity that the trusted authorities vouch for"
		if l.Address.Transport == "tcp" {
			peers = "every process on this machine, unauthenticated, as \"loopback\""
		}
		p.Listeners = append(p.Listeners, PlanListen{l.Address.String(), l.ErrorFrames, peers})
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		server, err := planServer(c, name)
		if err != nil {
			return nil, err
		}
		p.Servers = append(p.Servers, *server)
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		w := c.A2A.Workers[name]
		at := w.URL
		if at == "" {
			var err error
			if at, err = exec.LookPath(w.Command); err != nil {
				return nil, err
			}
		}
		p.Workers = append(p.Workers, service(&c.Access, name, at, w.Kinds, "a2a", "task"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		b := c.RPC.Backends[name]
		p.Backends = append(p.Backends, service(&c.Access, name, b.URL, b.Methods, "rpc", "call"))
	}
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		p.Cards = append(p.Cards, planName(&c.Access, id, "agdisc", "get"))
	}
	for i := range c.TOOLDISC.Tools {
		p.Tools = append(p.Tools, planName(&c.Access, c.TOOLDISC.Tools[i].ToolID, "tooldisc", "get"))
	}
	p.agents(c)
	if err := p.teams(c); err != nil {
		return nil, err
	}
	if err := p.sdl(c); err != nil {
		return nil, err
	}
	if err := p.slip(c); err != nil {
		return nil, err
	}
	p.partners(c, policy, stored)
	if err := p.http(c, policy); err != nil {
		return nil, err
	}
	p.access(c)
	p.secrets(c)
	p.idle(c, time.Now())
	return p, p.services(c)
}

// Partners reads what a configuration says about partners, as ReadBeside does, and returns the warnings of that.
func Partners(c *config.Config, stored StoredNames) (warnings []string, err error) {
	p := new(Plan)
	policy, err := p.admitted(c)
	if err != nil {
		return nil, err
	}
	p.partners(c, policy, stored)
	p.access(c)
	p.idle(c, time.Now())
	return p.Warnings, nil
}

// admitted reads the certificates and the access rules.
func (p *Plan) admitted(c *config.Config) (*access.Policy, error) {
	if err := p.identity(c); err != nil {
		return nil, err
	}
	if err := identity.NotSelf(c.Partners, p.Identity); err != nil {
		return nil, err
	}
	return guard.NewPolicy(&c.Access, time.Now())
}

// services adds workers, backends, cards, verifiers and tools. It reads their files.
func (p *Plan) services(c *config.Config) error {
	log := zap.NewNop()
	w, err := workers.New(workers.Options{Config: c, Log: log})
	if err != nil {
		return err
	}
	_ = w.Close()
	a, err := workers.NewAgents(workers.AgentOptions{Config: c, Log: log, Records: new(storage.Storage)})
	if err != nil {
		return err
	}
	_ = a.Close()
	b, err := rpcbackends.New(rpcbackends.Options{Config: c, Log: log})
	if err != nil {
		return err
	}
	_ = b.Close()
	cards, err := served.NewCards(c)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		cards.Card(id, func(card agdisc.Card, _ error) { p.card("agdisc.cards."+id+".file", card.Payload) })
	}
	if _, err := served.NewVerifiers(c, nil, nil); err != nil {
		return err
	}
	return mcpservers.CheckTools(c)
}

// card warns of a card that clients of A2A may refuse.
func (p *Plan) card(key string, octets []byte) {
	if err := agdisc.CheckA2A(octets); err != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s is no card of A2A: %v; it is served as it is, and clients of A2A may refuse it", key, err))
	}
}

func service(a *config.Access, name, at string, names []string, profile, operation string) PlanService {
	s := PlanService{Name: name, At: at, Names: []PlanName{}}
	for _, n := range names {
		s.Names = append(s.Names, planName(a, n, profile, operation))
	}
	return s
}

func planName(a *config.Access, name, profile, operation string) PlanName {
	return PlanName{name, whoMay(a, func(a *access.Policy) bool { return a.Allowed(anyone, profile, operation, name) })}
}

// anyone is an identity that matches every rule in whoMay.
const anyone = "anyone"

// whoMay returns the patterns of the identities for which yes returns true.
func whoMay(a *config.Access, yes func(*access.Policy) bool) []string {
	who := []string{}
	for _, rule := range a.Rules {
		identities := rule.Identity
		if len(rule.For) > 0 {
			identities = onBehalf(identities, rule.For)
		}
		rule.Identity, rule.For = config.List{anyone}, nil
		alone, err := guard.NewPolicy(&config.Access{Rules: []config.AccessRule{rule}}, time.Now())
		if err != nil || !yes(alone) {
			continue
		}
		for _, identity := range identities {
			if !slices.Contains(who, identity) {
				who = append(who, identity)
			}
		}
	}
	return who
}

// onBehalf returns each of the identities with each of the callers.
func onBehalf(identities, callers config.List) (list config.List) {
	for _, identity := range identities {
		for _, caller := range callers {
			list = append(list, profiles.OnBehalf(identity, caller))
		}
	}
	return list
}

// access warns of rules that are probably a mistake.
func (p *Plan) access(c *config.Config) {
	if len(c.Access.Rules) == 0 {
		p.Warnings = append(p.Warnings, "access has no rules, so nobody may do anything; see access in docs/configuration.md")
		return
	}
	policy, err := guard.NewPolicy(&c.Access, time.Now())
	if err != nil {
		return // reported by Read
	}
	for _, l := range c.Listeners {
		if g := policy.For(config.LoopbackIdentity); l.Address.Transport == "tcp" && (g.Denied || len(g.Rules) == 0) {
			p.Warnings = append(p.Warnings, l.Address.String()+" serves nobody: its peers have the identity \"loopback\", and no access rule is for that")
		}
	}
	p.Warnings = append(p.Warnings, c.DoubtfulOperations()...)
	p.transit(c)
	if policy.Denied(p.Identity) {
		p.Warnings = append(p.Warnings, "access.deny matches this endpoint's own identity "+p.Identity)
	}
}

func (p *Plan) identity(c *config.Config) error {
	if c.Development() && !devpki.Server(c.IdentityDir()).Exist() {
		p.Identity, p.Trust = devpki.DefaultName, []string{devpki.Server(c.IdentityDir()).CA}
		p.Warnings = append(p.Warnings, "a development identity will be made in "+c.IdentityDir())
		return nil
	}
	p.Trust = identity.FilesOf(c).CA
	if c.Identity.SPIFFE != "" {
		p.Trust = append([]string{c.Identity.SPIFFE}, p.Trust...)
	}
	cr, err := identity.Read(c, time.Now)
	if away := (*identity.NoSVIDError)(nil); errors.As(err, &away) {
		p.Identity = cmp.Or(c.Identity.SPIFFEID, "unknown")
		p.Warnings = append(p.Warnings, away.Error()+". Not checked: the certificate, the own trust domain, and whether a partner has the identity of this endpoint")
		return identity.CheckBundles(c)
	} else if err != nil {
		return err
	}
	p.Identity, p.NotAfter = cr.Identity(), cr.NotAfter()
	p.Warnings = append(p.Warnings, cr.Warnings()...)
	p.Claims = cr.Claims()
	return nil
}
