package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/transport/transporttest"
)

// The revocation matrix: what is under way for alice, and how it may be taken from her.

// victim is a daemon at which something is under way for alice, whose certificates come from
// an authority of their own.
type victim struct {
	*organisation
	t      *testing.T
	people *people
	link   int
	files  devpki.Files // of alice
	roots  *x509.CertPool
}

// underWay begins one thing, and returns a function that waits for its end and says how it
// ended.
type underWay struct {
	name  string
	begin func(v *victim) (ended func(ctx context.Context) string)
}

const (
	aliceRules = "access: {rules: [{identity: ['spiffe://people.example/**', 'http:alice', 'spiffe://a.example/**', 'spiffe://b.example/**']}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	fewerRules = "access: {rules: [{identity: ['spiffe://a.example/**', 'spiffe://b.example/**']}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	denying    = "access: {deny: ['spiffe://people.example/alice', 'http:alice', 'spiffe://b.example/swpd'], rules: [{identity: '**'}]}\n"
)

func newVictim(t *testing.T, link int) *victim {
	t.Helper()
	dir := t.TempDir()
	p := newPeople(t)
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: "spiffe://a.example/swpd"}); err != nil {
		t.Fatal(err)
	}
	for name, ca := range map[string]*transporttest.CA{"people.crt": p.ca, "other.crt": transporttest.NewCA(t)} {
		write(t, filepath.Join(dir, name), string(pemOf("CERTIFICATE", ca.Cert.Raw)))
	}
	servers := childYAML(t)
	yaml := "http: {address: '127.0.0.1:0', tls: {cert: pki/server.crt, key: pki/server.key, ca: [pki/ca.crt, people.crt]}, callers: {alice: " +
		"{tokens: [8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1], certificates: ['" + aliceID + "']}}}\n" +
		servers + workerYAML("exec sleep 600", ", tasks: 1") + aliceRules
	v := &victim{t: t, people: p, link: link, organisation: &organisation{startIn(t, dir, yaml), "a", "spiffe://a.example/swpd"}}
	v.rewrite("ca: [pki/ca.crt]}\nadmin", "ca: [pki/ca.crt, people.crt]}\nadmin")
	v.reloaded()
	v.files = p.write(v.organisation, aliceID)
	v.roots = x509.NewCertPool()
	anchors, err := os.ReadFile(v.ca())
	if err != nil {
		t.Fatal(err)
	}
	v.roots.AppendCertsFromPEM(anchors)
	return v
}

// leaf is the certificate of alice.
func (v *victim) leaf() *x509.Certificate {
	cert, err := tls.LoadX509KeyPair(v.files.Cert, v.files.Key)
	if err != nil {
		v.t.Fatal(err)
	}
	return cert.Leaf
}

// dial connects alice once more.
func (v *victim) dial() *session {
	v.t.Helper()
	s, err := dialWith(v.t, v.addrs[v.link], v.files)
	if err == nil {
		err = echo(v.t, s)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return s
}

// over returns how a session ended.
func over(s profiles.Session) func(context.Context) string {
	return func(ctx context.Context) string {
		select {
		case <-s.Context().Done():
			return "closed"
		case <-ctx.Done():
			return ""
		}
	}
}

// answered waits for an answer.
func answered(answer <-chan string) func(context.Context) string {
	return func(ctx context.Context) string {
		select {
		case how := <-answer:
			return how
		case <-ctx.Done():
			return ""
		}
	}
}

// asking does something that waits, and says how it ended.
func asking(ask func() error) func(context.Context) string {
	answer := make(chan string, 1)
	go func() {
		err := ask()
		if err == nil {
			err = errors.New("it was done")
		}
		answer <- err.Error()
	}()
	return answered(answer)
}

// task sends a task, and returns how it ends.
func (v *victim) task(s *session, id string) (ended func(context.Context) string) {
	v.t.Helper()
	d, err := s.tasks.Send(v.t.Context(), s.Session, &a2a.Task{ID: []byte(id), Kind: "k"}, a2a.SendOptions{})
	if err == nil {
		_, err = d.Recv(v.t.Context()) // accepted
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return func(ctx context.Context) string {
		defer d.Close()
		for {
			if _, err := d.Recv(ctx); err != nil && ctx.Err() != nil {
				return ""
			} else if err != nil {
				break
			}
		}
		if r := d.Result(); r != nil {
			return fmt.Sprintf("Result ok=%v %s", r.OK, r.Reason)
		}
		return "lost"
	}
}

// client calls the front with what alice shows there.
func (v *victim) client(byCertificate bool) *http.Client {
	conf := &tls.Config{RootCAs: v.roots, MinVersion: tls.VersionTLS13}
	if byCertificate {
		cert, err := tls.LoadX509KeyPair(v.files.Cert, v.files.Key)
		if err != nil {
			v.t.Fatal(err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	v.t.Cleanup(c.CloseIdleConnections)
	return c
}

// request sends one request to the front.
func (v *victim) request(c *http.Client, token, method, body, session string) *http.Response {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.front()+"/mcp", strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := c.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %+v, %v", method, resp, err)
	}
	v.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

const beginsSession = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// stream opens a stream of events of a session of MCP.
func (v *victim) stream(byCertificate bool) (ended func(context.Context) string) {
	v.t.Helper()
	token := "secret-a"
	if byCertificate {
		token = ""
	}
	c := v.client(byCertificate)
	session := v.request(c, token, http.MethodPost, beginsSession, "").Header.Get("Mcp-Session-Id")
	resp := v.request(c, token, http.MethodGet, "", session)
	return asking(func() error {
		_, err := io.Copy(io.Discard, resp.Body)
		return fmt.Errorf("closed: %w", err)
	})
}

var everything = []underWay{
	{"idle session", func(v *victim) func(context.Context) string { return over(v.dial().Session) }},
	{"MCP call", func(v *victim) func(context.Context) string {
		s := v.dial()
		answer, release := s.waits(v.t, "child", s.begin(v.t, "child"))
		v.t.Cleanup(release) // keeps the child waiting
		return answered(answer)
	}},
	{"MCP session with a child", func(v *victim) func(context.Context) string {
		s := v.dial()
		pid := pidOf(v.t, s, s.begin(v.t, "child"))
		return func(ctx context.Context) string {
			for !gone(pid) {
				select {
				case <-ctx.Done():
					return ""
				case <-time.After(10 * time.Millisecond):
				}
			}
			return "the child has ended"
		}
	}},
	{"running task", func(v *victim) func(context.Context) string { return v.task(v.dial(), "runs") }},
	{"queued task", func(v *victim) func(context.Context) string { return v.task(v.dial(), "waits") }},
	{"subscription", func(v *victim) func(context.Context) string {
		sub := subscribed(v.t, v.dial().Session, events.SubscribeOptions{})
		return asking(func() error { _, err := sub.Recv(v.t.Context()); return err })
	}},
	{"relay attachment", func(v *victim) func(context.Context) string {
		s := v.dial()
		c := consumes(v.t, v.organisation, s.Session, s.relays, "topic", 1)
		return asking(func() error { _, err := c.Recv(v.t.Context()); return err })
	}},
	{"upload", func(v *victim) func(context.Context) string {
		s := v.dial()
		const size, chunk = 1 << 20, 64 << 10
		octets := &throttled{Reader: bytes.NewReader(make([]byte, size)), free: 4 * chunk, half: make(chan struct{}), goOn: make(chan struct{})}
		ended := asking(func() error {
			return artifact.Upload{ArtifactID: "up", Size: size, Hash: sha256.Sum256(make([]byte, size)), Octets: octets, Chunk: chunk, Window: 1, Sync: syncPlain}.Send(v.t.Context(), s.Session)
		})
		<-octets.half
		return func(ctx context.Context) string {
			close(octets.goOn)
			return ended(ctx)
		}
	}},
	{"HTTP stream by token", func(v *victim) func(context.Context) string { return v.stream(false) }},
	{"HTTP stream by certificate", func(v *victim) func(context.Context) string { return v.stream(true) }},
	{"seated agent", func(v *victim) func(context.Context) string {
		begun, stopped := make(chan struct{}), make(chan string, 2)
		worker := a2a.WorkerFunc(func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			close(begun)
			<-ctx.Done()
			stopped <- "stopped"
			return nil, ctx.Err()
		})
		s := v.seats(v.files, v.addrs[v.link], "", "seat", worker, "seated")
		context.AfterFunc(s.Context(), func() { stopped <- "closed" })
		by := v.mustDial(v.addrs[v.link])
		d, err := by.tasks.Send(v.t.Context(), by.Session, &a2a.Task{ID: []byte("of another"), Kind: "seated"}, a2a.SendOptions{})
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(d.Close)
		<-begun
		return answered(stopped)
	}},
}

// throttled stops after some octets until it may go on.
type throttled struct {
	*bytes.Reader
	free       int64
	half, goOn chan struct{}
}

func (r *throttled) ReadAt(b []byte, at int64) (int, error) {
	if at == r.free {
		close(r.half)
		<-r.goOn
	}
	return r.Reader.ReadAt(b, at)
}

// column is a way to take something from alice.
type column struct {
	name  string
	apply func(v *victim)
	ends  func(row string) string // how a row has to end: a text in it; "" for what goes on
	of    string                  // only the rows with this in their names; empty: all
}

// asIdentity is for what ends an identity.
func asIdentity(row string) string {
	switch row {
	case "running task", "queued task":
		return "Result ok=false denied"
	case "MCP session with a child":
		return "the child has ended"
	}
	return anyEnd
}

// asConnection is for what ends connections: tasks, and sessions of MCP, belong to the
// identity, which may come back.
func asConnection(row string) string {
	switch row {
	case "running task", "queued task":
		return "lost"
	case "MCP session with a child", "HTTP stream by token":
		return ""
	}
	return anyEnd
}

const anyEnd = "any end"

var columns = []column{
	{"deny", func(v *victim) { v.rewrite(aliceRules, denying) }, func(row string) string {
		if strings.HasSuffix(row, "task") {
			return anyEnd // the connection may end before the Result is sent
		}
		return asIdentity(row)
	}, ""},
	{"rule removed", func(v *victim) { v.rewrite(aliceRules, fewerRules) }, func(row string) string {
		if row == "idle session" {
			return ""
		}
		return asIdentity(row)
	}, ""},
	{"authority removed", func(v *victim) {
		copyFile(v.t, filepath.Join(v.dir, "other.crt"), filepath.Join(v.dir, "people.crt"))
	}, asConnection, ""},
	{"token removed", func(v *victim) {
		v.rewrite("8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1", strings.Repeat("ab", 32))
	}, func(string) string { return anyEnd }, "by token"},
	{"caller removed", func(v *victim) {
		v.configure(func(text string) string {
			return strings.Replace(text, "callers: {alice: ", "callers: {bob: ", 1)
		})
	}, func(string) string { return anyEnd }, "HTTP"},
	{"CRL", func(v *victim) {
		list := filepath.Join(v.dir, "list.crl")
		write(v.t, list, string(v.people.ca.CRL(v.t, time.Hour, v.leaf())))
		v.rewrite("ca: [pki/ca.crt, people.crt]}\nadmin", "ca: [pki/ca.crt, people.crt], crl: [list.crl]}\nadmin")
		v.rewrite("ca: [pki/ca.crt, people.crt]}, callers", "ca: [pki/ca.crt, people.crt], crl: [list.crl]}, callers")
	}, asConnection, ""},
	{"file out of the list", func(v *victim) {
		v.rewrite("ca: [pki/ca.crt, people.crt]}\nadmin", "ca: [pki/ca.crt]}\nadmin")
		v.rewrite("ca: [pki/ca.crt, people.crt]}, callers", "ca: [pki/ca.crt]}, callers")
	}, asConnection, ""},
}

func TestTL15RevocationEndsWhatIsUnderWay(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, link int) {
		for _, c := range columns {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.judge(newVictim(t, link))
			})
		}
	})
}

// judge begins everything, takes it away, and compares how it ends.
func (c *column) judge(v *victim) {
	var rows []*underWay
	var ends []func(context.Context) string
	for i := range everything {
		if row := &everything[i]; strings.Contains(row.name, c.of) {
			rows, ends = append(rows, row), append(ends, row.begin(v))
		}
	}
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	began := time.Now()
	c.apply(v)
	v.reloaded()
	for i, row := range rows {
		want := c.ends(row.name)
		if want == "" {
			v.t.Logf("%-24s goes on", row.name)
			continue
		}
		how := ends[i](ctx)
		v.t.Logf("%-28s %4.1f s  %.150s", row.name, time.Since(began).Seconds(), how)
		switch {
		case how == "", how == "it was done":
			v.t.Errorf("%s: %s: %q", c.name, row.name, how)
		case want != anyEnd && !strings.Contains(how, want):
			v.t.Errorf("%s: %s ended with %q, want %q", c.name, row.name, how, want)
		}
	}
	if c.of != "" {
		return
	}
	if strings.HasPrefix(c.ends("queued task"), "lost") {
		v.counts("swpd_a2a_tasks", "3")
	} else {
		v.counts("swpd_a2a_tasks", "0")
	}
}

// check says what is wrong with a revocation list; a reload keeps the old ones.
func TestTL18CheckJudgesRevocationLists(t *testing.T) {
	v := newVictim(t, 0)
	list := filepath.Join(v.dir, "list.crl")
	write(t, list, string(v.people.ca.CRL(t, -time.Minute, v.leaf())))
	v.rewrite("ca: [pki/ca.crt, people.crt]}\nadmin", "ca: [pki/ca.crt, people.crt], crl: [list.crl]}\nadmin")
	const expired = `the revocation list of "CN=root,O=SlimWire test" in `
	plan, err := check.Read(mustLoad(t, filepath.Join(v.dir, "swpd.yaml")))
	if err != nil || !strings.Contains(strings.Join(plan.Warnings, "\n"), expired) {
		t.Errorf("an expired list: %q, %v", plan.Warnings, err)
	}
	v.reloaded()
	if _, ready := v.get("/readyz"); !strings.Contains(ready, expired) {
		t.Errorf("/readyz: %s", ready)
	}
	for what, text := range map[string]string{
		"of another authority": string(transporttest.NewCA(t).CRL(t, time.Hour)), "cut off": "-----BEGIN X509 CRL-----\n",
	} {
		write(t, list, text)
		if _, err := check.Read(mustLoad(t, filepath.Join(v.dir, "swpd.yaml"))); err == nil || !strings.Contains(err.Error(), "trust.crl[0]: "+list) {
			t.Errorf("%s: %v", what, err)
		}
		v.reloaded()
		if s, err := dialWith(t, v.addrs[0], v.files); err == nil && echo(t, s) == nil {
			t.Errorf("%s: a revoked peer is let in", what)
		}
	}
}
