package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
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
	if !strings.Contains(yaml, "partners:\n") {
		yaml += "partners:\n"
	}
	a := acme(t, yaml+entry("beta", b, b.addrs[0]))
	b.trusting("acme", a, a.addrs[0])
	a.connected("beta")
	return a
}

// acme starts an organisation with a page and an operator.
func acme(t *testing.T, yaml string) *organisation {
	t.Helper()
	if os.Getenv(browserEnv) == "" {
		t.Skip("make test-page runs this test")
	}
	dir, identity := t.TempDir(), "spiffe://acme.example/swpd"
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: identity}); err != nil {
		t.Fatal(err)
	}
	rights := func(o *Options) {
		o.Permissions = func(c *config.Config, identity string) (any, error) { return check.As(c, identity) }
	}
	a := &organisation{startIn(t, dir, yaml, rights), "acme", identity}
	a.allow()
	return a
}

// inBrowser runs page.mjs.
func (o *organisation) inBrowser(does string) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "node", filepath.Join(os.Getenv(browserEnv), "page.mjs"), o.admin+"/", os.Getenv(screenshotsEnv), does)
	cmd.Env = append(os.Environ(), "TOKEN=secret", "ONCE="+o.once())
	said, err := cmd.CombinedOutput()
	o.t.Logf("%s", said)
	if err != nil {
		o.t.Fatal(err)
	}
}

// members are rules for everybody of acme.
const members = "access: {rules: [{identity: 'spiffe://acme.example/**'}], agents: [{identity: 'spiffe://acme.example/**', agent_ids: '**'}]}\n"

func TestThePageOfAQuietDaemonInABrowser(t *testing.T) {
	watched(t, members).inBrowser("quiet")
}

// The page names the pinned tool that has changed, and the cause and the remedy of a partner that refuses this
// endpoint or is suspended here.
func TestThePageOfPartnersInTroubleInABrowser(t *testing.T) {
	a := acme(t, members)
	b, c, d := open(t, "beta", listing(t, "looks")), open(t, "gamma", ""), open(t, "delta", "")
	for _, o := range []*organisation{b, c, d} {
		o.writes("acme", own(a, ""))
		o.reloaded()
		a.writes(o.name, own(o, "", o.addrs[0]))
		a.reloaded()
		a.connected(o.name)
		o.connected("acme")
	}
	a.writes("beta", own(b, fmt.Sprintf("pinned: {modern/look: %q}\n", a.tools("beta")["modern/look"].Digest), b.addrs[0]))
	a.reloaded()
	b.configure(func(text string) string { return strings.Replace(text, `"looks"`, `"looks elsewhere"`, 1) })
	b.reloaded()
	a.mustDial(a.addrs[0]).mustAsk(t, "beta/modern", strings.Replace(modernCall, `\u0065xact`, "look", 1))
	a.await(`"tool":"modern/look","state":"changed"`)
	c.writes("acme", own(a, "state: suspended\n"))
	c.reloaded()
	a.until("the refusal", func() bool { return a.link("gamma").Cause == causes.Suspended.String() })
	a.writes("delta", own(d, "state: suspended\n", d.addrs[0]))
	a.reloaded()
	a.inBrowser("troubled")
}

// worked returns work that is done now and then, so that the browser has some of the processor, too.
func worked(t *testing.T, pause time.Duration, once func(ctx context.Context, n int) error) func() error {
	n := 0
	return func() error {
		n++
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := once(ctx, n)
		time.Sleep(pause)
		return err
	}
}

func TestThePageOfABusyDaemonInABrowser(t *testing.T) {
	a := watched(t, "access: {rules: [{identity: 'spiffe://acme.example/**'}, {identity: 'spiffe://people.example/agents/**'}, {identity: spiffe://people.example/guest, profile: rpc, name: 'swp.*'}],"+
		" agents: [{identity: '**', agent_ids: '**'}]}\n"+
		childYAML(t)+strings.TrimPrefix(modernYAML(t), "mcp:\n  servers:\n"))
	p := newPeople(t)
	p.admit(a)
	planner, reviewer, guest := p.dial(a, 0, "spiffe://people.example/agents/planner"), p.dial(a, 1, "spiffe://people.example/agents/reviewer"), p.dial(a, 0, "spiffe://people.example/guest")
	a.agent("translator", echoes, "translate", "summarise")
	relays, consumer := relayPeer(t, a.running, a.addrs[1])
	c, err := relays.Consume(t.Context(), consumer, "orders/eu", 8)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(ctx context.Context, topic string, n int) error {
		_, err := relay.Send(ctx, planner.Session, &relay.Publication{ID: fmt.Appendf(nil, "%s %d", topic, n), Topic: topic, Payload: loadOctets(int64(n))[:500]})
		return err
	}
	for i := range 40 {
		if err := publish(t.Context(), []string{"orders/us", "invoices", "shipments/late"}[i%3], i); err != nil {
			t.Fatal(err)
		}
	}
	sub := subscribed(t, reviewer.Session, events.SubscribeOptions{Filter: "type:build", Name: "reviews"})
	defer sub.Close()
	name := planner.begin(t, "child")
	load := under(
		t,
		worked(t, 50*time.Millisecond, func(context.Context, int) error { return echo(t, reviewer) }),
		worked(t, 100*time.Millisecond, func(ctx context.Context, n int) error {
			if err := publish(ctx, "orders/eu", n); err != nil {
				return err
			}
			d, err := c.Recv(ctx)
			switch {
			case err != nil:
				return err
			case n%10 == 0:
				return d.Nack(false, "the order has no address")
			}
			return d.Ack()
		}),
		worked(t, 200*time.Millisecond, func(ctx context.Context, n int) error {
			d, err := planner.tasks.Send(ctx, planner.Session, &a2a.Task{ID: fmt.Appendf(nil, "task-%d", n), Kind: "translate", Input: []byte("text")}, a2a.SendOptions{})
			for err == nil {
				_, err = d.Recv(ctx)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}),
		worked(t, 300*time.Millisecond, func(ctx context.Context, n int) error {
			octets := loadOctets(int64(n))
			u := artifact.Upload{ArtifactID: fmt.Sprintf("reports/%d.pdf", n), Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: syncPlain}
			return u.Send(ctx, reviewer.Session)
		}),
		worked(t, 200*time.Millisecond, func(ctx context.Context, n int) error {
			if err := publishes(t, planner.Session, record(fmt.Sprint("build-", n), "build", "{}")); err != nil {
				return err
			}
			_, err := sub.Recv(ctx)
			return err
		}),
		worked(t, 150*time.Millisecond, func(ctx context.Context, _ int) error {
			_, err := planner.askIn(ctx, mcpmap.Call{Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","arguments":{}}}`)})
			return err
		}),
		worked(t, 150*time.Millisecond, func(ctx context.Context, _ int) error {
			_, err := reviewer.askIn(ctx, mcpmap.Call{Target: "modern", Octets: []byte(modernCall)})
			return err
		}),
		worked(t, 300*time.Millisecond, func(ctx context.Context, _ int) error {
			if _, err := rpc.Call(ctx, guest.Session, "payroll.read", nil); err == nil {
				return errors.New("a guest is not denied")
			}
			return nil
		}),
	)
	defer load.end()
	a.inBrowser("busy")
}

// hostileNames are names that harm a page which takes them for HTML, or that are hard to lay out.
func hostileNames() []string {
	return []string{
		"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", `"><svg onload=alert(1)>`, "javascript:alert(1)", "{{1+1}}${1+1}",
		"\u202egnp.exe\u202c", "שלום/عالم", "\x1b[31mred\x07\x00", "two\nlines\tand a tab", "👩‍👩‍👧‍👦🏴‍☠️", "Z\u0334\u0310\u0301a\u0334\u0310l\u0336go", "a\u200bb\u2060c\ufeff",
		strings.Repeat("long", 16), strings.Repeat("W", 256), strings.Repeat("<b>", 300), strings.Repeat("a b ", 250), " ", "0x", "__proto__", "constructor", "a\u3164b",
	}
}

func TestThePageUnderAbuseInABrowser(t *testing.T) {
	a := watched(t, "access: {rules: [{identity: '**'}], agents: [{identity: '**', agent_ids: '**'}]}\nlimits: {connections_per_identity: 2048}\n"+
		"relay: {backoff: 1h, max_backoff: 1h}\npartners:\n  gone: {identity: spiffe://gone.example/swpd, trust: [pki/ca.crt], addresses: [swp+tls://127.0.0.1:1]}\n")
	p := newPeople(t)
	p.admit(a)
	ctx := t.Context()
	relays, s := relayPeer(t, a.running, a.addrs[0])
	names := hostileNames()
	taken := make(map[string]int) // names by where they were accepted
	takes := func(where string, err error) bool {
		if err == nil {
			taken[where]++
		}
		return err == nil
	}
	owner := a.mustDial(a.addrs[0])
	kinds := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.TrimSpace(name) == "" || len(name) > 256 })
	a.agent("agent", func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		return nil, errors.New("cannot do " + task.Kind)
	}, kinds...)
	for i, name := range names {
		for _, id := range []string{"dead", "kept"} {
			_, err := relay.Send(ctx, s, &relay.Publication{ID: fmt.Append(nil, id, i), Topic: name, Payload: []byte(name)})
			takes("topic", err)
			if err != nil || id != "dead" {
				continue
			}
			c := consumes(t, a, s, relays, name, 1)
			if d, err := c.Recv(ctx); err != nil || d.Nack(false, name) != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		_, err := relay.Send(ctx, s, &relay.Publication{ID: []byte(name), Topic: "t", Payload: []byte(name)})
		takes("delivery", err)
		u := artifact.Upload{ArtifactID: name, Size: uint64(len(name)), Hash: sha256.Sum256([]byte(name)), Octets: strings.NewReader(name), Sync: syncPlain}
		takes("artifact", u.Send(ctx, owner.Session))
		d, err := owner.tasks.Send(ctx, owner.Session, &a2a.Task{ID: fmt.Append(nil, i, " ", name)[:min(len(name), 60)], Kind: name, Input: []byte(name)}, a2a.SendOptions{})
		if takes("task", err) {
			for err == nil {
				_, err = d.Recv(ctx)
			}
		}
		sub, err := events.Open(ctx, owner.Session, events.SubscribeOptions{Filter: "type:k", Name: name})
		if takes("stream", err) {
			sub.Close()
		}
		takes("event", publishes(t, owner.Session, record(name, name, "{}")))
		_, _ = rpc.Call(ctx, owner.Session, name, nil) // there is none
	}
	other := p.dial(a, 0, "spiffe://people.example/"+strings.Repeat("long-", 300)) // an identity has no other characters
	if _, err := rpc.Call(ctx, other.Session, "none", nil); err == nil {
		t.Error("there is such a method")
	}
	for _, where := range []string{"topic", "delivery", "artifact", "task", "stream", "event"} {
		if taken[where] == 0 {
			t.Errorf("%s: no name was accepted", where)
		}
	}

	// More rows than a page has, more sessions than are listed, and messages that are refused.
	var work errgroup.Group
	for i := range 8 {
		work.Go(func() error {
			_, s := relayPeer(t, a.running, a.addrs[0])
			for n := range 300 {
				if _, err := relay.Send(ctx, s, &relay.Publication{ID: fmt.Appendf(nil, "%d-%d", i, n), Topic: fmt.Sprint("flood/", n), Payload: []byte("x")}); err != nil {
					return err
				}
			}
			for range 65 {
				if _, err := a.dial(a.addrs[0]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for profile := range uint64(32) {
		for typ := range uint64(12) {
			bad := a.mustDial(a.addrs[2])
			for _, payload := range [][]byte{nil, []byte("garbage"), {0x0a, 0}} {
				_ = bad.Send(ctx, e1.Envelope{ProfileID: profile, MsgType: typ, Payload: payload}) // it may be closed
			}
			_, _ = rpc.Call(ctx, bad.Session, rpc.MethodSync, nil) // they are read
			bad.Close(0)
		}
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	a.inBrowser("abuse")
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
	case <-time.After(drain + patience):
		t.Error("the daemon was not drained")
	}
}
