// Package sdlserver serves A2A-SDL: it builds the SDL server from the configuration and
// connects it to this endpoint.
package sdlserver

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/sdlaudit"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/fetch"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// Server serves A2A-SDL. For each peer it uses a pipe to this endpoint with the identity of
// that peer, so that access rules, limits and the audit trail apply as to a direct
// connection.
type Server struct {
	part.Passive
	o     Options
	log   *zap.Logger
	agent *sdlagent.Agent // nil: A2A-SDL is not served
	way   *part.Door

	// The following fields survive a reload of the section.
	sessions *trust.Sessions
	registry *sdlagent.Registry // nil: no key was ever trusted
	chain    *sdlaudit.Chain    // nil: there is none

	limit atomic.Int64 // octets of an envelope
}

// bytes is how many octets an envelope may have.
func (s *Server) bytes() int { return int(s.limit.Load()) }

// maxSDLFile limits a file of keys, versions or approvers, in octets.
const maxSDLFile = 1 << 20

// Options configure a Server.
type Options struct {
	Config  *config.Config
	Log     *zap.Logger
	Records sdlagent.Records
	Memory  *memory.Budget
	Door    part.DoorOptions
	Served  *served.Profiles
	Guard   Guard
	Ways    *Ways // to agents of partners

	// Has reports whether a local MCP server has the name. Split splits a name into a
	// partner and the rest.
	Has   func(server string) bool
	Split func(name string) (partner, rest string, ok bool)
}

// Guard reports which agent_ids an identity may use.
type Guard interface {
	Allowed(identity, profile, operation, name string) bool
	MayUse(identity, agentID string) bool
}

// New reads the files that the configuration names.
func New(o Options) (*Server, error) {
	s := &Server{o: o, log: o.Log.Named(boundlog.Backend), sessions: trust.NewSessions(trust.SessionOptions{})}
	s.limit.Store(int64(o.Config.SDLBytes()))
	if o.Config.SDL.AgentID == "" {
		return s, nil
	}
	language, err := readLanguage(o.Config, o.Records, s.sessions)
	if err == nil {
		err = s.trust(language)
	}
	if err == nil {
		err = s.openChain(o.Config)
	}
	if err != nil {
		return nil, err
	}
	s.audit(language)
	if s.way, err = part.NewDoor(o.Door, all.Options{A2A: a2a.Options{Carrier: o.Served.Inside()}}); err != nil {
		return nil, errors.Join(err, s.closeChain())
	}
	s.agent, err = sdlagent.New(context.Background(), sdlagent.Options{
		Language: language.Options, Records: o.Records, May: s.may, Target: s.target, Told: s.sessionOf,
		Partner: o.Ways.State, Tell: o.Ways.tell, Answered: o.Ways.ears.answered, Fetches: overSWP, Allowed: o.Guard.Allowed,
		Inside: sdlagent.Inside{
			Connect: s.connect, Self: o.Door.Self(), MCP: s.way.Profiles().MCP, A2A: s.way.Profiles().A2A, Carrier: o.Served.Inside(),
			Task: func(kind string) profiles.Act { return o.Served.Set().A2A.ActOf("", kind) },
		},
		Tasks:  o.Config.SDL.Tasks,
		Report: func(err error) { s.log.Warn("sdl", zap.Error(err)) },
	})
	if err != nil {
		s.way.Close()
		return nil, errors.Join(fmt.Errorf("sdl: %w", err), s.closeChain())
	}
	return s, nil
}

// overSWP reports whether a peer sends its messages over SWP.
func overSWP(peer *profiles.Peer) bool { return !part.Inside(peer) }

// Check reads the files that a configuration names.
func Check(c *config.Config) error {
	_, err := readLanguage(c, nil, nil)
	return err
}

// language is the state that one reading of section sdl produces.
type language struct {
	serve.Options
	trusted canonical.Value // initial content of the trust registry; used with a Policy only
}

// readLanguage reads the files that the configuration names and changes nothing.
func readLanguage(c *config.Config, records sdlagent.Records, sessions *trust.Sessions) (*language, error) {
	s, o := &c.SDL, new(language)
	o.Limits = sdl.Limits{MaxBytes: int(c.SDLBytes()), MaxDepth: s.Limits.Depth, MaxArray: s.Limits.Array, MaxHops: s.Limits.Hops}
	o.Local = s.AgentID
	o.Tools = serve.ToolSet{"sys.ping": serve.Ping, "math.add": serve.Sum}
	o.ToolPolicy = toolPolicy(&s.Tools)
	o.Replay = &trust.Replay{Nonces: sdlagent.Nonces{Records: records}, Window: s.Replay.Window, Skew: s.Replay.Skew}
	o.Sessions = sessions
	if len(s.Schemas.Hosts) > 0 {
		secure := &tls.Config{MinVersion: tls.VersionTLS12}
		if s.Schemas.CA != "" {
			secure.RootCAs = x509.NewCertPool()
			if _, _, err := identity.AddBundle(secure.RootCAs, "", s.Schemas.CA); err != nil {
				return nil, fmt.Errorf("sdl.schemas.ca: %w", err)
			}
		}
		o.Fetch = fetch.New(fetch.Options{Hosts: s.Schemas.Hosts, TLS: secure, Allow: s.Schemas.Prefixes(), MaxBytes: o.Limits.MaxBytes}).Fetch
	}
	if s.Versions != "" {
		v, err := readValue(s.Versions)
		if err == nil {
			o.Versions, err = sdl.ParseVersionPolicy(v)
		}
		if err != nil {
			return nil, fmt.Errorf("sdl.versions: %w", err)
		}
	}
	if s.Sign.Key != "" {
		text, err := part.ReadUpTo(s.Sign.Key, maxSDLFile)
		if err == nil {
			o.SessionKey, err = seal.ParseSigningKey(strings.TrimSpace(string(text)))
		}
		if err != nil {
			return nil, fmt.Errorf("sdl.sign.key: %w", err)
		}
		o.Signer = seal.Signer{Kid: s.Sign.Kid, Key: o.SessionKey}
		if s.Sign.Form == "json" {
			o.Signer.Form = seal.JSON
		}
	}
	var err error
	if o.Proposals, err = proposals(&s.Trust); err != nil {
		return nil, fmt.Errorf("sdl.trust: %w", err)
	}
	if s.Keys == "" {
		return o, nil
	}
	if err := o.readKeys(s); err != nil {
		return nil, fmt.Errorf("sdl.keys: %w", err)
	}
	return o, nil
}

// readKeys reads the security policy without the trust registry.
func (o *language) readKeys(s *config.SDL) error {
	v, err := readValue(s.Keys)
	if err != nil {
		return err
	}
	trusted, decrypt, err := trust.ReadKeyFile(v)
	if err != nil {
		return err
	}
	if _, err := trust.NewRegistry(trusted, time.Now(), trust.RegistryOptions{}); err != nil {
		return err
	}
	recipients, err := trust.ReadRecipients(v)
	if err != nil {
		return err
	}
	o.Recipients = func(agentID string) []seal.Recipient { return recipients[agentID] }
	o.trusted = trusted
	o.Policy = &trust.Policy{
		Mode: s.Mode, Agents: s.Agents, DecryptKeys: decrypt,
		Replay: o.Replay, RequireReplay: s.Replay.Required,
		Sessions: o.Sessions, RequireSession: s.Session.Required,
	}
	if len(s.Session.Exempt) > 0 {
		o.Policy.SessionExempt = s.Session.Exempt
	}
	return nil
}

// trust puts the keys of o into the trust registry, together with the stored changes that
// were made since the file was written.
func (s *Server) trust(o *language) error {
	if o.Policy == nil {
		return nil
	}
	var err error
	if s.registry == nil {
		s.registry, err = sdlagent.OpenRegistry(context.Background(), s.o.Records, o.trusted, time.Now())
	} else {
		err = s.registry.Configure(o.trusted, time.Now())
	}
	if err != nil {
		return fmt.Errorf("sdl.keys: %w", err)
	}
	o.Registry = s.registry.Registry
	o.Policy.Registry = o.Registry
	return nil
}

// Section is the reloadable part of the configuration.
func Section(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "sdl", Stays: "the old one stays", Prepare: prepare,
		Keys: []string{
			"sdl.agent_id", "sdl.keys", "sdl.mode", "sdl.agents", "sdl.versions", "sdl.replay", "sdl.session", "sdl.sign", "sdl.trust", "sdl.tools",
			"sdl.limits", "sdl.deadline", "sdl.tasks", "sdl.schemas",
		},
		Waits: "whether A2A-SDL is served at all is decided at the start",
		Fits:  func(started, now *config.Config) bool { return (started.SDL.AgentID == "") == (now.SDL.AgentID == "") },
		Files: func(c *config.Config) []string { return c.SDL.Files() },
	}
}

// Prepare reads section sdl.
func (s *Server) Prepare(c *config.Config) (part.Change, error) {
	if s.agent == nil {
		return part.Change{Commit: func() bool {
			s.limit.Store(int64(c.SDLBytes()))
			s.o.Served.Set().SDL.SetDeadline(c.SDL.Deadline)
			return false
		}}, nil
	}
	next, err := readLanguage(c, s.o.Records, s.sessions)
	if err != nil {
		return part.Change{}, err
	}
	s.audit(next)
	return part.Change{
		Fields: []zap.Field{zap.String("sdl", c.SDL.AgentID)},
		Commit: func() bool {
			if err := errors.Join(s.trust(next), s.agent.SetLanguage(next.Options)); err != nil {
				s.log.Error("sdl: not all of it is in force", zap.Error(err))
			}
			s.o.Ways.SetAgentID(c.SDL.AgentID)
			s.limit.Store(int64(c.SDLBytes()))
			s.agent.SetTasks(c.SDL.Tasks)
			s.way.SetExchanges(exchanges(c))
			s.o.Served.Set().SDL.SetDeadline(c.SDL.Deadline)
			return false
		},
	}, nil
}

func toolPolicy(t *config.SDLTools) *trust.ToolPolicy {
	return &trust.ToolPolicy{
		Tools: t.Allow, ByAgent: lists(t.Agents), Scopes: t.Scopes, Granted: lists(t.Grants), MaxArgsBytes: int(t.Args),
	}
}

func lists(m map[string]config.List) map[string][]string {
	out := make(map[string][]string, len(m))
	for name, list := range m {
		out[name] = list
	}
	return out
}

// proposals returns the verifier for changes of the trust registry; nil if no changes are
// allowed.
func proposals(t *config.SDLTrust) (trust.Verifier, error) {
	switch {
	case t.Quorum != "":
		v, err := readValue(t.Quorum)
		if err != nil {
			return nil, err
		}
		return trust.ReadQuorumFile(v)
	case t.Key != "":
		text, err := part.ReadUpTo(t.Key, maxSDLFile)
		if err != nil {
			return nil, err
		}
		var key ed25519.PublicKey
		if key, err = seal.ParseVerifyKey(strings.TrimSpace(string(text))); err != nil {
			return nil, err
		}
		return &trust.SingleKey{Key: key}, nil
	}
	return nil, nil
}

func readValue(file string) (canonical.Value, error) {
	text, err := part.ReadUpTo(file, maxSDLFile)
	if err != nil {
		return canonical.Value{}, err
	}
	v, err := canonical.ParseJSON(text)
	if err != nil {
		return v, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

// Offer implements part.Part.
func (s *Server) Offer(o *all.Options) error {
	if s.agent != nil {
		o.SDL.Server, o.A2A.Owned = s.agent, owned
	}
	o.SDL.Deadline, o.SDL.Room = s.o.Config.SDL.Deadline, s.room
	return nil
}

// room takes octets of the budget for an identity.
func (s *Server) room(identity string, octets int) (release func(), excused bool) {
	share := s.o.Memory.Share(profiles.Link(identity))
	if of := memory.Of(octets); share.Try(octets, of) {
		return func() {
			share.Give(octets, of)
			share.Close()
		}, false
	}
	excused = !share.Above(octets)
	share.Close()
	return nil, excused
}

// owned reports whether a kind is of the tasks of envelopes, and the peer is none of the
// doors of this process: a task for it was in no envelope that has passed the checks.
func owned(kind string, peer *profiles.Peer) bool {
	return strings.HasPrefix(kind, "sdl/") && !part.Inside(peer)
}

// may reports whether an identity may use an agent_id.
func (s *Server) may(identity, agentID string) bool { return mayAs(s.o.Guard, identity, agentID) }

func mayAs(g Guard, identity, agentID string) bool {
	return g.Allowed(identity, "sdl", "send", agentID) && g.MayUse(identity, agentID)
}

// target splits the name of a tool: its first segment denotes a local server or a partner.
func (s *Server) target(name string) (server, tool string, ok bool) {
	if partner, rest, ok := s.o.Split(name); ok {
		server, tool, ok := strings.Cut(rest, "/")
		return partner + "/" + server, tool, ok && server != "" && tool != ""
	}
	server, tool, _ = strings.Cut(name, "/")
	return server, tool, s.o.Has(server) && tool != ""
}

// sessionOf returns the last session of an identity as an agent, or else the session of its
// A2A-SDL handshake.
func (s *Server) sessionOf(identity, agentID string) (profiles.Session, bool) {
	if session, ok := s.o.Served.Set().SDL.Session(identity, agentID); ok {
		return session, true
	}
	session, ok := s.o.Served.Set().A2A.Session(agentID)
	return session, ok && session.Peer().Identity == profiles.Link(identity)
}

// confirmed sends an event, and returns when the other end has taken it.
func confirmed(ctx context.Context, s profiles.Session, env e1.Envelope) error {
	lane, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	call, err := lane.Call(ctx, env)
	if err != nil {
		return err
	}
	defer call.Close()
	return rpc.SyncOf(ctx, lane, call.MsgID())
}

// Open implements part.Part.
func (s *Server) Open() error {
	if s.way == nil {
		return nil
	}
	return s.way.Open(exchanges(s.o.Config))
}

// exchanges returns how many exchanges the pipe of one identity may have in flight.
func exchanges(c *config.Config) int { return max(c.Limits.InFlight*4, c.SDL.Tasks) }

// Door implements part.Part.
func (s *Server) Door() *part.Door { return s.way }

// connect opens a pipe of an identity to this endpoint.
func (s *Server) connect(identity string) (profiles.Session, func(), error) {
	session, err := s.way.Pass(identity)
	if err != nil {
		return nil, nil, err
	}
	return session, func() { session.Close(profiles.OK) }, nil
}

// Recheck implements part.Part.
func (s *Server) Recheck() (kept, closed int) { return s.way.Recheck() }

// Opened implements part.Part: tasks that a previous process left unfinished continue.
func (s *Server) Opened() {
	if s.agent == nil {
		return
	}
	if err := s.agent.Start(context.Background()); err != nil {
		s.log.Error("sdl: tasks of an earlier process do not go on", zap.Error(err))
	}
}

// Close implements part.Part. The profiles are still open when it runs.
func (s *Server) Close() error {
	if s.agent != nil {
		s.agent.Close()
	}
	s.way.End()
	s.way.Close()
	return s.closeChain()
}
