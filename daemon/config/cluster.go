package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Cluster configures one of several nodes that share a store.
type Cluster struct {
	Node      string `yaml:"node"`      // empty: the name of the host; see NodeName
	Address   string `yaml:"address"`   // host:port for the other nodes; empty: none
	Artifacts string `yaml:"artifacts"` // what all nodes share: a directory, or an s3:// URL
}

// Values of nodes, which says where the processes of a command run.
const (
	NodesActive = "active" // at the active node
	NodesAll    = "all"    // at all nodes that share a store
)

// checkNodes refuses a value of nodes that has no effect.
func (c *Config) checkNodes(p *problems, key, nodes string) {
	switch {
	case nodes != NodesActive && nodes != NodesAll:
		p.add(key, "is %.64q, want %s or %s", nodes, NodesActive, NodesAll)
	case nodes == NodesActive:
	case !c.Clustered():
		p.add(key, "is %s, and store is %s, which one node has for itself; remove it, or set store to the URL of a database", nodes, c.Store)
	case c.Cluster.Address == "":
		p.add(key, "is %s, and cluster.address is missing, where other nodes reach this one", nodes)
	}
}

// Clustered reports whether the store is one that several nodes share.
func (c *Config) Clustered() bool { return isPostgres(c.Store) }

func isPostgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// Digest returns a digest of the identity of the endpoint and of the keys that all nodes have in common: all but
// addresses, the name and the directory of a node, its log, and the content of files that the configuration names.
func (c *Config) Digest(identity string) string {
	common := *c
	common.Source, common.Places, common.Data, common.Log, common.Listeners, common.Health = "", nil, "", Log{}, nil, ""
	common.Cluster.Node, common.Cluster.Address = "", ""
	common.Admin.Address, common.Metrics.Address, common.HTTP.Address = "", "", ""
	text, err := json.Marshal(&common)
	if err != nil {
		panic(err) // a type without a form in JSON; TestNodesWithOneConfigurationHaveOneDigest
	}
	sum := sha256.Sum256(append(text, identity...))
	return hex.EncodeToString(sum[:8])
}

// NodeName returns the name of this node among those that share its store: cluster.node, or the
// name of the host.
func (c *Config) NodeName() (string, error) {
	name := c.Cluster.Node
	if name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err == nil && !serverName.MatchString(name) {
		err = fmt.Errorf("%.80q is no name of a node", name)
	}
	if err != nil {
		return "", fmt.Errorf("cluster.node is missing, and the name of the host cannot be used: %w", err)
	}
	return name, nil
}

// checkStoreValue refuses a value of store that names no engine, and one with a secret: it is logged
// and shown.
func checkStoreValue(p *problems, key, store string) {
	switch {
	case store == StoreEmbedded, store == StoreMemory:
	case !isPostgres(store):
		p.add(key, "is %.64q, want %s, %s, or a URL such as postgres://swpd@db.example/swpd", store, StoreEmbedded, StoreMemory)
	default:
		u, err := url.Parse(store)
		if err != nil {
			p.add(key, "is not a URL, want one such as postgres://swpd@db.example/swpd")
			return
		}
		if _, secret := u.User.Password(); secret || u.Query().Has("password") || u.Query().Has("sslpassword") {
			p.add(key, "contains a password, and the store is shown in logs; put it into a file that passfile=FILE in the URL names, or into the environment as PGPASSWORD")
		}
	}
}

func (c *Config) checkCluster(p *problems) {
	if c.Cluster.Node != "" {
		checkName(p, "cluster.node", c.Cluster.Node, "")
	}
	if !c.Clustered() {
		for _, key := range []string{"cluster.node", "cluster.address", "cluster.artifacts"} {
			if p.isSet(key) {
				p.add(key, "is for nodes that share a store, and store is %s; remove it, or set store to the URL of a database", c.Store)
			}
		}
		return
	}
	if _, err := c.NodeName(); err != nil {
		p.add("cluster.node", "%s", strings.TrimPrefix(err.Error(), "cluster.node "))
	}
	if at := c.Cluster.Address; at != "" {
		host, err := checkHostPort(at, "10.0.0.1:7783")
		if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
			err = fmt.Errorf("%q has no host: it is the address that other nodes connect to, such as 10.0.0.1:7783", at)
		}
		if err != nil {
			p.add("cluster.address", "%v", err)
		}
	}
	place := c.Cluster.Artifacts
	switch u, err := url.Parse(place); {
	case place == "":
		p.add("cluster.artifacts", "missing: with a shared store, name the directory or the bucket that all nodes share, such as /srv/swpd/artifacts or s3://bucket/swpd")
	case strings.HasPrefix(place, "s3://"):
		if err != nil || u.Host == "" || u.User != nil || !u.Query().Has("endpoint") {
			p.add("cluster.artifacts", "is no bucket, want one such as s3://bucket/prefix?endpoint=https://s3.example; credentials come from the environment, or from the file that credentials=FILE names")
			return
		}
		checkURL(p, "cluster.artifacts", u.Query().Get("endpoint"))
		for _, name := range slices.Sorted(maps.Keys(u.Query())) {
			if !slices.Contains([]string{"endpoint", "region", "credentials", "profile"}, name) {
				p.add("cluster.artifacts", "has the unknown parameter %.64q, want endpoint, region, credentials, profile", name)
			}
		}
	case !filepath.IsAbs(place):
		p.add("cluster.artifacts", "%.200q is no absolute path and no s3:// URL", place)
	}
}
