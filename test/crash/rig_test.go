package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/netcut"
	"github.com/slimwire/swp/internal/programs"
	"github.com/slimwire/swp/profiles/all"
)

// program builds swpd, once, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	dir, err := programs.Build("cmd/swpd")
	return filepath.Join(dir, "swpd"), err
})

func TestMain(m *testing.M) {
	if octets := os.Getenv(postVariable); octets != "" {
		if err := child(octets); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	effort.AtOnce(4)
	os.Exit(netcut.Run(m.Run))
}

// beside has a test run beside others. A test of full length, or one that asserts times, has the
// machine for itself.
func beside(t *testing.T) {
	t.Helper()
	if !effort.Long() && os.Getenv("SWP_CRASH") == "" {
		t.Parallel()
	}
}

const (
	// patient is how long anything may take that has to happen, and startPatience a
	// start: asserted are times only where SWP_CRASH is set.
	patient       = time.Minute
	startPatience = 5 * patient

	// afterLoad is how long work that has begun may take to end, a last start of swpd
	// and the checks with it.
	afterLoad = 2*startPatience + 4*patient
)

// rig is a swpd that is killed and started again on the same data. Every start
// has other ports.
type rig struct {
	t      *testing.T
	dir    string
	file   string     // configuration
	opened *exchanges // notes what clients of this process do; nil: nobody does
	mayEnd string     // swpd may end by itself if its log has this; empty: it may not

	mu sync.Mutex
	*process
	addrs map[string]string // by scheme; nil while it is down
	entry string            // another address, at which connections are passed on to it; empty: none
	lives []life
}

// process is a swpd that was started.
type process struct {
	cmd   *exec.Cmd
	log   *logTail
	ended chan struct{}
	at    string       // directory in which it says where it listens
	host  *netcut.Host // nil: where this process is
	admin *http.Client // reaches its admin listener
}

// newRig prepares a swpd whose data lives in the directory data. extra is added
// to its configuration.
func newRig(t *testing.T, data, extra string) *rig {
	t.Helper()
	return newRigOf(t, t.TempDir(), devpki.Options{}, data, extra)
}

// newRigOf prepares the swpd of an organisation in a directory, which has an authority of
// its own.
func newRigOf(t *testing.T, dir string, pki devpki.Options, data, extra string) *rig {
	t.Helper()
	if _, err := program(); err != nil { // now, not in the time of the first start
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir}
	if err := devpki.Create(filepath.Join(r.dir, "pki"), pki); err != nil {
		t.Fatal(err)
	}
	conf := "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\n" +
		"listeners: [{address: \"swp+tls://127.0.0.1:0\"}, {address: \"swp+quic://127.0.0.1:0\"}]\nadmin: 127.0.0.1:0\n" +
		"data: " + data + "\n" +
		"access: {rules: [{identity: \"**\"}], agents: [{identity: \"**\", agent_ids: \"**\"}]}\n" +
		"limits: {frame_rate: 0}\nlog: {level: warn}\n" + extra
	r.file = filepath.Join(r.dir, "swpd.yaml")
	if err := os.WriteFile(r.file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

// launch starts swpd and returns at once.
func (r *rig) launch() error {
	began := life{from: clock()}
	if err := r.forget(); err != nil {
		return err
	}
	p, err := r.spawn(nil, r.dir)
	if err != nil {
		return err
	}
	go func() {
		<-p.ended
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			if r.mayEnd != "" && strings.Contains(fmt.Sprint(p.log), r.mayEnd) {
				return
			}
			r.t.Errorf("swpd has ended by itself: %s: %s", p.cmd.ProcessState, p.log)
		}
	}()
	r.take(p, began)
	return nil
}

// take makes a process the swpd of the rig.
func (r *rig) take(p *process, began life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = p
	r.lives = append(r.lives, began)
}

// forget removes the addresses of an earlier process.
func (r *rig) forget() error {
	err := os.Remove(filepath.Join(r.dir, addressFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// spawn starts a process at a host, or, if that is nil, where this one is, with additions to the
// environment. It says in the directory at where it listens.
func (r *rig) spawn(host *netcut.Host, at string, env ...string) (*process, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, "run", "--config", r.file, "--addr-file", filepath.Join(at, addressFile)), log: new(logTail), ended: make(chan struct{}), at: at, host: host, admin: http.DefaultClient}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Env = append(os.Environ(), env...)
	whole, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = io.MultiWriter(whole, p.log)
	start := p.cmd.Start
	if host != nil {
		start = func() error { return host.Do(p.cmd.Start) }
		p.admin = &http.Client{Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) },
			DisableKeepAlives: true,
		}}
	}
	if err := start(); err != nil {
		_ = whole.Close()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		_ = whole.Close()
		close(p.ended)
	}()
	return p, nil
}

// start starts swpd, waits until it says that it is ready, and returns how long
// that took.
func (r *rig) start() (time.Duration, error) {
	began := time.Now()
	if err := r.launch(); err != nil {
		return 0, err
	}
	err := r.await()
	return time.Since(began), err
}

// await waits until swpd is ready.
func (r *rig) await() error {
	for late := time.Now().Add(startPatience); time.Now().Before(late); {
		if r.ready() {
			return nil
		}
		select {
		case <-r.ended:
			return fmt.Errorf("swpd ended before it was ready: %s", r.log)
		case <-time.After(2 * time.Millisecond): // another process is awaited
		}
	}
	return fmt.Errorf("swpd is not ready after %v: %s", startPatience, r.log)
}

// ready asks swpd, once it has said where it listens.
func (r *rig) ready() bool {
	addrs := addresses(r.at)
	res, err := r.admin.Get(addrs[adminScheme] + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs = addrs
	return true
}

// The schemes of the addresses of a swpd, and the file that it writes them to.
const (
	tlsScheme   = "swp+tls"
	quicScheme  = "swp+quic"
	adminScheme = "http"
	addressFile = "addresses"
)

// addresses reads where the swpd of a rig says that it listens, by scheme; nothing where it
// has not said so.
func addresses(dir string) map[string]string {
	b, err := os.ReadFile(filepath.Join(dir, addressFile))
	if err != nil {
		return nil
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if scheme, _, ok := strings.Cut(line, ":"); ok {
			all[scheme] = line
		}
	}
	return all
}

// kill ends swpd as nothing can keep it from: SIGKILL.
func (r *rig) kill() {
	r.mu.Lock()
	p := r.process
	r.addrs = nil
	r.mu.Unlock()
	if p == nil {
		return
	}
	killed := span{from: clock()}
	_ = p.cmd.Process.Kill()
	<-p.ended
	killed.to = clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := &r.lives[len(r.lives)-1]; last.killed.to == 0 {
		last.killed = killed
	}
}

// past returns every time that swpd was started and killed.
func (r *rig) past() []life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lives)
}

// deaths returns every time that swpd was killed.
func (r *rig) deaths() (list []span) {
	for _, l := range r.past() {
		if l.killed.to > 0 {
			list = append(list, l.killed)
		}
	}
	return list
}

// signal sends a signal to swpd.
func (r *rig) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Process.Signal(s)
}

var errDown = errors.New("crash: swpd is down")

// dial connects to the swpd that runs now.
func (r *rig) dial(ctx context.Context, set *all.Set) (*client.Client, error) {
	return r.as(devpki.Client, "")(ctx, set)
}

// as connects with one of the identities that devpki has made; with via to that partner.
func (r *rig) as(who func(dir string) devpki.Files, via string) dialer {
	return func(ctx context.Context, set *all.Set) (*client.Client, error) {
		r.mu.Lock()
		addr := r.addrs[tlsScheme]
		if r.entry != "" && (addr == "" || rand.IntN(2) == 0) { //nolint:gosec // what the scheduler decides is not repeated either
			addr = r.entry
		}
		r.mu.Unlock()
		return connect(ctx, addr, via, who(filepath.Join(r.dir, "pki")), set, r.opened)
	}
}

// connect connects to an address, or fails if there is none.
func connect(ctx context.Context, addr, via string, files devpki.Files, set *all.Set, opened *exchanges) (*client.Client, error) {
	if addr == "" {
		return nil, errDown
	}
	if via != "" {
		addr += "/" + via
	}
	o := client.Options{
		Identity: client.Identity{Cert: files.Cert, Key: files.Key, CA: files.CA}, Profiles: set, Partner: via != "",
	}
	if opened != nil {
		o.Endpoint.Recorder = opened
	}
	return client.Dial(ctx, addr, o)
}

// logTail keeps the end of what swpd logs, and every panic.
type logTail struct {
	mu     sync.Mutex
	end    bytes.Buffer
	panics []string
}

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lines := bufio.NewScanner(bytes.NewReader(p)); lines.Scan(); {
		var line struct{ Msg string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && strings.Contains(line.Msg, "panic") {
			l.panics = append(l.panics, lines.Text())
		}
	}
	if l.end.Len() > 16<<10 {
		l.end.Reset()
	}
	return l.end.Write(p)
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end.String()
}
