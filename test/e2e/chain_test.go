package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcptest"
)

// row is organisations that are partners of their neighbours: each dials the next one.
// The last has MCP servers, the first an HTTP front.
func row(t *testing.T, transport, servers string, names ...string) *node {
	t.Helper()
	return rowIn(t, nil, transport, servers, names...)
}

// rowIn is row with variables in the environment of each swpd.
func rowIn(t *testing.T, env []string, transport, servers string, names ...string) *node {
	t.Helper()
	nodes := make([]*node, len(names))
	for i, name := range names {
		nodes[i] = prepared(t, "--name", "spiffe://"+name+".example/swpd")
		nodes[i].env = env
	}
	for i, n := range slices.Backward(nodes) { // whom one dials is there
		partners := ""
		for _, j := range []int{i - 1, i + 1} {
			if j < 0 || j == len(names) {
				continue
			}
			address := ""
			if j > i {
				address = fmt.Sprintf(", addresses: [%q]", nodes[j].transports()[transport])
			}
			partners += fmt.Sprintf("  %s: {identity: spiffe://%s.example/swpd, trust: [%q]%s}\n",
				names[j], names[j], filepath.Join(nodes[j].dir, "pki", "ca.crt"), address)
		}
		n.more = "partners:\n" + partners
		if i == 0 {
			n.more += "http: {address: '127.0.0.1:0', anonymous: suite}\n"
		}
		if i == len(names)-1 {
			n.more += servers
		}
		n.untilEnd(t)
	}
	return nodes[0]
}

// A request goes through an organisation that is between two others, octet for octet;
// one that is sent in a circle ends at the eighth hop.
func TestPartnersOfPartners(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			servers := fmt.Sprintf("mcp: {servers: {tool: {command: %q, args: [%s, modern]}, old: {command: %q, args: [%s, legacy]}}}\n", self, scripted, self, scripted)
			a := row(t, transport, servers, "a", "b", "c")
			for server, era := range map[string]string{"tool": "modern", "old": "legacy"} {
				c := call(t, a.http+"/mcp/b/c/"+server, era)
				sent := fmt.Sprintf(mcptest.Requests["unknown members"], c.mark())
				same(t, era, unhex(t, said(t, c.post(sent, "hex"))), sent)
				c.messages()
			}
			for hops, reached := range map[int]bool{8: true, 10: false} {
				c := call(t, a.http+"/mcp/"+strings.Repeat("b/a/", hops/2-1)+"b/c/tool", "modern")
				answer := all(t, c.post(fmt.Sprintf(mcptest.Requests["id 1.0"], c.mark()), "hex"))
				if got := strings.Contains(answer, `"result"`); got != reached {
					t.Errorf("%d hops: %s", hops, answer)
				}
				if !reached && (!strings.Contains(answer, "passed on 8 times already") || !strings.Contains(answer, `"id":1.0`)) {
					t.Errorf("%d hops: %s", hops, answer)
				}
			}
		})
	}
}
