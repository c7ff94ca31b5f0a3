package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	effort.AtOnce(8)
	goleak.VerifyTestMain(suite{m})
}

// suite is the tests of this package. They share a PostgreSQL server, which ends with them.
type suite struct{ *testing.M }

func (s suite) Run() int { return pgtest.Run(s.M) }

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

// drain is how long the daemons of these tests wait for what is in flight.
const drain = 5 * time.Second

// running is a daemon under test.
type running struct {
	t     *testing.T
	dir   string
	addrs []string // of the listeners, in the order of the configuration
	admin string
	data  string // its directory
	log   *buffer

	reload chan struct{}
	abort  chan struct{}
	stop   context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
}

// buffer is a bytes.Buffer for several goroutines that says when it has grown.
type buffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	grown chan struct{}
}

func newBuffer() *buffer { return &buffer{grown: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.grown <- struct{}{}:
	default:
	}
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// await waits until the log contains text.
func (r *running) await(text string) {
	r.t.Helper()
	timeout := time.After(patience)
	for !strings.Contains(r.log.String(), text) {
		select {
		case <-r.log.grown:
		case <-timeout:
			r.t.Fatalf("the log does not say %q:\n%s", text, r.log)
		}
	}
}

// awaitTimes waits until the log contains text n times. It may not do so more often.
func (r *running) awaitTimes(n int, text string) {
	r.t.Helper()
	timeout := time.After(patience)
	count := strings.Count(r.log.String(), text)
	for ; count < n; count = strings.Count(r.log.String(), text) {
		select {
		case <-r.log.grown:
		case <-timeout:
			r.t.Fatalf("the log says %q %d times, want %d:\n%s", text, count, n, r.log)
		}
	}
	if count > n {
		r.t.Errorf("the log says %q %d times, want %d", text, count, n)
	}
}

// start runs a daemon with certificates of its own and yaml beneath them.
func start(t *testing.T, yaml string) *running {
	t.Helper()
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir, yaml)
}

func startIn(t *testing.T, dir, yaml string, more ...func(*Options)) *running {
	t.Helper()
	text := "admin: 127.0.0.1:0\ndata: data\n" + yaml
	if !strings.Contains("\n"+yaml, "\nidentity:") {
		text = "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\n" + text
	}
	if !strings.Contains(yaml, "access:") {
		text += "access: {rules: [{identity: ['spiffe://localhost/**', loopback]}]}\n"
	}
	if !strings.Contains(yaml, "listeners:") {
		text += "listeners:\n- address: swp+tls://127.0.0.1:0\n- address: swp+quic://127.0.0.1:0\n- address: swp+tcp://127.0.0.1:0\n"
	}
	file := filepath.Join(dir, "swpd.yaml")
	if was, err := os.ReadFile(file); err != nil || string(was) != text { // another node with this file would read it again
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{
		t: t, dir: dir, log: newBuffer(),
		reload: make(chan struct{}), abort: make(chan struct{}), done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	ready := make(chan struct{})
	addrFile := filepath.Join(dir, "addresses")
	go func() {
		defer close(r.done)
		o := Options{
			Config: c, Version: "test", Log: r.log, AddrFile: addrFile, Reload: r.reload, Abort: r.abort, Drain: drain,
			Read: func() (*config.Config, error) { return config.Load(file, nil) },
			Ready: func(addrs []string) {
				r.addrs = addrs
				close(ready)
			},
		}
		for _, f := range more {
			f(&o)
		}
		r.data = o.Config.Data
		r.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		r.end()
		checkLog(t, r.log.String())
	})
	select {
	case <-ready:
	case <-r.done:
		t.Fatalf("Run: %v", r.err)
	}
	lines, err := os.ReadFile(addrFile)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(lines))
	r.admin = list[len(list)-1]
	return r
}

// end stops the daemon and returns the error of Run.
func (r *running) end() error {
	r.stop()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Errorf("Run did not return")
	}
	return r.err
}

// checkLog holds every line to what OP-01 asks.
func checkLog(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("log line %q: %v", line, err)
		}
		if len(line) > 8<<10 || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), unicode.IsControl) {
			t.Errorf("log line of %d octets or with a control character: %.200q", len(line), line)
		}
		for key, value := range object {
			if s, ok := value.(string); ok && len(s) > 256 {
				t.Errorf("log value %s of %d octets", key, len(s))
			}
		}
	}
}

// socket returns a transport to the socket in the data directory, for commands.
func (r *running) socket() *http.Transport {
	path := filepath.Join(r.data, "admin.sock")
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		short, done, err := config.ShortSocket(path)
		if err != nil {
			return nil, err
		}
		defer done()
		return new(net.Dialer).DialContext(ctx, "unix", short)
	}}
}

// get asks the admin listener, or the socket what is not for everybody.
func (r *running) get(path string) (status int, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.admin+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	if !unguarded[req.URL.Path] {
		client.Transport = r.socket()
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// warned returns all warnings with their ends, one on each line.
func (r *running) warned() string {
	r.t.Helper()
	var h Health
	_, body := r.get("/status")
	if err := json.Unmarshal([]byte(body), &h); err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(h.Warnings, "\n")
}

// metric returns the value of a series, "" if it is not there.
func (r *running) metric(series string) string {
	r.t.Helper()
	_, text := r.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}

// counts waits until a series has a value: what is counted of a message may be so
// after its answer is sent.
func (r *running) counts(series, want string) {
	r.t.Helper()
	got := r.metric(series)
	for began := time.Now(); got != want && time.Since(began) < patience; got = r.metric(series) {
		<-time.After(10 * time.Millisecond)
	}
	if got != want {
		r.t.Errorf("%s is %q, want %q", series, got, want)
	}
}

// session is a connection of a client.
type session struct {
	*endpoint.Session
	mapping *mcpmap.Mapping
	tasks   *a2a.Service
	relays  *relay.Service
}

// dial connects with the client's certificate in r.dir.
func (r *running) dial(address string) (*session, error) {
	r.t.Helper()
	return dialWith(r.t, address, devpki.Client(filepath.Join(r.dir, "pki")))
}

func dialWith(t *testing.T, address string, f devpki.Files) (*session, error) {
	t.Helper()
	conn, err := connect(t, address, f)
	if err != nil {
		return nil, err
	}
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return &session{ep.Attach(conn), set.MCP, set.A2A, set.Relay}, nil
}

func connect(t *testing.T, address string, f devpki.Files) (transport.Conn, error) {
	t.Helper()
	a, err := transport.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := &config.Config{Identity: config.Identity{Cert: f.Cert, Key: f.Key}, Trust: config.Trust{CA: []string{f.CA}}}
	l, err := identity.Read(c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	policy := &transport.Policy{Credentials: l.Current}
	switch a.Transport {
	case "tls":
		return tlsconn.Dial(ctx, a.HostPort(), policy, tlsconn.Options{})
	case "quic":
		return quicconn.Dial(ctx, a.HostPort(), policy, quicconn.Options{})
	}
	return transport.DialLoopback(ctx, a.HostPort())
}

// echo calls swp.echo.
func echo(t *testing.T, s *session) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := rpc.Call(ctx, s.Session, rpc.MethodEcho, []byte("hello"))
	if err == nil && string(got) != "hello" {
		err = fmt.Errorf("echo %q", got)
	}
	return err
}

func (r *running) mustDial(address string) *session {
	r.t.Helper()
	s, err := r.dial(address)
	if err == nil {
		err = echo(r.t, s)
	}
	if err != nil {
		r.t.Fatalf("%s: %v", address, err)
	}
	return s
}

func TestServesOverEachTransport(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	if len(r.addrs) != 3 {
		t.Fatalf("addresses %q, want 3", r.addrs)
	}
	for _, address := range r.addrs {
		r.mustDial(address)
	}
	r.counts(`swpd_messages_total{profile="rpc"}`, "3")
	if err := r.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestStartLogNamesIdentityListenersAndPolicies(t *testing.T) {
	r := start(t, "freshness: {owner: s1, skew: 1m}\nlimits: {frame_bytes: 1MiB}\npartners: {acme: {identity: spiffe://acme.example/swpd}}\n")
	lines := strings.SplitN(r.log.String(), "\n", 3)
	for i, fields := range []map[string]any{
		{
			"msg": "serving", "identity": devpki.DefaultName, "addresses": strings.Join(r.addrs, " "), "partners": "acme",
			"a2a_agents": "", "rpc_backends": "", "teams": "", "agent_cards": 0.0, "access_rules": 1.0,
		},
		{
			"msg": "policies", "error_path": "off", "freshness": "enforced by s1, skew 1m0s, required false",
			"frame_bytes": "1MiB", "in_flight": 128.0, "traces": "off",
		},
	} {
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		for key, want := range fields {
			if line[key] != want {
				t.Errorf("%s is %v, want %v", key, line[key], want)
			}
		}
	}
}

func TestFreshnessThatIsOffIsSaid(t *testing.T) {
	r := start(t, "")
	if want := `"freshness":"off: timestamps are not checked"`; !strings.Contains(r.log.String(), want) {
		t.Errorf("the log does not say %s", want)
	}
}

func TestPortThatIsTakenIsExplained(t *testing.T) {
	r := start(t, "")
	for _, address := range r.addrs {
		c := config.Default()
		a, err := transport.ParseAddr(address)
		if err != nil {
			t.Fatal(err)
		}
		c.Data, c.Admin.Address = t.TempDir(), config.AdminOff
		c.Listeners = []config.Listener{{Address: config.Address{Addr: a}}}
		err = Run(t.Context(), Options{Config: c, Log: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "listeners[0].address: "+address+": the port is taken") {
			t.Errorf("%s: error %v", address, err)
		}
	}
}

func TestWithoutIdentityOneIsMade(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Data, c.Admin.Address = filepath.Join(t.TempDir(), "data"), config.AdminOff
	for i := range c.Listeners {
		c.Listeners[i].Address.Port = 0
	}
	for range 2 { // made, then found
		ctx, cancel := context.WithCancel(t.Context())
		var addrs []string
		done := make(chan error, 1)
		ready := make(chan struct{})
		go func() {
			done <- Run(ctx, Options{Config: c, Log: io.Discard, Ready: func(list []string) {
				addrs = list
				close(ready)
			}})
		}()
		select {
		case <-ready:
		case err := <-done:
			t.Fatal(err)
		}
		for _, address := range addrs {
			s, err := dialWith(t, address, devpki.Client(c.IdentityDir()))
			if err != nil {
				t.Fatal(err)
			}
			if err := echo(t, s); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrorFramesAreAPropertyOfTheListener(t *testing.T) {
	r := start(t, "listeners:\n- {address: 'swp+tcp://127.0.0.1:0', error_frames: true}\n- address: swp+tcp://127.0.0.1:0\n")
	// An envelope of a profile that nobody serves.
	message := slices.Concat([]byte{0, 0, 0, 16, 1, 9, 1, 0, 0, 8}, []byte("12345678"), []byte{0, 0})
	for i, want := range []bool{true, false} {
		conn, err := connect(t, r.addrs[i], devpki.Client(filepath.Join(r.dir, "pki")))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(0) }()
		s, err := conn.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(message); err != nil {
			t.Fatal(err)
		}
		n, err := s.Read(make([]byte, 512))
		if got := n > 0; got != want {
			t.Errorf("listener %d: %d octets, %v; want an answer: %v", i, n, err, want)
		}
	}
}
