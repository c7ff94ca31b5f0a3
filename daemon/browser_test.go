package daemon

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// browserEnv has the directory of page.mjs with its modules, and of the screenshots, which
// scripts/page-test.sh sets.
const browserEnv, screenshotsEnv = "SWP_PAGE", "SWP_SCREENSHOTS"

// watched starts organisation acme with a page and an operator, and its partner beta.
func watched(t *testing.T, yaml string) *organisation {
	t.Helper()
	if os.Getenv(browserEnv) == "" {
		t.Skip("make test-page runs this test")
	}
	b := open(t, "beta", "")
	dir, identity := t.TempDir(), "spiffe://acme.example/swpd"
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: identity}); err != nil {
		t.Fatal(err)
	}
	yaml += "partners:\n" + entry("beta", b, b.addrs[0])
	rights := func(o *Options) {
		o.Permissions = func(c *config.Config, identity string) (any, error) { return check.As(c, identity) }
	}
	a := &organisation{startIn(t, dir, yaml, rights), "acme", identity}
	a.allow()
	b.trusting("acme", a, a.addrs[0])
	a.connected("beta")
	return a
}

// inBrowser runs page.mjs.
func (o *organisation) inBrowser(does string) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "node", filepath.Join(os.Getenv(browserEnv), "page.mjs"), o.admin+"/", os.Getenv(screenshotsEnv), does)
	cmd.Env = append(os.Environ(), "TOKEN=secret")
	said, err := cmd.CombinedOutput()
	o.t.Logf("%s", said)
	if err != nil {
		o.t.Error(err)
	}
}

// members are rules for everybody of acme.
const members = "access: {rules: [{identity: 'spiffe://acme.example/**'}], agents: [{identity: 'spiffe://acme.example/**', agent_ids: '**'}]}\n"

func TestThePageOfAQuietDaemonInABrowser(t *testing.T) {
	watched(t, members).inBrowser("quiet")
}

func TestOperatorsDoEachActionInABrowser(t *testing.T) {
	a := watched(t, members+"relay: {backoff: 1h, max_backoff: 1h}\na2a: {workers: {reports: {kinds: [report], command: sleep, args: ['600']}}}\n")
	ctx := t.Context()
	service, s := relayPeer(t, a.running, a.addrs[0])
	for _, topic := range []string{"orders/new", "invoices"} {
		if _, err := relay.Send(ctx, s, &relay.Publication{ID: []byte(topic), Topic: topic, Payload: []byte("payload")}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := service.Consume(ctx, s, "invoices", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	agent := a.mustDial(a.addrs[0])
	if _, err := agent.tasks.Send(ctx, agent.Session, &a2a.Task{ID: []byte("report-1"), Kind: "report", Input: []byte("x")}, a2a.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	octets := []byte("octets")
	u := artifact.Upload{ArtifactID: "report.pdf", Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: syncPlain}
	if err := u.Send(ctx, agent.Session); err != nil {
		t.Fatal(err)
	}
	blob := state.State{Blob: []byte("blob")}
	blob.ID = state.IDOf(blob.Blob)
	if _, err := state.PutAll(ctx, opened(t, agent.Session), rpc.Sync, blob); err != nil {
		t.Fatal(err)
	}
	sub, err := events.Open(ctx, agent.Session, events.SubscribeOptions{Filter: "type:k", Name: "watcher"})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	a.inBrowser("act")
	select {
	case <-a.done:
	case <-t.Context().Done():
	}
}
