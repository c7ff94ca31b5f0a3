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
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
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
	ctx    context.Context // of what she does; under a chain of credentials if that is revoked
	ends   time.Time       // of her certificate
	drains bool            // her sessions drain before they end
}

// underWay begins one thing, and returns a function that waits for its end and says how it
// ended.
type underWay struct {
	name  string
	begin func(v *victim) (ended func(ctx context.Context) string)
	late  bool // it is begun when everything else is
}

const (
	aliceRules = "access: {rules: [{identity: ['spiffe://people.example/**', 'http:alice', 'spiffe://a.example/**', 'spiffe://b.example/**']}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	fewerRules = "access: {rules: [{identity: ['spiffe://a.example/**', 'spiffe://b.example/**']}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	denying    = "access: {deny: ['spiffe://people.example/alice', 'http:alice', 'spiffe://b.example/swpd'], rules: [{identity: '**'}]}\n"
)

// newVictim starts the daemon. alice is a partner, who has to dial.
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
	credentials, _ := credYAML(t, false)
	yaml += credentials + "sdl: {agent_id: did:web:a.example}\n" + "partners:\n  alice: {identity: '" + aliceID + "'}\n"
	v := &victim{t: t, people: p, link: link, organisation: &organisation{startIn(t, dir, yaml), "a", "spiffe://a.example/swpd"}}
	v.rewrite("ca: [pki/ca.crt]}\nadmin", "ca: [pki/ca.crt, people.crt]}\nadmin")
	v.reloaded()
	v.ctx, v.files = t.Context(), p.write(v.organisation, aliceID)
	v.roots = x509.NewCertPool()
	anchors, err := os.ReadFile(v.ca())
	if err != nil {
		t.Fatal(err)
	}
	v.roots.AppendCertsFromPEM(anchors)
	return v
}

// expires gives alice a certificate that expires soon after everything else has begun: a
// multiple of the time that the start of the daemon and one connection have taken.
func (v *victim) expires(started time.Time) {
	v.t.Helper()
	v.dial().Close(profiles.OK)
	leaf := transporttest.Named(aliceID)
	leaf.NotAfter = time.Now().Add(max(15*time.Second, 15*time.Since(started))).Truncate(time.Second)
	v.files, v.ends, v.drains = v.people.issue(v.organisation, leaf), leaf.NotAfter, true
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
	d, err := s.tasks.Send(v.ctx, s.Session, &a2a.Task{ID: []byte(id), Kind: "k"}, a2a.SendOptions{})
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
	resp, err := v.send(c, token, method, body, session)
	if err != nil || resp.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %+v, %v", method, resp, err)
	}
	v.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// send is request for whatever the answer is.
func (v *victim) send(c *http.Client, token, method, body, session string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.front()+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
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
	return c.Do(req)
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

// webSocket opens a WebSocket for envelopes of A2A-SDL.
func (v *victim) webSocket(byCertificate bool) (ended func(context.Context) string) {
	v.t.Helper()
	o := &websocket.DialOptions{HTTPClient: v.client(byCertificate)}
	if !byCertificate {
		o.HTTPHeader = http.Header{"Authorization": {"Bearer secret-a"}}
	}
	s := sdlDial(v.t, v.front(), o)
	sdlAnswer(v.t, s, []byte("no envelope")) // it is served
	return asking(func() error { _, _, err := s.Read(v.t.Context()); return err })
}

const connected = "connected"

var everything = []underWay{
	{name: "connection in handshake", late: true, begin: func(v *victim) func(context.Context) string {
		address, release := holdsHandshake(v.t, v.addrs[v.link])
		answer := make(chan string, 1)
		go func() {
			s, err := dialWith(v.t, address, v.files)
			if err == nil {
				err = echo(v.t, s)
			}
			if err != nil {
				answer <- err.Error()
				return
			}
			answer <- connected
		}()
		return func(ctx context.Context) string {
			release()
			return answered(answer)(ctx)
		}
	}},
	{name: "idle session", begin: func(v *victim) func(context.Context) string { return over(v.dial().Session) }},
	{name: "MCP call", begin: func(v *victim) func(context.Context) string {
		s := v.dial()
		answer, release := s.waitsIn(v.ctx, v.t, "child", s.begin(v.t, "child"))
		v.t.Cleanup(release) // keeps the child waiting
		return answered(answer)
	}},
	{name: "MCP session with a child", begin: func(v *victim) func(context.Context) string {
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
	{name: "running task", begin: func(v *victim) func(context.Context) string { return v.task(v.dial(), "runs") }},
	{name: "queued task", begin: func(v *victim) func(context.Context) string { return v.task(v.dial(), "waits") }},
	{name: "subscription", begin: func(v *victim) func(context.Context) string {
		sub, err := events.Open(v.ctx, v.dial().Session, events.SubscribeOptions{})
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(sub.Close)
		return asking(func() error { _, err := sub.Recv(v.t.Context()); return err })
	}},
	{name: "relay attachment", begin: func(v *victim) func(context.Context) string {
		s := v.dial()
		c, err := s.relays.Consume(v.ctx, s.Session, "topic", 1)
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(c.Close)
		return asking(func() error { _, err := c.Recv(v.t.Context()); return err })
	}},
	{name: "upload", begin: func(v *victim) func(context.Context) string {
		s, other := v.dial(), v.dial()
		const size, chunk = 1 << 20, 64 << 10
		octets := &throttled{Reader: bytes.NewReader(make([]byte, size)), free: 4 * chunk, half: make(chan struct{}), goOn: make(chan struct{})}
		ended := asking(func() error {
			return artifact.Upload{ArtifactID: "up", Size: size, Hash: sha256.Sum256(make([]byte, size)), Octets: octets, Chunk: chunk, Window: 1, Sync: syncPlain}.Send(v.ctx, s.Session)
		})
		<-octets.half
		return func(ctx context.Context) string {
			if v.drains { // the session itself may last as long as the upload holds back
				over(other.Session)(ctx)
			}
			close(octets.goOn)
			return ended(ctx)
		}
	}},
	{name: "HTTP stream by token", begin: func(v *victim) func(context.Context) string { return v.stream(false) }},
	{name: "HTTP stream by certificate", begin: func(v *victim) func(context.Context) string { return v.stream(true) }},
	{name: "HTTP WebSocket by token", begin: func(v *victim) func(context.Context) string { return v.webSocket(false) }},
	{name: "HTTP WebSocket by certificate", begin: func(v *victim) func(context.Context) string { return v.webSocket(true) }},
	{name: "HTTP connection in handshake", late: true, begin: func(v *victim) func(context.Context) string {
		address, release := holdsHandshake(v.t, "swp+tls://"+strings.TrimPrefix(v.front(), "https://"))
		c := v.client(true)
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(address, "swp+tls://"))
		}
		answer := make(chan string, 1)
		go func() {
			resp, err := v.send(c, "", http.MethodPost, beginsSession, "")
			if err != nil {
				answer <- err.Error()
				return
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"result"`) {
				answer <- connected
				return
			}
			answer <- fmt.Sprintf("%s %s %v", resp.Status, body, err)
		}()
		return func(ctx context.Context) string {
			release()
			return answered(answer)(ctx)
		}
	}},
	{name: "partner link", begin: func(v *victim) func(context.Context) string {
		v.dial()
		v.connected("alice")
		return func(ctx context.Context) string {
			for v.up("alice") {
				select {
				case <-ctx.Done():
					return ""
				case <-time.After(10 * time.Millisecond):
				}
			}
			return "the link has ended"
		}
	}},
	{name: "seated agent", begin: func(v *victim) func(context.Context) string {
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
		select {
		case <-begun:
		case <-time.After(patience):
			v.t.Fatal("the seated agent was not given its task")
		}
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
	start func(v *victim) // before she begins anything; may be nil
	apply func(v *victim)
	ends  func(row string) string // how a row has to end: a text in it; "" for what goes on
	of    string                  // only the rows with this in their names; empty: all
	own   bool                    // a column of its own in the document
}

const anyEnd = "any end"

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

// withConnection is asIdentity if the connections end at the same time, perhaps before a Result is sent.
func withConnection(row string) string {
	if strings.HasSuffix(row, "task") {
		return anyEnd
	}
	return asIdentity(row)
}

// asPartner is for what ends an identity over SWP alone.
func asPartner(row string) string {
	if strings.HasPrefix(row, "HTTP") {
		return ""
	}
	return withConnection(row)
}

// asConnection is for what ends connections: tasks, and sessions of MCP, belong to the
// identity, which may come back.
func asConnection(row string) string {
	switch row {
	case "running task", "queued task":
		return "lost"
	case "MCP session with a child", "HTTP stream by token", "HTTP WebSocket by token":
		return ""
	}
	return anyEnd
}

// asChain is for the end of a chain.
func asChain(row string) string {
	switch row {
	case "MCP call", "subscription", "relay attachment", "upload":
		return anyEnd
	case "running task", "queued task":
		return "Result ok=false " + a2a.ReasonChain
	}
	return ""
}

var columns = []column{
	{name: "expiry", own: true, apply: func(v *victim) { <-time.After(time.Until(v.ends)) }, ends: asConnection},
	{name: "CRL", own: true, apply: func(v *victim) {
		list := filepath.Join(v.dir, "list.crl")
		write(v.t, list, string(v.people.ca.CRL(v.t, time.Hour, v.leaf())))
		v.rewrite("ca: [pki/ca.crt, people.crt]}\nadmin", "ca: [pki/ca.crt, people.crt], crl: [list.crl]}\nadmin")
		v.rewrite("ca: [pki/ca.crt, people.crt]}, callers", "ca: [pki/ca.crt, people.crt], crl: [list.crl]}, callers")
	}, ends: asConnection},
	{name: "authority removed", own: true, apply: func(v *victim) {
		copyFile(v.t, filepath.Join(v.dir, "other.crt"), filepath.Join(v.dir, "people.crt"))
	}, ends: asConnection},
	{name: "file out of the list", own: true, apply: func(v *victim) {
		v.rewrite("ca: [pki/ca.crt, people.crt]}\nadmin", "ca: [pki/ca.crt]}\nadmin")
		v.rewrite("ca: [pki/ca.crt, people.crt]}, callers", "ca: [pki/ca.crt]}, callers")
	}, ends: asConnection},
	{name: "deny", own: true, apply: func(v *victim) { v.rewrite(aliceRules, denying) }, ends: withConnection},
	{name: "rule removed", own: true, apply: func(v *victim) { v.rewrite(aliceRules, fewerRules) }, ends: func(row string) string {
		switch row {
		case "connection in handshake", "idle session", "partner link":
			return "" // they may be there, and do nothing
		}
		return asIdentity(row)
	}},
	{name: "token removed", own: true, apply: func(v *victim) {
		v.rewrite("8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1", strings.Repeat("ab", 32))
	}, ends: func(string) string { return anyEnd }, of: "by token"},
	{name: "caller removed", apply: func(v *victim) {
		v.configure(func(text string) string {
			return strings.Replace(text, "callers: {alice: ", "callers: {bob: ", 1)
		})
	}, ends: func(string) string { return anyEnd }, of: "HTTP"},
	{name: "partner removed", own: true, start: func(v *victim) {
		v.rewrite("{identity: '"+aliceID+"'}", "{identity: '"+aliceID+"', trust: [people.crt]}")
		v.rewrite("ca: [pki/ca.crt, people.crt]}\nadmin", "ca: [pki/ca.crt]}\nadmin")
		v.reloaded()
	}, apply: (*victim).alone, ends: asPartner},
	{name: "partner removed, admitted by trust.ca", apply: (*victim).alone, ends: func(row string) string {
		if row == "connection in handshake" {
			return ""
		}
		return asPartner(row)
	}},
	{name: "chain revoked", own: true, start: func(v *victim) {
		s := v.dial()
		lane, err := s.Open(v.t.Context())
		if err == nil {
			err = cred.Show(v.t.Context(), lane, confirmed, cred.JWT, grant(v.t, theIssuer, aliceID, "read", time.Hour), []byte("chain"))
		}
		if err != nil {
			v.t.Fatal(err)
		}
		v.ctx = profiles.WithChain(v.ctx, []byte("chain"))
	}, apply: func(v *victim) {
		s := v.dial()
		lane, err := s.Open(v.t.Context())
		if err == nil {
			err = cred.End(v.t.Context(), lane, confirmed, []byte("chain"), "")
		}
		if err != nil {
			v.t.Fatal(err)
		}
	}, ends: asChain},
}

// alone removes the partner.
func (v *victim) alone() {
	v.configure(func(text string) string {
		before, _, _ := strings.Cut(text, "partners:\n")
		return before
	})
}

func TestTL15RevocationEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	found := new(revocations)
	t.Cleanup(func() { found.compare(t) }) // after all of them
	overTLSAndQUIC(t, func(t *testing.T, link int) {
		t.Parallel()
		for _, c := range columns {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.judge(t, link, found)
			})
		}
	})
}

// begun is a row under way.
type begun struct {
	*underWay
	ended func(context.Context) string
}

// judge begins everything, takes it away, and compares how it ends.
func (c *column) judge(t *testing.T, link int, found *revocations) {
	started := time.Now()
	v := newVictim(t, link)
	expiry := c.name == "expiry"
	if expiry {
		v.expires(started)
	}
	if c.start != nil {
		c.start(v)
	}
	var rows []begun
	for _, late := range []bool{false, true} {
		for i := range everything {
			if row := &everything[i]; strings.Contains(row.name, c.of) && row.late == late {
				if late && expiry { // a handshake has a limit
					<-time.After(time.Until(v.ends.Add(-2 * time.Second)))
				}
				rows = append(rows, begun{row, row.begin(v)})
			}
		}
	}
	if expiry && time.Now().After(v.ends) {
		t.Fatal("the certificate has expired before everything was begun")
	}
	c.apply(v)
	began := time.Now()
	if !expiry {
		v.reloaded()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var ending, lasting sync.WaitGroup
	going, stop := context.WithCancel(ctx) // for what goes on
	defer stop()
	for _, row := range rows {
		want := c.ends(row.name)
		if want == "" {
			lasting.Go(func() {
				if how := row.ended(going); how != "" && how != connected {
					t.Errorf("%s: %s has ended: %q", c.name, row.name, how)
				}
			})
			found.note(c, row.name, goesOn)
			continue
		}
		ending.Go(func() {
			how := row.ended(ctx)
			took := time.Since(began)
			t.Logf("%-28s %4.1f s  %.150s", row.name, took.Seconds(), how)
			switch {
			case how == "", how == "it was done", how == connected:
				t.Errorf("%s: %s: %q", c.name, row.name, how)
			case want != anyEnd && !strings.Contains(how, want):
				t.Errorf("%s: %s ended with %q, want %q", c.name, row.name, how, want)
			case want == "lost": // the task goes on, see below
				found.note(c, row.name, goesOn)
			default:
				found.note(c, row.name, fmt.Sprintf("%.1f s", took.Seconds()))
			}
		})
	}
	ending.Wait()
	if c.of == "" {
		tasks := "0"
		switch c.ends("queued task") {
		case "lost":
			tasks = "3"
		case "Result ok=false " + a2a.ReasonChain: // the one of the seated agent
			tasks = "1"
		}
		v.counts("swpd_a2a_tasks", tasks)
	}
	stop()
	lasting.Wait()
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
