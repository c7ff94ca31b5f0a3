package guard

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access"
)

// lists are the lists in which a client of MCP finds the names of a use.
var lists = map[string][]string{
	"tools/call":     {"tools/list"},
	"prompts/get":    {"prompts/list"},
	"resources/read": {"resources/list", "resources/templates/list"},
}

// implySession adds to a rule the operations that a client of MCP needs before the rule has an effect: those
// of a session with the server, and the lists of its names. The answers to lists have only names that
// the identity may use.
func implySession(r *access.Rule) error {
	profiles, err := access.NewNames(r.Profile)
	if err != nil {
		return err
	}
	operations, err := access.NewNames(r.Operation)
	if err != nil {
		return err
	}
	if len(r.Profile) > 0 && !profiles.Match("mcp") || len(r.Name) == 0 && len(r.Operation) == 0 {
		return nil
	}
	for use, found := range lists {
		if len(r.Operation) > 0 && !operations.Match(use) {
			continue
		}
		names := r.Name
		if use == "tools/call" {
			names = servers(r.Name)
		}
		if len(names) == 0 && len(r.Name) > 0 {
			continue // it names no tool
		}
		r.Implied = append(r.Implied, access.Implied{Operation: slices.Concat(config.SessionOperations, found), Name: names})
	}
	slices.SortFunc(r.Implied, func(a, b access.Implied) int { return slices.Compare(a.Operation, b.Operation) })
	return nil
}

// servers returns patterns of the servers with tools that match a pattern: the parts of the pattern before
// its first two slashes, since the server of a partner is PARTNER/SERVER. A double star matches slashes, too.
func servers(tools []string) (list []string) {
	for _, tool := range tools {
		for at, slashes := 0, 0; at < len(tool) && slashes < 2; at++ {
			switch {
			case strings.HasPrefix(tool[at:], "**"):
				list, slashes = append(list, tool[:at+2]), 2
			case tool[at] == '/' && at > 0:
				list = append(list, tool[:at])
				slashes++
			}
		}
	}
	return list
}
