package command

import (
	"bytes"
	"testing"

	"github.com/slimwire/swp/daemon"
)

func TestReloadSaysWhatWasAddedRemovedAndChanged(t *testing.T) {
	var out bytes.Buffer
	printReloaded(&out, &daemon.Reloaded{
		Changed: []string{"access.rules", "mcp.servers.a", "mcp.servers.b"}, Added: []string{"mcp.servers.a"}, Removed: []string{"mcp.servers.b"},
	})
	if want := "taken up: added mcp.servers.a; removed mcp.servers.b; changed access.rules\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
