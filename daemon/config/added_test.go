package config

import (
	"slices"
	"testing"
)

func TestEntriesThatAreNewAreAdded(t *testing.T) {
	var old, now Config
	old.MCP.Servers = map[string]MCPServer{"stays": {Command: "a"}, "goes": {Command: "b"}}
	now.MCP.Servers = map[string]MCPServer{"stays": {Command: "c"}, "comes": {Command: "b"}}
	now.Admin.Address = "off"
	if got := Added(&old, &now); !slices.Equal(got, []string{"mcp.servers.comes"}) {
		t.Errorf("added %v", got)
	}
	if got := Added(&now, &old); !slices.Equal(got, []string{"mcp.servers.goes"}) {
		t.Errorf("removed %v", got)
	}
}
