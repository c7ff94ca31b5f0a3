//go:build abuse

package abuse

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/programs"
	"github.com/slimwire/swp/transport"
)

// Bounds that hold for every row.
const (
	goodP99  = 10 * time.Millisecond // I2: of the well-behaved peer
	resident = 320 << 20             // I4: octets of memory above the start
)

// bin holds the programs under test.
var bin string

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		os.Exit(childMain(kind))
	}
	var err error
	if bin, err = programs.Build("cmd/swpd", "cmd/swp-client"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim is a running swpd.
type victim struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	tls    string // host:port
	quic   string
	admin  string // host:port, or "off"
	http   string // URL, or ""
	who    string // directory of the identity of the well-behaved peer
	log    *log
	policy *transport.Policy
}

// start runs swpd until the test ends. limits are lines of its configuration.
func start(t *testing.T, env []string, limits ...string) *victim {
	t.Helper()
	return startWith(t, "", env, limits...)
}

// startWith is start with sections of a configuration beside the usual ones.
func startWith(t *testing.T, sections string, env []string, limits ...string) *victim {
	t.Helper()
	v := &victim{t: t, dir: t.TempDir(), who: "pki"}
	if err := devpki.Create(filepath.Join(v.dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	conf := "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\nadmin: off\n" +
		"data: data\naccess: {rules: [{identity: \"**\"}], agents: [{identity: \"**\", agent_ids: \"**\"}]}\n" +
		"listeners:\n  - address: swp+tls://127.0.0.1:0\n  - address: swp+quic://127.0.0.1:0\n" +
		sections + "limits:\n"
	if !strings.Contains(strings.Join(limits, "\n"), "connections_per_identity:") {
		limits = append(limits, "connections_per_identity: 16384") // all peers here are one principal
	}
	for _, l := range limits {
		conf += "  " + l + "\n"
	}
	v.launch(conf, env)
	v.policy = v.credentials()
	return v
}

// log is what the victim has logged, without the lines of its start.
type log struct {
	mu    sync.Mutex
	lines []string
}

// mostLines is how many lines of the log are kept.
const mostLines = 1 << 20

// launch runs swpd with a configuration until the test ends.
func (v *victim) launch(conf string, env []string) {
	v.t.Helper()
	v.log = new(log)
	file := filepath.Join(v.dir, "swpd.yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		v.t.Fatal(err)
	}
	v.cmd = exec.Command(bin+"/swpd", "run", "--config", file)
	v.cmd.Env = append(os.Environ(), env...)
	out, err := v.cmd.StderrPipe()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	type line struct{ Msg, Addresses, Admin, HTTP string }
	serving := make(chan line, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l line
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "serving" {
				serving <- l
			}
			v.log.mu.Lock()
			if len(v.log.lines) < mostLines {
				v.log.lines = append(v.log.lines, lines.Text())
			}
			v.log.mu.Unlock()
		}
	}()
	v.t.Cleanup(func() {
		_ = v.cmd.Process.Signal(syscall.SIGTERM)
		<-read
		if err := v.cmd.Wait(); err != nil {
			v.t.Errorf("I1: swpd ended with %v", err)
		}
	})
	select {
	case l := <-serving:
		v.admin, v.http = l.Admin, l.HTTP
		for a := range strings.FieldsSeq(l.Addresses) {
			if after, ok := strings.CutPrefix(a, "swp+tls://"); ok {
				v.tls = after
			} else if after, ok := strings.CutPrefix(a, "swp+quic://"); ok {
				v.quic = after
			}
		}
	case <-read:
		v.t.Fatalf("swpd ended before it served: %s", v.log.lines)
	}
}

func (v *victim) credentials() *transport.Policy {
	v.t.Helper()
	f := devpki.Client(filepath.Join(v.dir, "pki"))
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		v.t.Fatal(err)
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		v.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c := &transport.Credentials{Certificate: &pair, Roots: roots}
	return &transport.Policy{Credentials: func() *transport.Credentials { return c }}
}

// memory is the resident memory of the victim in octets.
func (v *victim) memory() int {
	v.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		v.t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// cpu is the processor time that the victim has used.
func (v *victim) cpu() time.Duration {
	v.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ") // the name may hold anything
	fields := strings.Fields(after)
	var ticks time.Duration
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(f)
		if err != nil {
			v.t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// descriptors is how many files the victim has open.
func (v *victim) descriptors() int {
	v.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	return len(list)
}

// good is a well-behaved peer in a process of its own.
type good struct {
	v   *victim
	cmd *exec.Cmd
	out bytes.Buffer
}

// report is what swp-client bench prints.
type report struct {
	Calls   int
	Errors  int
	Latency struct {
		P50 time.Duration `json:"p50_ns"`
		P99 time.Duration `json:"p99_ns"`
	}
}

// meanwhile has a well-behaved peer make one exchange after the other for d.
func (v *victim) meanwhile(d time.Duration) *good {
	v.t.Helper()
	g := &good{v: v}
	g.cmd = exec.Command(bin+"/swp-client", "--identity", filepath.Join(v.dir, v.who), "--json", "bench",
		"--conns", "1", "--inflight", "1", "--size", "64", "--duration", d.String(), "swp+tls://"+v.tls)
	g.cmd.Stdout, g.cmd.Stderr = &g.out, os.Stderr
	if err := g.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	return g
}

func (g *good) report() report {
	g.v.t.Helper()
	if err := g.cmd.Wait(); err != nil {
		g.v.t.Fatalf("I1: the well-behaved peer: %v", err)
	}
	var r report
	if err := json.Unmarshal(g.out.Bytes(), &r); err != nil {
		g.v.t.Fatalf("%v: %s", err, g.out.Bytes())
	}
	if r.Errors > 0 || r.Calls == 0 {
		g.v.t.Fatalf("I1: the well-behaved peer had %d errors in %d exchanges", r.Errors, r.Calls)
	}
	return r
}

// outcome is one try: what was measured, and what of it is out of bounds.
type outcome struct {
	text   string
	faults []string
}

func (o *outcome) say(format string, args ...any) { o.text += fmt.Sprintf(format, args...) + "; " }

// must notes a fault unless ok.
func (o *outcome) must(ok bool, format string, args ...any) {
	if !ok {
		o.faults = append(o.faults, fmt.Sprintf(format, args...))
	}
}

// invariants holds the good peer and the memory of the victim to I2 and I4.
func (o *outcome) invariants(v *victim, r report, before int) {
	o.say("good peer p50 %v p99 %v", r.Latency.P50, r.Latency.P99)
	o.must(r.Latency.P99 <= goodP99, "I2: p99 of the good peer %v, want %v at most", r.Latency.P99, goodP99)
	grown := v.memory() - before
	o.say("memory %+d MiB", grown>>20)
	o.must(grown <= resident, "I4: %d MiB more, want %d at most", grown>>20, resident>>20)
}

// tries runs a row three times at most, until it is within its bounds.
func tries(t *testing.T, row func(t *testing.T, o *outcome)) {
	t.Helper()
	var last outcome
	for n := range 3 {
		last = outcome{}
		t.Run(fmt.Sprint("try", n+1), func(t *testing.T) { row(t, &last) })
		if t.Failed() {
			return
		}
		t.Logf("%s", last.text)
		if len(last.faults) == 0 {
			return
		}
		t.Logf("out of bounds: %s", strings.Join(last.faults, "; "))
	}
	t.Error("out of bounds three times")
}

// echo is a frame that swp.echo answers.
func echo(id string, params []byte) []byte {
	body := []byte{0x0a, 2, 'i', 'd', 0x12, 8}
	body = append(body, "swp.echo"...)
	body = e1.AppendBytes(append(body, 0x1a), params)
	env := e1.Envelope{Version: 1, ProfileID: 12, MsgType: 1, MsgID: []byte(id), Payload: e1.AppendBytes([]byte{0x0a}, body)}
	return frame.Append(nil, env.Append(nil))
}
