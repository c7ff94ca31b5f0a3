package daemon

import (
	"maps"
	"os/exec"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
)

// Plan is what a configuration would serve to whom.
type Plan struct {
	Config    string       `json:"config"` // file, empty for the built-in one
	Identity  string       `json:"identity"`
	NotAfter  time.Time    `json:"certificate_not_after"`
	Trust     []string     `json:"trust"` // PEM files
	Listeners []PlanListen `json:"listeners"`
	Admin     string       `json:"admin"`
	Freshness string       `json:"freshness"`
	Servers   []PlanServer `json:"mcp_servers"`
	Warnings  []string     `json:"warnings"`
}

// PlanListen is a listener of a Plan.
type PlanListen struct {
	Address     string `json:"address"`
	ErrorFrames bool   `json:"error_frames"`
	Peers       string `json:"peers"` // who may connect, in words
}

// PlanServer is an MCP server of a Plan. Arguments and values of variables may be
// secret and are not in it.
type PlanServer struct {
	Name      string   `json:"name"`
	Command   string   `json:"command"` // as resolved
	Args      int      `json:"args"`    // how many
	Env       []string `json:"env"`     // names
	Default   bool     `json:"default"`
	Allowed   string   `json:"allowed"` // who may call it, in words
	Idle      string   `json:"idle"`
	MaxWorker int      `json:"max_children"`
}

// Check reads everything that a configuration names, as Run would, without
// listening, starting or creating anything. The error is what Run would fail
// with.
func Check(c *config.Config) (*Plan, error) {
	p := &Plan{
		Config: c.Source, Trust: c.Trust.CA, Admin: c.Admin, Freshness: c.Freshness.Owner,
		Listeners: []PlanListen{}, Servers: []PlanServer{}, Warnings: []string{},
	}
	if err := p.identity(c); err != nil {
		return nil, err
	}
	for _, l := range c.Listeners {
		peers := "every identity that the trusted authorities vouch for"
		if l.Address.Transport == "tcp" {
			peers = "every process on this machine, unauthenticated, as \"loopback\""
		}
		p.Listeners = append(p.Listeners, PlanListen{l.Address.String(), l.ErrorFrames, peers})
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		s := c.MCP.Servers[name]
		command, err := exec.LookPath(s.Command)
		if err != nil {
			return nil, err // found when the configuration was read, gone now
		}
		p.Servers = append(p.Servers, PlanServer{
			Name: name, Command: command, Args: len(s.Args), Env: slices.Sorted(maps.Keys(s.Env)),
			Default: s.Default || len(c.MCP.Servers) == 1, Allowed: "every peer",
			Idle: s.Idle.String(), MaxWorker: s.MaxChildren,
		})
	}
	return p, nil
}

func (p *Plan) identity(c *config.Config) error {
	if c.Development() && !devpki.Server(c.IdentityDir()).Exist() {
		p.Identity, p.Trust = devpki.DefaultName, []string{devpki.Server(c.IdentityDir()).CA}
		p.Warnings = append(p.Warnings, "a development identity will be made in "+c.IdentityDir())
		return nil
	}
	cr := credentialsOf(c, zap.NewNop(), time.Now)
	l, err := cr.read()
	if err != nil {
		return err
	}
	cr.current.Store(l)
	p.Identity, p.NotAfter, p.Trust = l.identity, l.Certificate.Leaf.NotAfter, cr.ca
	if reason, _ := cr.expiry(); reason != "" {
		p.Warnings = append(p.Warnings, reason)
	}
	return nil
}
