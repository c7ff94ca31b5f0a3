package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/programs"
)

// built builds what the tests run, once, and returns the directory it is in.
var built = sync.OnceValues(func() (string, error) {
	return programs.Build("cmd/swpd", "cmd/swp-client", "cmd/spec-vector-runner", "examples/mcp-modern", "examples/mcp-legacy", "examples/rpc-backend")
})

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == scripted {
		scriptedOnStdio(os.Args[2])
		return
	}
	effort.AtOnce(6)
	os.Exit(m.Run())
}

// node is a running swpd.
type node struct {
	bin  string
	dir  string
	more string   // of the configuration; @DIR@ stands for dir
	env  []string // variables of swpd beside those of the test

	access string // section access of the configuration
	admin  string // address for administration, "off" unless a test sets another

	secrets []string // must not be in the log
	tls     string   // addresses
	quic    string
	tcp     string
	http    string // URL of the front, if there is one

	cmd      *exec.Cmd
	stopping chan struct{} // closed when it says so
	ended    chan error
	log      strings.Builder // belongs to whoever reads the log until ended
}

// server is an MCP server of the configuration.
type server struct {
	name    string
	command string
	args    []string
}

// start runs swpd with MCP servers behind it until the test ends; then it must
// stop by itself, cleanly and with no child left.
func start(t *testing.T, servers ...server) *node {
	t.Helper()
	var conf strings.Builder
	conf.WriteString("mcp:\n  servers:\n")
	for _, s := range servers {
		args, err := json.Marshal(s.args)
		if err != nil {
			t.Fatal(err)
		}
		if s.args == nil {
			args = []byte("[]")
		}
		fmt.Fprintf(&conf, "    %s: {command: %q, args: %s}\n", s.name, s.command, args)
	}
	return configured(t, conf.String())
}

// configured runs swpd with more in its configuration until the test ends, as
// start does.
func configured(t *testing.T, more string) *node {
	t.Helper()
	n := prepared(t)
	n.more = more
	n.untilEnd(t)
	return n
}

// prepared makes the directory of a node, with args for swpd init. It is not begun.
func prepared(t *testing.T, args ...string) *node {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{bin: bin, dir: t.TempDir(), access: `access: {rules: [{identity: "**"}], agents: [{identity: "**", agent_ids: "**"}]}`, admin: "off"}
	run(t, bin+"/swpd", append([]string{"init", "--dir", n.dir}, args...)...)
	n.tls, n.quic, n.tcp = "swp+tls://127.0.0.1:0", "swp+quic://127.0.0.1:0", "swp+tcp://127.0.0.1:0"
	return n
}

// untilEnd runs swpd until the test ends.
func (n *node) untilEnd(t *testing.T) {
	t.Helper()
	n.launch(t)
	t.Cleanup(func() {
		stop := time.AfterFunc(patience, func() { _ = n.cmd.Process.Kill() })
		defer stop.Stop()
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
		if err := <-n.ended; err != nil {
			t.Errorf("swpd ended with %v; its log:\n%s", err, n.log.String())
		}
		for _, secret := range n.secrets {
			if strings.Contains(n.log.String(), secret) {
				t.Errorf("%q is in the log of swpd", secret)
			}
		}
	})
}

// launch starts swpd at the addresses of the node, and returns when it serves.
func (n *node) launch(t *testing.T) {
	t.Helper()
	for began := time.Now(); !n.tried(t, time.Since(began) < patience); {
		n.log.Reset()
		time.Sleep(10 * time.Millisecond)
	}
}

// noEntropy is what a Go program ends with that did not find entropy for FIPS 140-3 in the
// timing of the CPU, as happens on a busy machine.
const noEntropy = "fips140/drbg: failed to obtain initial entropy"

// portTaken is what swpd ends with if another program on this machine got a port of it, for a
// connection perhaps, while it was not running.
const portTaken = "the port is taken"

// tried is launch, unless swpd finds no entropy or its port, and is to be tried again.
func (n *node) tried(t *testing.T, again bool) bool {
	t.Helper()
	file := filepath.Join(n.dir, "swpd.yaml")
	conf := "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\n" +
		"data: data\n" + n.access + "\n" +
		"listeners:\n  - address: " + n.tls + "\n  - address: " + n.quic + "\n  - address: " + n.tcp + "\n" +
		"admin: " + n.admin + "\n" + strings.ReplaceAll(n.more, "@DIR@", n.dir)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n.cmd = exec.Command(n.bin+"/swpd", "run", "--config", file)
	n.cmd.Env = append(os.Environ(), n.env...)
	out, err := n.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	serving := make(chan struct{ addresses, admin, http string }, 1)
	n.stopping, n.ended = make(chan struct{}), make(chan error, 1)
	go func(cmd *exec.Cmd, stopping chan<- struct{}, ended chan<- error) {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			n.log.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Addresses, Admin, HTTP string }
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				continue
			}
			switch line.Msg {
			case "serving":
				serving <- struct{ addresses, admin, http string }{line.Addresses, line.Admin, line.HTTP}
			case "stopping":
				close(stopping)
			}
		}
		ended <- cmd.Wait()
	}(n.cmd, n.stopping, n.ended)
	stop := time.AfterFunc(patience, func() { _ = n.cmd.Process.Kill() })
	defer stop.Stop()
	select {
	case at := <-serving:
		n.admin, n.http = at.admin, at.http
		for addr := range strings.FieldsSeq(at.addresses) {
			switch scheme, _, _ := strings.Cut(addr, ":"); scheme {
			case "swp+tls":
				n.tls = addr
			case "swp+quic":
				n.quic = addr
			default:
				n.tcp = addr
			}
		}
	case err := <-n.ended:
		if log := n.log.String(); again && (strings.Contains(log, noEntropy) || strings.Contains(log, portTaken)) {
			return false
		}
		n.ended <- err
		t.Fatalf("swpd ended before it served: %v; its log:\n%s", err, n.log.String())
	}
	return true
}

// kill ends swpd as a crash would. The node keeps its addresses.
func (n *node) kill(t *testing.T) {
	t.Helper()
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
	n.ended <- nil // it did what was wanted
}

// stop ends swpd in order. The node keeps its addresses.
func (n *node) stop(t *testing.T) {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-n.ended; err != nil {
		t.Errorf("swpd ended with %v; its log:\n%s", err, n.log.String())
	}
}

// abort ends swpd by a signal, and another while it waits for what is under way. Its
// addresses stay those of the node.
func (n *node) abort(t *testing.T, sig os.Signal, code int) {
	t.Helper()
	if err := n.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	<-n.stopping
	if err := n.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err := <-n.ended
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != code {
		t.Errorf("swpd ended with %v, want exit code %d; its log:\n%s", err, code, n.log.String())
	}
	n.ended <- nil // it did what was wanted
}

// client returns a swp-client command that is about to run, with a journal of the node's own.
func (n *node) client(args ...string) *exec.Cmd {
	cmd := exec.Command(n.bin+"/swp-client", args...)
	cmd.Env = append(os.Environ(), "SWP_IDENTITY="+filepath.Join(n.dir, "pki"), "XDG_STATE_HOME="+filepath.Join(n.dir, "state"))
	return cmd
}

// transports yields both addresses by name.
func (n *node) transports() map[string]string {
	return map[string]string{"tls": n.tls, "quic": n.quic}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
	}
	return string(out)
}
