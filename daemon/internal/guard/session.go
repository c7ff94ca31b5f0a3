package guard

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/access"
)

// session are patterns of the operations that a client of MCP needs for a session with a server.
var session = []string{"server/discover", "initialize", "ping", "notifications/**"}

// needs are the further operations that a client of MCP needs for a use: the lists in which it finds the
// names, and those on the tasks that the use starts. A task belongs to its caller, and the rules for
// the tool decide about it too; a subscription gets what the identity may see.
var needs = map[string][]string{
	"tools/call":     {"tools/list", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel", "tasks/list", "subscriptions/listen"},
	"prompts/get":    {"prompts/list"},
	"resources/read": {"resources/list", "resources/templates/list"},
}

// implySession adds to a rule the operations that a client of MCP needs for the rule to have its effect: those
// of a session with the server, and those in needs. The answers to lists have only names that
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
	for use, more := range needs {
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
		r.Implied = append(r.Implied, access.Implied{Operation: slices.Concat(session, more), Name: names})
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
