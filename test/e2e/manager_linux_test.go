package e2e

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
)

// managed is swpd as a service manager runs it: with sockets, and with a socket that it
// reports its state to.
type managed struct {
	bin, file string
	sockets   []*os.File
	notices   *net.UnixConn
	log       *bytes.Buffer
}

func newManaged(t *testing.T, sockets ...*os.File) *managed {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	m := &managed{bin: bin, file: filepath.Join(t.TempDir(), "swpd.yaml"), sockets: sockets}
	m.notices, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.notices.Close() })
	return m
}

// start runs swpd. The shell gives it the process id that LISTEN_PID has to name.
func (m *managed) start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" run --config "$1"`, m.bin+"/swpd", m.file)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.notices.LocalAddr().String())
	if len(m.sockets) > 0 {
		cmd.Env = append(cmd.Env, "LISTEN_FDS="+string(rune('0'+len(m.sockets))))
	}
	cmd.ExtraFiles = m.sockets
	m.log = new(bytes.Buffer)
	cmd.Stderr = m.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// notice returns the next state that swpd reports.
func (m *managed) notice(t *testing.T) string {
	t.Helper()
	_ = m.notices.SetReadDeadline(time.Now().Add(time.Minute))
	b := make([]byte, 1<<10)
	n, err := m.notices.Read(b)
	if err != nil {
		t.Fatalf("%v; the log:\n%s", err, m.log)
	}
	return string(b[:n])
}

// configure writes a configuration with more beside an identity.
func (m *managed) configure(t *testing.T, identity, more string) {
	t.Helper()
	conf := "identity: {cert: " + identity + "/pki/server.crt, key: " + identity + "/pki/server.key}\ntrust: {ca: [" + identity + "/pki/ca.crt]}\n" +
		"data: " + t.TempDir() + "\naccess: {rules: [{identity: \"**\"}]}\n" + more
	if err := os.WriteFile(m.file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
}

func ended(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	return cmd.Wait()
}

// servingNotice is what swpd tells the service manager when it serves.
const servingNotice = "READY=1\nSTATUS=serving"

// Connections that come before swpd runs, and while the last one drains, wait in the sockets
// of the service manager, over TLS and QUIC, and the next one serves them.
func TestConnectionsWaitInPassedSocketsDuringARestart(t *testing.T) {
	effort.Unwatched(t)
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	held, release := make(chan struct{}, 2), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-release
	}))
	defer slow.Close()
	n := prepared(t)
	m := newManaged(t, fileOf(t, ln.(*net.TCPListener)), fileOf(t, udp.(*net.UDPConn)))
	addresses := []string{"swp+tls://" + ln.Addr().String(), "swp+quic://" + udp.LocalAddr().String()}
	m.configure(t, n.dir, "admin: off\nlisteners: [{address: "+addresses[0]+"}, {address: "+addresses[1]+"}]\n"+
		"rpc: {backends: {slow: {url: "+slow.URL+", methods: [slow]}}}\n")
	all := func(args ...string) (list []*exec.Cmd) {
		for _, address := range addresses {
			c := n.client(append(append([]string{"--timeout", "60s"}, args[0], args[1], address), args[2:]...)...)
			c.Stdout = new(bytes.Buffer)
			c.Stderr = c.Stdout
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		return list
	}
	finished := func(what string, list []*exec.Cmd) {
		t.Helper()
		for _, c := range list {
			if err := c.Wait(); err != nil {
				t.Errorf("%s: %v: %v\n%s", what, c.Args, err, c.Stdout)
			}
		}
	}
	serving := func() *exec.Cmd {
		cmd := m.start(t)
		if got := m.notice(t); got != servingNotice {
			t.Fatalf("%q, want %q", got, servingNotice)
		}
		return cmd
	}
	over := func(cmd *exec.Cmd) {
		t.Helper()
		if err := ended(t, cmd); err != nil {
			t.Errorf("%v; the log:\n%s", err, m.log)
		}
	}

	early := all("rpc", "call", "swp.ping")
	first := serving()
	finished("before the first start", early)

	inFlight := all("rpc", "call", "slow")
	for range inFlight {
		<-held
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := m.notice(t); got != "STOPPING=1" {
		t.Errorf("%q, want STOPPING=1", got)
	}
	late := all("rpc", "call", "swp.ping")
	time.Sleep(time.Second) // for their first packets; the test also passes without them
	close(release)
	finished("in flight at the stop", inFlight)
	over(first)
	second := serving()
	finished("during the stop", late)
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	over(second)
}

// fileOf returns a copy of the descriptor of a socket.
func fileOf(t *testing.T, socket interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A passed socket that no address of the configuration uses ends the start, and so does one
// that has the port of an address and is bound to another.
func TestPassedSocketsHaveAnAddressOfTheConfiguration(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	n := prepared(t)
	for name, c := range map[string]struct{ more, want string }{
		"unused":  {"admin: off\nlisteners: [{address: \"swp+tls://127.0.0.1:0\"}]\n", "no address of the configuration uses: tcp 127.0.0.1:" + port},
		"unequal": {"admin: off\nlisteners: [{address: \"swp+tls://0.0.0.0:" + port + "\"}]\n", "the socket that was passed for this port is bound to 127.0.0.1:" + port},
	} {
		m := newManaged(t, fileOf(t, ln.(*net.TCPListener)))
		m.configure(t, n.dir, c.more)
		cmd := m.start(t)
		if err := ended(t, cmd); err == nil || !strings.Contains(m.log.String(), c.want) {
			t.Errorf("%s: %v, want %q in the log:\n%s", name, err, c.want, m.log)
		}
	}
}

// The sockets of http.address and admin may be passed, too.
func TestPassedSocketsOfTheHTTPFrontAndAdmin(t *testing.T) {
	t.Parallel()
	var files []*os.File
	var at []string
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		files, at = append(files, fileOf(t, ln.(*net.TCPListener))), append(at, ln.Addr().String())
	}
	n := prepared(t)
	m := newManaged(t, files...)
	m.configure(t, n.dir, "listeners: [{address: \"swp+tls://127.0.0.1:0\"}]\nadmin: "+at[0]+"\nhttp: {address: \""+at[1]+"\", anonymous: anyone}\n")
	cmd := m.start(t)
	if got := m.notice(t); got != servingNotice {
		t.Fatalf("%q, want %q", got, servingNotice)
	}
	if out := run(t, m.bin+"/swpd", "status", "--config", m.file); !strings.Contains(out, at[1]) {
		t.Errorf("swpd status, which asks the passed socket, does not show the other one, %s:\n%s", at[1], out)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := ended(t, cmd); err != nil {
		t.Errorf("%v; the log:\n%s", err, m.log)
	}
}

// The commands that ask a running swpd find it at a Unix socket, passed or not. Only its owner and
// its group may use the socket, and it is gone after swpd has stopped, unless it was passed.
func TestAdminIsAUnixSocket(t *testing.T) {
	t.Parallel()
	for _, passed := range []bool{false, true} {
		socket := filepath.Join(t.TempDir(), "admin.sock")
		var files []*os.File
		if passed {
			ln, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			files = append(files, fileOf(t, ln.(*net.UnixListener)))
		}
		n := prepared(t)
		m := newManaged(t, files...)
		m.configure(t, n.dir, "listeners: [{address: \"swp+tls://127.0.0.1:0\"}]\nadmin: unix:"+socket+"\n")
		cmd := m.start(t)
		if got := m.notice(t); got != servingNotice {
			t.Fatalf("%q, want %q", got, servingNotice)
		}
		info, err := os.Stat(socket)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); !passed && mode != 0o660 {
			t.Errorf("mode %o, want 660", mode)
		}
		swpd := m.bin + "/swpd"
		if out := run(t, swpd, "status", "--admin", "unix:"+socket); !strings.Contains(out, "ready") {
			t.Errorf("swpd status:\n%s", out)
		}
		run(t, swpd, "reload", "--config", m.file)
		if out := run(t, swpd, "backup", "--config", m.file, filepath.Join(t.TempDir(), "backup")); !strings.Contains(out, "SHA-256") {
			t.Errorf("swpd backup:\n%s", out)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := ended(t, cmd); err != nil {
			t.Errorf("%v; the log:\n%s", err, m.log)
		}
		if _, err := os.Stat(socket); (err == nil) != passed {
			t.Errorf("passed %v: the socket after the end: %v", passed, err)
		}
		if passed {
			continue
		}
		out, err := exec.Command(swpd, "status", "--config", m.file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "nothing listens on unix:"+socket) {
			t.Errorf("swpd status after the end: %v\n%s", err, out)
		}
	}
}
