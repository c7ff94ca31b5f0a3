package sdlserver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
)

// routes map patterns of agent_ids to targets, in order of precedence: first an exact
// agent_id, then the pattern with most literal characters.
type routes []route

type route struct {
	pattern, target string
	names           *access.Names
}

func newRoutes(c map[string]string) (routes, error) {
	list := make(routes, 0, len(c))
	for _, pattern := range slices.Sorted(maps.Keys(c)) {
		names, err := access.NewNames([]string{pattern})
		if err != nil {
			return nil, fmt.Errorf("sdl.routes: %w", err)
		}
		list = append(list, route{pattern, c[pattern], names})
	}
	slices.SortStableFunc(list, func(a, b route) int { return cmp.Compare(rank(b.pattern), rank(a.pattern)) })
	return list, nil
}

// rank orders patterns by how specific they are.
func rank(pattern string) int {
	stars := strings.Count(pattern, "*")
	if stars == 0 {
		return access.MaxPattern*3 + len(pattern)
	}
	return 2*(len(pattern)-stars) - min(1, strings.Count(pattern, "**"))
}

// find returns the target for an agent, or "".
func (r routes) find(agentID string) string {
	for i := range r {
		if r[i].names.Match(agentID) {
			return r[i].target
		}
	}
	return ""
}

// Unreached lists the routes of a configuration that have no effect, because another route
// or this endpoint takes all their agent_ids.
func Unreached(c *config.SDL) (warnings []string) {
	list, err := newRoutes(c.Routes)
	if err != nil {
		return nil // the configuration was refused
	}
	for i, r := range list {
		before := slices.IndexFunc(list[:i], func(other route) bool { return covers(other.pattern, r.pattern) })
		switch {
		case r.pattern == c.AgentID:
			warnings = append(warnings, fmt.Sprintf("sdl.routes.%s is never used: envelopes for sdl.agent_id stay here", r.pattern))
		case before >= 0:
			warnings = append(warnings, fmt.Sprintf("sdl.routes.%s is never used: sdl.routes.%s comes before it and matches all that it matches", r.pattern, list[before].pattern))
		}
	}
	return warnings
}

// covers reports whether pattern p matches everything that q matches. It may return false
// for patterns whose wildcards differ only in their order.
func covers(p, q string) bool {
	row := make([]bool, len(q)+1) // index i: whether the rest of p covers q[i:]
	row[len(q)] = true
	for p != "" {
		stars := len(p) - len(strings.TrimRight(p, "*"))
		next := make([]bool, len(q)+1)
		for i := len(q); i >= 0; i-- {
			switch {
			case stars == 0:
				next[i] = i < len(q) && q[i] == p[len(p)-1] && row[i+1]
			case row[i]:
				next[i] = true
			case i < len(q):
				next[i] = next[i+1] && (stars > 1 || q[i] != '/' && !strings.HasPrefix(q[i:], "**"))
			}
		}
		row, p = next, p[:len(p)-max(1, stars)]
	}
	return row[0]
}
