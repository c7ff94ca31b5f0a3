package daemon

import (
	"context"
	"crypto/ed25519"
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
}

// maxSDLFile is the largest file of keys, versions or approvers.
const maxSDLFile = 1 << 20

// newSpeaker reads what the configuration names.
func newSpeaker(d *daemon) (*speaker, error) {
	s := &speaker{d: d, log: d.log.Named(boundlog.Backend)}
	if d.config.SDL.AgentID == "" {
		return s, nil
	}
	language, err := sdlLanguage(context.Background(), d.config, d.state)
	if err != nil {
		return nil, err
	}
	if s.way, err = newDoor(d, all.Options{A2A: a2a.Options{Carrier: carrier{d}}}); err != nil {
		return nil, err
	}
	s.agent, err = sdlagent.New(context.Background(), sdlagent.Options{
		Language: language, Records: d.state, May: s.may, Target: s.target, Told: s.told, Policy: violated{d},
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

// sdlLanguage is the server of the language as the configuration has it.
func sdlLanguage(ctx context.Context, c *config.Config, records sdlagent.Records) (o serve.Options, err error) {
	s := &c.SDL
	o.Limits = sdl.Limits{MaxBytes: int(c.SDLBytes()), MaxDepth: s.Limits.Depth, MaxArray: s.Limits.Array, MaxHops: s.Limits.Hops}
	o.Tools = serve.ToolSet{"sys.ping": serve.Ping, "math.add": serve.Sum}
	o.ToolPolicy = toolPolicy(&s.Tools)
	o.Replay = &trust.Replay{Nonces: sdlagent.Nonces{Records: records}, Window: s.Replay.Window, Skew: s.Replay.Skew}
	o.Sessions = trust.NewSessions(trust.SessionOptions{})
	if s.Versions != "" {
		v, err := readValue(s.Versions)
		if err == nil {
			o.Versions, err = sdl.ParseVersionPolicy(v)
		}
		if err != nil {
			return o, fmt.Errorf("sdl.versions: %w", err)
		}
	}
	if s.Sign.Key != "" {
		text, err := readUpTo(s.Sign.Key, maxSDLFile)
		if err == nil {
			o.SessionKey, err = seal.ParseSigningKey(strings.TrimSpace(string(text)))
		}
		if err != nil {
			return o, fmt.Errorf("sdl.sign.key: %w", err)
		}
		o.Signer = seal.Signer{Kid: s.Sign.Kid, Key: o.SessionKey}
		if s.Sign.Form == "json" {
			o.Signer.Form = seal.JSON
		}
	}
	if o.Proposals, err = proposals(&s.Trust); err != nil {
		return o, fmt.Errorf("sdl.trust: %w", err)
	}
	if s.Keys == "" {
		return o, nil
	}
	if o.Policy, err = sdlPolicy(ctx, s, records, &o); err != nil {
		return o, fmt.Errorf("sdl.keys: %w", err)
	}
	return o, nil
}

// sdlPolicy is the security policy, with the trust registry, which it also puts into o.
func sdlPolicy(ctx context.Context, s *config.SDL, records sdlagent.Records, o *serve.Options) (*trust.Policy, error) {
	v, err := readValue(s.Keys)
	if err != nil {
		return nil, err
	}
	initial, decrypt, err := trust.ReadKeyFile(v)
	if err != nil {
		return nil, err
	}
	if o.Registry, err = sdlagent.OpenRegistry(ctx, records, initial, time.Now()); err != nil {
		return nil, err
	}
	p := &trust.Policy{
		Mode: s.Mode, Agents: s.Agents, Local: s.AgentID, Registry: o.Registry, DecryptKeys: decrypt,
		Replay: o.Replay, RequireReplay: s.Replay.Required,
		Sessions: o.Sessions, RequireSession: s.Session.Required,
	}
	if len(s.Session.Exempt) > 0 {
		p.SessionExempt = s.Session.Exempt
	}
	return p, nil
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
	_, err := sdlLanguage(context.Background(), c, nothingKept{})
	return err
}

// nothingKept are Records of a check: nothing is read or written.
type nothingKept struct{ sdlagent.Records }

// Get says that there is nothing.
func (nothingKept) Get(context.Context, string, string) (uint64, []byte, error) { return 0, nil, nil }
