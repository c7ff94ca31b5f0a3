package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/sdlserver"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/sdl"
)

// PlanSDL is A2A-SDL in a Plan.
type PlanSDL struct {
	AgentID string   `json:"agent_id"` // empty: it is not served
	Mode    string   `json:"mode"`     // required of envelopes
	Tools   []string `json:"tools"`    // tools that some agent may call
	Signs   string   `json:"signs_as"` // kid; empty: nothing is signed

	Routes map[string]string `json:"routes"` // targets, by patterns of agent_ids
}

func (p *Plan) sdl(c *config.Config) error {
	s := &c.SDL
	p.SDL = PlanSDL{AgentID: s.AgentID, Mode: s.Mode, Tools: slices.Clone(s.Tools.Allow), Signs: s.Sign.Kid, Routes: make(map[string]string)}
	maps.Copy(p.SDL.Routes, s.Routes)
	p.Warnings = append(p.Warnings, sdlserver.Unreached(s)...)
	for _, pattern := range slices.Sorted(maps.Keys(s.Routes)) {
		if len(whoMay(&c.Access, func(a *access.Policy) bool { return a.AllowedSome(anyone, "sdl", "send", s.Routes[pattern]+"/") })) == 0 {
			p.Warnings = append(p.Warnings, fmt.Sprintf("sdl.routes.%s is never used: no access rule lets anybody do send of profile sdl on %s/…", pattern, s.Routes[pattern]))
		}
	}
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
	return sdlserver.Check(c)
}
