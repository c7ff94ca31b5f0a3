package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs builds the commands once for all tests of a run and returns the
// directory they are in.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "swp-e2e-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "../cmd/swpd", "../cmd/swp-client", "../examples/mcp-modern", "../examples/mcp-legacy")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := programs(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// node is a running swpd.
type node struct {
	bin  string
	dir  string
	tls  string // addresses
	quic string
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
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{bin: bin, dir: t.TempDir()}
	run(t, bin+"/swpd", "init", "--dir", n.dir)
	var conf strings.Builder
	conf.WriteString("identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\n" +
		"data: data\naccess: {rules: [{identity: \"**\"}], agents: [{identity: \"**\", agent_ids: \"**\"}]}\n" +
		"listeners:\n  - address: swp+tls://127.0.0.1:0\n  - address: swp+quic://127.0.0.1:0\n" +
		"admin: off\nmcp:\n  servers:\n")
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
	file := filepath.Join(n.dir, "swpd.yaml")
	if err := os.WriteFile(file, []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin+"/swpd", "run", "--config", file)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	serving, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Addresses string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				serving <- line.Addresses
			}
		}
		ended <- cmd.Wait()
	}()
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		stop.Reset(20 * time.Second)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("swpd ended with %v; its log:\n%s", err, log.String())
		}
		stop.Stop()
	})
	select {
	case addresses := <-serving:
		stop.Stop()
		for addr := range strings.FieldsSeq(addresses) {
			if strings.HasPrefix(addr, "swp+tls:") {
				n.tls = addr
			} else {
				n.quic = addr
			}
		}
	case err := <-ended:
		ended <- err
		t.Fatalf("swpd ended before it served: %v", err)
	}
	return n
}

// client returns a swp-client command that is about to run.
func (n *node) client(args ...string) *exec.Cmd {
	return exec.Command(n.bin+"/swp-client", append([]string{"--identity", filepath.Join(n.dir, "pki")}, args...)...)
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
