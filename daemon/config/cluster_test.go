package config

import (
	"strings"
	"testing"
)

func TestLoadReadsANodeOfASharedStore(t *testing.T) {
	d := dir(t)
	for _, text := range []string{
		"store: postgres://swpd@db.example/swpd?sslmode=verify-full&passfile=/etc/swpd/pgpass\ncluster: {node: a.1, artifacts: /srv/artifacts}\n",
		"store: postgresql:///swpd?service=swp\ncluster: {node: a.1, artifacts: 's3://bucket/swpd?endpoint=https://s3.example'}\n",
	} {
		c, err := load(t, d, text)
		if err != nil {
			t.Fatal(err)
		}
		if name, err := c.NodeName(); !c.Clustered() || name != "a.1" || err != nil {
			t.Errorf("%s: clustered %v, node %q, %v", text, c.Clustered(), name, err)
		}
	}
}

func TestOP05BadSharedStoresAreRefused(t *testing.T) {
	const shared = "store: postgres://db/swpd\n"
	for name, tt := range map[string]struct{ text, want string }{
		"a password":                            {"store: postgres://swpd:secret@db/swpd\n", `store: contains a password, and the store is shown in logs; put it into a file that passfile=FILE`},
		"a password as parameter":               {"store: postgres://db/swpd?password=secret\n", `store: contains a password`},
		"no URL":                                {"store: 'postgres://db:x/swpd'\n", `store: is not a URL`},
		"a node alone":                          {"cluster: {node: a}\n", `cluster.node: is for nodes that share a store, and store is embedded; remove it`},
		"a place alone":                         {"cluster: {artifacts: /srv}\n", `cluster.artifacts: is for nodes that share a store`},
		"a node with a slash":                   {shared + "cluster: {node: a/b, artifacts: /srv}\n", `cluster.node: "a/b" is not a name`},
		"no place":                              {shared, `cluster.artifacts: missing: with a shared store, name the directory or the bucket`},
		"a relative place":                      {shared + "cluster: {artifacts: srv}\n", `cluster.artifacts: "srv" is no absolute path and no s3:// URL`},
		"no bucket":                             {shared + "cluster: {artifacts: 's3:///x'}\n", `cluster.artifacts: is no bucket`},
		"an unknown parameter":                  {shared + "cluster: {artifacts: 's3://bucket?endpoint=http://a&secure=1'}\n", `cluster.artifacts: has the unknown parameter "secure"`},
		"no endpoint":                           {shared + "cluster: {artifacts: 's3://bucket'}\n", `cluster.artifacts: is no bucket`},
		"an endpoint of a file":                 {shared + "cluster: {artifacts: 's3://bucket?endpoint=file:///x'}\n", `cluster.artifacts: "file:///x" is not an absolute http`},
		"an address alone":                      {"cluster: {address: '10.0.0.1:7783'}\n", `cluster.address: is for nodes that share a store`},
		"an address with a host that cannot be": {shared + "cluster: {artifacts: /srv, address: 'a b:7783'}\n", `cluster.address: "a b" is no IP address and no name of a host; set one such as 10.0.0.1:7783`},
		"an address without port":               {shared + "cluster: {artifacts: /srv, address: here}\n", `cluster.address: "here" is not host:port; set one such as 10.0.0.1:7783`},
		"an address of all hosts":               {shared + "cluster: {artifacts: /srv, address: '[::]:1'}\n", `cluster.address: "[::]:1" has no host`},
		"an address of health":                  {shared + "health: 127.0.0.1:1\ncluster: {artifacts: /srv, address: '127.0.0.1:1'}\n", `cluster.address: 127.0.0.1:1 is the same tcp port as health`},
		"an address of QUIC":                    {shared + "listeners: [{address: 'swp+quic://127.0.0.1:1'}]\ncluster: {artifacts: /srv, address: '127.0.0.1:1'}\n", `cluster.address: 127.0.0.1:1 is the same udp port as listeners[0].address`},
		"programs elsewhere":                    {"mcp: {servers: {a: {command: sh, nodes: all}}}\n", `mcp.servers.a.nodes: is all, and store is embedded, which one node has for itself; remove it`},
		"without an address":                    {shared + "cluster: {artifacts: /srv}\na2a: {workers: {a: {kinds: k, command: sh, nodes: all}}}\n", `a2a.workers.a.nodes: is all, and cluster.address is missing`},
		"nodes of a URL":                        {shared + "cluster: {artifacts: /srv, address: 'h:1'}\nmcp: {servers: {a: {url: 'https://a.example', nodes: all}}}\n", `mcp.servers.a.nodes: is for a command; remove it`},
		"nodes of a worker's URL":               {shared + "cluster: {artifacts: /srv, address: 'h:1'}\na2a: {workers: {a: {kinds: k, url: 'https://a.example', nodes: active}}}\n", `a2a.workers.a.nodes: is for a command; remove it`},
		"other nodes":                           {shared + "cluster: {artifacts: /srv, address: 'h:1'}\nmcp: {servers: {a: {command: sh, nodes: some}}}\n", `mcp.servers.a.nodes: is "some", want active or all`},
		"a secret in a place":                   {shared + "cluster: {artifacts: 's3://key:secret@bucket'}\n", `cluster.artifacts: is no bucket`},
	} {
		if _, err := load(t, dir(t), tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "or off") {
			t.Errorf("%s: the error has a secret, or a value that is not possible: %v", name, err)
		}
	}
}

// Nodes may have the keys that differ in another line, or in the environment.
func TestNodesWithOneConfigurationHaveOneDigest(t *testing.T) {
	const shared = "store: postgres://db/swpd\n"
	of := func(identity, text string, environ ...string) string {
		c, err := load(t, dir(t), shared+text, environ...)
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest(identity)
	}
	digest := func(text string, environ ...string) string { return of("swp://one.example", text, environ...) }
	one := digest("cluster: {node: a, artifacts: /srv, address: '10.0.0.1:1'}\n")
	for name, same := range map[string]string{
		"the environment": digest("cluster: {artifacts: /srv}\n", "SWPD_CLUSTER_NODE=b", "SWPD_CLUSTER_ADDRESS=10.0.0.2:1", "SWPD_DATA=/data"),
		"other lines":     digest("# the second node\ncluster:\n  node: b\n  artifacts: /srv\n"),
		"addresses":       digest("cluster: {node: a, artifacts: /srv}\nadmin: 127.0.0.1:1\nhealth: 127.0.0.1:2\nlog: {level: debug}\n"),
	} {
		if same != one {
			t.Errorf("%s: %s, want %s", name, same, one)
		}
	}
	for name, other := range map[string]string{
		"a server":    digest("cluster: {artifacts: /srv}\nmcp: {servers: {a: {command: sh}}}\n"),
		"a place":     digest("cluster: {artifacts: /srv2}\n"),
		"an identity": of("swp://two.example", "cluster: {artifacts: /srv}\n"),
		"a setting":   digest("cluster: {artifacts: /srv}\na2a: {retention: 1h}\n"),
	} {
		if other == one {
			t.Errorf("%s makes no difference", name)
		}
	}
}
