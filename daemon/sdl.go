package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// speaker is what this endpoint answers to A2A-SDL. What it does for a peer it does over
// a pipe to this endpoint that is that peer's, so that rules, limits and the audit trail
// see it as they see everything else of that peer.
type speaker struct {
	passive
	d     *daemon
	log   *zap.Logger
	agent *sdlagent.Agent // nil: A2A-SDL is not served
	way   *door

	// What does not end with a language that another one replaces.
	sessions *trust.Sessions
	registry *sdlagent.Registry // nil: nobody was ever trusted to sign
}

// maxSDLFile is the largest file of keys, versions or approvers.
const maxSDLFile = 1 << 20

// newSpeaker reads what the configuration names.
func newSpeaker(d *daemon) (*speaker, error) {
	s := &speaker{d: d, log: d.log.Named(boundlog.Backend), sessions: trust.NewSessions(trust.SessionOptions{})}
	if d.config.SDL.AgentID == "" {
		return s, nil
	}
	language, err := readLanguage(d.config, d.state, s.sessions)
	if err == nil {
		err = s.trust(language)
	}
	if err != nil {
		return nil, err
	}
	if s.way, err = newDoor(d, all.Options{A2A: a2a.Options{Carrier: carrier{d}}}); err != nil {
		return nil, err
	}
	s.agent, err = sdlagent.New(context.Background(), sdlagent.Options{
		Language: language.Options, Records: d.state, May: s.may, Target: s.target, Told: s.told, Policy: violated{d},
		Inside: sdlagent.Inside{
			Connect: s.connect, Self: d.credentials.identity(), MCP: s.way.set.MCP, A2A: s.way.set.A2A, Carrier: carrier{d},
		},
		Tasks:  d.config.SDL.Tasks,
		Report: func(err error) { s.log.Warn("sdl", zap.Error(err)) },
	})
	if err != nil {
		s.way.close()
		return nil, fmt.Errorf("sdl: %w", err)
	}
	return s, nil
}

// language is the server of the language as one reading of section sdl has it.
type language struct {
	serve.Options
	trusted canonical.Value // what the trust registry begins as; of no use without a Policy
}

// readLanguage reads what the configuration names. Nothing of it is in force yet.
func readLanguage(c *config.Config, records sdlagent.Records, sessions *trust.Sessions) (*language, error) {
	s, o := &c.SDL, new(language)
	o.Limits = sdl.Limits{MaxBytes: int(c.SDLBytes()), MaxDepth: s.Limits.Depth, MaxArray: s.Limits.Array, MaxHops: s.Limits.Hops}
	o.Tools = serve.ToolSet{"sys.ping": serve.Ping, "math.add": serve.Sum}
	o.ToolPolicy = toolPolicy(&s.Tools)
	o.Replay = &trust.Replay{Nonces: sdlagent.Nonces{Records: records}, Window: s.Replay.Window, Skew: s.Replay.Skew}
	o.Sessions = sessions
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
		text, err := readUpTo(s.Sign.Key, maxSDLFile)
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

// readKeys reads the security policy, which lacks the trust registry.
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
	o.trusted = trusted
	o.Policy = &trust.Policy{
		Mode: s.Mode, Agents: s.Agents, Local: s.AgentID, DecryptKeys: decrypt,
		Replay: o.Replay, RequireReplay: s.Replay.Required,
		Sessions: o.Sessions, RequireSession: s.Session.Required,
	}
	if len(s.Session.Exempt) > 0 {
		o.Policy.SessionExempt = s.Session.Exempt
	}
	return nil
}

// trust has the keys of a language be trusted, with the changes that were made to them
// since they were in their file.
func (s *speaker) trust(o *language) error {
	if o.Policy == nil {
		return nil
	}
	var err error
	if s.registry == nil {
		s.registry, err = sdlagent.OpenRegistry(context.Background(), s.d.state, o.trusted, time.Now())
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

// prepareSDL makes the language of a configuration ready.
func (d *daemon) prepareSDL(c *config.Config) (change, error) {
	s := d.sdl
	if s.agent == nil {
		return change{commit: func() bool { return false }}, nil
	}
	next, err := readLanguage(c, d.state, s.sessions)
	if err != nil {
		return change{}, err
	}
	return change{
		fields: []zap.Field{zap.String("sdl", c.SDL.AgentID)},
		commit: func() bool {
			if err := errors.Join(s.trust(next), s.agent.SetLanguage(next.Options)); err != nil {
				s.log.Error("sdl: not all of it is in force", zap.Error(err))
			}
			return false
		},
	}, nil
}

// sdlFiles are those that section sdl reads again.
func sdlFiles(c *config.Config) []string { return c.SDL.Files() }

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

// proposals are who changes the trust registry; nil if nobody does.
func proposals(t *config.SDLTrust) (trust.Verifier, error) {
	switch {
	case t.Quorum != "":
		v, err := readValue(t.Quorum)
		if err != nil {
			return nil, err
		}
		return trust.ReadQuorumFile(v)
	case t.Key != "":
		text, err := readUpTo(t.Key, maxSDLFile)
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
	text, err := readUpTo(file, maxSDLFile)
	if err != nil {
		return canonical.Value{}, err
	}
	v, err := canonical.ParseJSON(text)
	if err != nil {
		return v, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

// options configure the profile.
func (s *speaker) options() carriage.Options {
	if s.agent == nil {
		return carriage.Options{}
	}
	return carriage.Options{Server: s.agent, Deadline: s.d.config.SDL.Deadline}
}

// may says who may speak as which agent.
func (s *speaker) may(identity, agentID string) bool {
	return s.d.guard.Allowed(identity, "sdl", "send", agentID) && s.d.guard.MayUse(identity, agentID)
}

// target splits the name of a tool: the first segment decides what the server is.
func (s *speaker) target(name string) (server, tool string, ok bool) {
	first, tool, _ := strings.Cut(name, "/")
	if link, rest, ok := s.d.partners.directory.Split(name); ok {
		server, tool, ok := strings.Cut(rest, "/")
		return link.Name() + "/" + server, tool, ok && server != "" && tool != ""
	}
	_, ok = s.d.servers.Server(first)
	return first, tool, ok && tool != ""
}

// told finds where an identity is there as an agent: where it spoke last, or where its
// Handshake of A2A came from.
func (s *speaker) told(identity, agentID string) (profiles.Session, bool) {
	if session, ok := s.d.profiles.SDL.Session(identity, agentID); ok {
		return session, true
	}
	session, ok := s.d.profiles.A2A.Session(agentID)
	return session, ok && session.Peer().Identity == identity
}

// violated holds calls of tools against the hints of peers.
type violated struct{ d *daemon }

// Violated implements profiles.Policy.
func (v violated) Violated(ctx context.Context, profile, name string) *profiles.Violation {
	return v.d.profiles.Hints.Violated(ctx, profile, name)
}

// open implements part.
func (s *speaker) open() error {
	if s.way == nil {
		return nil
	}
	return s.way.open(max(s.d.config.Limits.InFlight*4, s.d.config.SDL.Tasks))
}

// door implements part.
func (s *speaker) door() *door { return s.way }

// connect opens a pipe of an identity to this endpoint.
func (s *speaker) connect(identity string) (profiles.Session, func(), error) {
	session, err := s.way.pass(identity)
	if err != nil {
		return nil, nil, err
	}
	return session, func() { session.Close(profiles.OK) }, nil
}

// recheck implements part.
func (s *speaker) recheck() (kept, closed int) { return s.way.recheck(nil) }

// begin implements part: the tasks of an earlier process go on.
func (s *speaker) begin() {
	if s.agent == nil {
		return
	}
	if err := s.agent.Start(context.Background()); err != nil {
		s.log.Error("sdl: tasks of an earlier process do not go on", zap.Error(err))
	}
}

// close implements part. Nobody is left to answer, and the profiles are still there.
func (s *speaker) close() error {
	if s.agent != nil {
		s.agent.Close()
	}
	s.way.end()
	s.way.close()
	return nil
}

// PlanSDL is what a Plan serves of A2A-SDL.
type PlanSDL struct {
	AgentID string   `json:"agent_id"` // empty: it is not served
	Mode    string   `json:"mode"`     // that envelopes must have
	Tools   []string `json:"tools"`    // that some agent may call
	Signs   string   `json:"signs_as"` // kid; empty: nothing is signed
}

func (p *Plan) sdl(c *config.Config) error {
	s := &c.SDL
	p.SDL = PlanSDL{AgentID: s.AgentID, Mode: s.Mode, Tools: slices.Clone(s.Tools.Allow), Signs: s.Sign.Kid}
	if s.AgentID == "" {
		return nil
	}
	switch {
	case s.Keys == "":
		p.SDL.Mode = sdl.ModeNone
		p.Warnings = append(p.Warnings, "sdl.keys is not set: envelopes are taken as they are, and signed ones are refused")
	case s.Mode == "":
		p.SDL.Mode = "any that is signed"
	}
	if len(s.Tools.Allow) == 0 {
		tools := make(map[string]bool)
		for _, list := range s.Tools.Agents {
			for _, tool := range list {
				tools[tool] = true
			}
		}
		p.SDL.Tools = slices.Sorted(maps.Keys(tools))
	}
	_, err := readLanguage(c, new(state), nil)
	return err
}
