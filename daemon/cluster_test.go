//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// cluster is an endpoint of several nodes.
type cluster struct {
	t    *testing.T
	dir  string
	yaml string
}

// newCluster returns a cluster whose nodes have an address for each other, and yaml.
func newCluster(t *testing.T, yaml string) *cluster {
	t.Helper()
	server := pgtest.Shared(t)
	database, err := server.Name(t.Context())
	pgtest.Must(t, err)
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "artifacts"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("store: 'postgres:///%s?host=%s&user=postgres'\ncluster: {artifacts: %s, address: '127.0.0.1:0'}\n", database, server.Socket(), filepath.Join(dir, "artifacts"))
	return &cluster{t, dir, text + yaml}
}

// node starts a node, and returns when it serves, or stands by. The channel is closed when it serves.
func (c *cluster) node(name string, more ...func(*Options)) (r *running, serves <-chan struct{}) {
	c.t.Helper()
	serving := make(chan struct{})
	r = startIn(c.t, c.dir, c.yaml, func(o *Options) {
		o.Config.Cluster.Node, o.Config.Data = name, filepath.Join(c.dir, name)
		o.Read = nil // the file names no node
		ready := o.Ready
		here := sync.OnceFunc(func() {
			lines, err := os.ReadFile(o.AddrFile)
			if err != nil {
				c.t.Error(err)
			}
			list := strings.Fields(string(lines))
			ready(list[:len(list)-1])
		})
		o.Standby = func(string) { here() }
		o.Ready = func([]string) { here(); close(serving) }
		for _, f := range more {
			f(o)
		}
	})
	return r, serving
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(what)
	}
}

// statusOf returns the status of a node.
func statusOf(t *testing.T, r *running) (s Status) {
	t.Helper()
	_, body := r.get("/status")
	if err := json.Unmarshal([]byte(body), &s); err != nil || s.Cluster == nil {
		t.Fatalf("%v: %s", err, body)
	}
	return s
}

// until waits until the status of a node meets a condition.
func until(t *testing.T, r *running, what string, meets func(s Status) bool) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s := statusOf(t, r)
		if meets(s) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s: %+v %+v", what, s.Health, s.Cluster)
		}
	}
}

func TestANodeThatStandsByPassesPeersToTheActiveOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httpYAML+modernYAML(t)+"access: {rules: [{identity: '**'}]}\n")
	first, _ := c.node("first")
	second, serves := c.node("second")
	until(t, second, "the second node is not ready", func(s Status) bool { return s.Ready })
	if s := statusOf(t, second); s.Cluster.Node != "second" || s.Cluster.Active != "first" || len(s.Cluster.Nodes) != 2 || len(s.Addresses) != 3 {
		t.Fatalf("%+v %+v", s, s.Cluster)
	}
	if status, body := second.get("/readyz"); status != 200 || !strings.Contains(body, "passes connections") {
		t.Fatal(status, body)
	}
	for _, address := range second.addrs {
		second.mustDial(address)
	}
	until(t, first, "the active node has other sessions", func(s Status) bool { return s.Sessions == 3 })
	if status, _, got := post(t, second.front()+"/mcp", modernCall, modernHeaders...); status != 200 || !strings.Contains(got, sayTool) {
		t.Fatal(status, got)
	}
	if _, body := second.get("/metrics"); !strings.Contains(body, "swpd_cluster_passed_connections 3") && !strings.Contains(body, "swpd_cluster_passed_connections 4") {
		t.Fatal(body)
	}
	held := second.mustDial(second.addrs[0])
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	within(t, "the second node does not become active", serves)
	if err := echo(t, held); err == nil {
		t.Fatal("a session outlived its node")
	}
	for _, address := range second.addrs {
		second.mustDial(address)
	}
	if status, _, got := post(t, second.front()+"/mcp", modernCall, modernHeaders...); status != 200 || !strings.Contains(got, sayTool) {
		t.Fatal(status, got)
	}
}

// Addresses are of each node, so that one can serve HTTP and another not.
func TestAnActiveNodeWithoutHTTPRefusesItAtOtherNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httpYAML)
	c.node("first", func(o *Options) { o.Config.HTTP.Address = config.HTTPOff })
	second, _ := c.node("second")
	until(t, second, "the second node is not ready", func(s Status) bool { return s.Ready })
	conn, err := net.Dial("tcp", strings.TrimPrefix(second.front(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d octets from a node without HTTP", n)
	}
	second.counts(`swpd_cluster_passed_connections_total{result="refused"}`, "1") // perhaps after the connection has ended
}

// A stranger who speaks no TLS costs a node that stands by no more than the active one.
func TestAFailedHandshakeDoesNotEndANodeThatStandsBy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "access: {rules: [{identity: '**'}]}\n")
	c.node("first")
	second, _ := c.node("second")
	until(t, second, "the second node is not ready", func(s Status) bool { return s.Ready })
	conn, err := net.Dial("tcp", strings.TrimPrefix(second.addrs[0], "swp+tls://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn) // until the node closes it
	until(t, second, "the handshake is not logged", func(Status) bool { return strings.Contains(second.log.String(), "security event") })
	second.mustDial(second.addrs[0])
}

func TestANewConnectionWaitsWhileTheActiveNodeIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "")
	first, _ := c.node("first")
	second, _ := c.node("second")
	third, _ := c.node("third")
	for _, r := range []*running{second, third} {
		until(t, r, "a node is not ready", func(s Status) bool { return s.Ready && s.Cluster.Stands })
	}
	if statusOf(t, first).Cluster.Stands {
		t.Error("the active node says that it stands by")
	}
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*running{second, third} {
		for _, address := range r.addrs {
			r.mustDial(address)
		}
	}
}

func TestARuleThatIsTakenAwayEndsPassedConnections(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "access: {rules: [{identity: 'spiffe://localhost/**'}]}\n")
	first, _ := c.node("first", func(o *Options) {
		started := o.Config
		o.Read = func() (*config.Config, error) {
			now := *started
			now.Access.Deny = config.Denials{{Identity: config.List{"spiffe://localhost/*client*"}}}
			return &now, nil
		}
	})
	second, _ := c.node("second")
	var held []*session
	for _, address := range second.addrs[:2] {
		held = append(held, second.mustDial(address))
	}
	first.reload <- struct{}{}
	for _, s := range held {
		within(t, "a connection stays open", s.Context().Done())
	}
	first.await(`"closed":2`)
}

func TestNodesWithAnotherConfigurationAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "")
	first, _ := c.node("first")
	second, _ := c.node("second", func(o *Options) {
		same := *o.Config
		o.Config.Limits.InFlight++
		o.Read = func() (*config.Config, error) { return &same, nil }
	})
	third, _ := c.node("third")
	names := func(want string) func(Status) bool {
		return func(s Status) bool {
			got := ""
			for _, w := range s.Warnings {
				if rest, ok := strings.CutPrefix(w, "cluster: other configuration than this node at "); ok {
					got, _, _ = strings.Cut(rest, ":")
				}
			}
			return got == want
		}
	}
	until(t, first, "first does not name second", names("second"))
	until(t, second, "second does not name the others", names("first, third"))
	until(t, third, "third does not name second", names("second"))
	first.await("nodes have another configuration than this one")
	for _, r := range []*running{first, third} {
		_, body := r.get("/metrics")
		if !strings.Contains(body, "\nswpd_cluster_nodes_differing 1\n") || !strings.Contains(body, `swpd_cluster_node_silent_seconds{active="false",node="second"}`) {
			t.Fatal(body)
		}
	}
	second.reload <- struct{}{}
	for _, r := range []*running{first, second, third} {
		until(t, r, "the difference stays", names(""))
	}
	second.await("changes of the configuration that take effect when this node becomes active, or at its next start")
}

func TestASecondProcessWithTheNameOfANodeDisturbsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "")
	first, _ := c.node("first")
	other, _ := c.node("other")
	until(t, other, "a node is not ready", func(s Status) bool { return s.Ready })
	same, _ := c.node("first", func(o *Options) { o.Config.Data += "-2" })
	until(t, same, "the second process is ready", func(s Status) bool {
		return slices.ContainsFunc(s.Reasons, func(w string) bool { return strings.Contains(w, "another process has the name first") })
	})
	same.await("another process has the name of this node")
	for _, address := range other.addrs {
		other.mustDial(address)
	}
	if s := statusOf(t, first); !s.Ready || len(s.Warnings) > 0 || len(s.Cluster.Nodes) != 2 {
		t.Fatalf("%+v %+v", s.Health, s.Cluster)
	}
}

// A node that passes connections has to end for each upgrade. It has no answers of its own.
func TestANodeThatStandsByEndsAfterTheAnswersItPasses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httpYAML+"access: {rules: [{identity: '**'}]}\n")
	begun, release := make(chan struct{}, 8), make(chan struct{})
	slow := rpc.Method{Detached: func(ctx context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
		begun <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return params, ctx.Err()
	}}
	first, _ := c.node("first", func(o *Options) { o.Methods = map[string]rpc.Method{"test.slow": slow} })
	second, _ := c.node("second")
	until(t, second, "a node is not ready", func(s Status) bool { return s.Ready })
	results := make(chan error, 2)
	var sessions []*session
	for _, address := range second.addrs[:2] {
		s := second.mustDial(address)
		sessions = append(sessions, s)
		go func() {
			got, err := rpc.Call(t.Context(), s.Session, "test.slow", []byte("answer"))
			if err == nil && string(got) != "answer" {
				err = fmt.Errorf("answer %q", got)
			}
			results <- err
		}()
		within(t, "the method is not called", begun)
	}
	second.stop()
	for _, s := range sessions {
		for late := time.Now().Add(patience); s.Leaving().Err() == nil; time.Sleep(10 * time.Millisecond) {
			_ = echo(t, s) // each call is answered, and refused once the session is drained
			if time.Now().After(late) {
				t.Fatal("the peer is not told")
			}
		}
	}
	close(release)
	for range sessions {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if err := second.end(); err != nil {
		t.Fatal(err)
	}
	if s := statusOf(t, first); !s.Ready || s.Sessions > 0 {
		t.Fatalf("%+v, %d sessions", s.Health, s.Sessions)
	}
}

// Peers whose exchanges would never end by themselves would hold a node that ends until its time is over.
func TestANodeThatEndsLetsPassedPeersGoThatWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httpYAML+"access: {rules: [{identity: '**'}]}\nmcp:\n  servers:\n"+serverYAML(t, "modern", "modern"))
	first, _ := c.node("first")
	second, _ := c.node("second")
	until(t, second, "a node is not ready", func(s Status) bool { return s.Ready })
	ended := make(chan error, 6)
	for _, address := range second.addrs[:2] {
		s := second.mustDial(address)
		consumer, err := s.relays.Consume(t.Context(), s.Session, "jobs", 1)
		if err != nil {
			t.Fatal(err)
		}
		sub := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:build"})
		go func() {
			_, err := consumer.Recv(t.Context())
			ended <- err
		}()
		go func() {
			var err error
			for err == nil {
				_, err = sub.Recv(t.Context())
			}
			ended <- err
		}()
		go func() {
			result, err := s.ask(t, mcpmap.Call{Target: "modern", Octets: []byte(modernListen)})
			if err == nil {
				err = errors.New(string(result.Octets))
			}
			ended <- err
		}()
	}
	first.await("listening 3")
	first.await("listening 3")
	second.stop()
	for range cap(ended) {
		if err := <-ended; !strings.Contains(fmt.Sprint(err), "shutting down") {
			t.Errorf("an exchange without an expected end: %v", err)
		}
	}
	if err := second.end(); err != nil {
		t.Fatal(err)
	}
}
