package command

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/devpki"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"swpd": func() { os.Exit(Main("v1.2.3", os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// condition is what is wrong while a command of an operator runs.
type condition string

const (
	nothing condition = "nothing is wrong"
	noPath  condition = "PATH is empty"
	missing condition = "files that sections name are missing"
	expired condition = "the certificate has expired"
	inUse   condition = "another process has the store open, and no swpd can be asked"
	stopped condition = "swpd is stopped"
)

// operated is a command line in the directory of a configuration.
type operated struct {
	args  string
	asks  bool                 // the running swpd; else none runs if nothing is wrong
	fails map[condition]string // the pattern of the error; a command without one works
}

const (
	silent   = `^swpd: nothing listens on unix:\S+/admin\.sock: swpd does not run, or with another configuration \(--config\) or address \(--admin\)$`
	locked   = `data: the store in \S+ is in use by another process, perhaps another swpd; stop that one or name another directory`
	renewIt  = `identity\.cert: \S+server\.crt is valid from \S+ to \S+, and now is \S+; renew it`
	farGone  = `swpd\.yaml:[0-9]+: partners\.far\.trust\[0\]: \S+far\.pem does not exist; make it, or name another one`
	cardGone = `swpd\.yaml:[0-9]+: agdisc\.cards\.card\.file: \S+card\.json does not exist; make it, or name another one`
	noTool   = `swpd\.yaml:[0-9]+: mcp\.servers\.files\.command: "only-in-the-path-of-swpd" is in no directory of PATH, which is "" here; install it, or name its path`
)

// asking is a command that asks the running swpd, and needs nothing but the way to it. refusal is the pattern of its
// answer; empty: it works.
func asking(args, refusal string) operated {
	fails := map[condition]string{inUse: silent, stopped: silent}
	if refusal != "" {
		for _, c := range []condition{nothing, noPath, missing, expired} {
			fails[c] = refusal
		}
	}
	return operated{args, true, fails}
}

// operations has a line for each command, in an order in which none destroys what the next ones read.
func operations(fingerprint string) []operated {
	fails := func(pairs ...string) map[condition]string {
		m := make(map[condition]string)
		for i := 0; i < len(pairs); i += 2 {
			m[condition(pairs[i])] = pairs[i+1]
		}
		return m
	}
	always := func(pattern string) map[condition]string {
		m := make(map[condition]string)
		for _, c := range []condition{nothing, noPath, missing, expired, inUse, stopped} {
			m[c] = pattern
		}
		return m
	}
	const (
		who  = "spiffe://here.example/client"
		conf = " --config swpd.yaml"
	)
	serving := fails(string(noPath), noTool, string(missing), cardGone, string(expired), renewIt)
	reload := asking("reload"+conf, "")
	reload.fails[missing], reload.fails[expired] = cardGone, renewIt
	resume := operated{args: "partner resume beta" + conf, asks: true, fails: fails(string(missing), cardGone)} // swpd does not take up the file
	list := []operated{
		{args: "schema"},
		{args: "check" + conf, fails: serving},
		{args: "check --data" + conf, fails: fails(string(noPath), noTool, string(missing), cardGone, string(expired), renewIt, string(inUse), locked)},
		{args: "check --as " + who + conf},
		{args: "check --as " + who + " --may mcp tools/call files/read" + conf},
		{args: "check --as " + who + " --may rpc call far/find" + conf},
		{args: `explain {"msg":"denied","peer":"spiffe://other.example/x","profile":"rpc","operation":"call","name":"far/x"}` + conf},
		asking("status"+conf, ""),
		asking("page"+conf, ""),
		asking("cert show --running"+conf, ""),
		{args: "cert show" + conf, fails: fails(string(missing), `far\.pem: does not exist; make it`, string(expired), `server\.crt: ended at `)},
		{args: "cert show pki/ca.crt"},
		{args: "cert bundle" + conf, fails: fails(string(expired), renewIt)},
		{args: "cert new --name spiffe://here.example/more --pki pki --dir more"},
		{args: "audit verify" + conf},
		{args: "audit verify-sdl" + conf},
		{args: "audit find" + conf},
		{args: "audit tail" + conf},
		{args: "audit export --to exported" + conf},
		{args: "audit prove 1" + conf, fails: always("record 1 is not an exchange")},
		{args: "store export --to exported.swp" + conf, fails: fails(string(inUse), locked)},
		{args: "store digest" + conf, fails: fails(string(inUse), locked)},
		{args: "store copy --from swpd.yaml --to copied.yaml", fails: fails(string(inUse), locked)},
		{args: "store import --config imported.yaml store.swp"},
		{args: "restore --config restored.yaml saved"},
		{args: "backup saved-again" + conf, asks: true, fails: fails(string(inUse), locked)},
		{args: "partner list" + conf},
		asking("partner pin far"+conf, "the tools of this partner cannot be read now: swpd status shows its link"),
		{args: "partner invite delta --offer mcp:files --out delta.invitation" + conf, fails: fails(string(expired), renewIt)},
		{args: "partner invite eta --identity spiffe://eta.example/swpd --out eta.invitation" + conf, fails: fails(string(missing), farGone, string(expired), renewIt)},
		{args: "partner accept their.invitation --yes --fingerprint " + fingerprint + conf, asks: true, fails: fails(string(missing), farGone, string(expired), renewIt)},
		{args: "partner suspend acme" + conf, asks: true},
		resume,
		{args: "partner revoke gamma" + conf, asks: true},
		{args: "init --dir made --name spiffe://made.example/swpd --listen 127.0.0.1:17999 --admin off --partner neighbour", fails: fails(string(missing), farGone, string(expired), renewIt)},
		reload,
		{args: "cert renew pki"},
	}
	for _, kind := range daemon.StoredKinds() {
		list = append(list, asking("store "+kind.Name+conf, ""))
		for _, action := range kind.Actions {
			_, verb, _ := strings.Cut(action.Name, ".")
			args := "store " + kind.Name + " " + verb + " " + who + " 31" + conf
			if action.Final {
				args += " --yes"
			}
			list = append(list, asking(args, "there is no such|no consumer has the delivery"))
		}
	}
	return list
}

// served are commands that need everything.
var served = []string{"swpd run"}

func TestEveryCommandOfAnOperatorHasARow(t *testing.T) {
	rows := make(map[string]bool)
	root := newRoot("test")
	for _, o := range operations("") {
		cmd, _, err := root.Find(words(o.args))
		if err != nil {
			t.Fatal(err)
		}
		rows[cmd.CommandPath()] = true
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if at := cmd.CommandPath(); cmd.Runnable() && !rows[at] && !slices.Contains(served, at) {
			t.Errorf("%s has no row in operations", at)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// words are those of a command line, of which one may be a line of the log.
func words(args string) []string { return strings.Fields(args) }

// bare are texts of the system, which say neither what is concerned nor what to do.
var bare = regexp.MustCompile(`no such file or directory|executable file not found|connection refused|dial (unix|tcp)|permission denied|panic`)

// A command fails if something is wrong that it needs, and says what and what to do. Else it works.
func TestCommandsNeedOnlyWhatTheyUse(t *testing.T) {
	swpd, err := exec.LookPath("swpd")
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	fingerprint := furnish(t, swpd, base)
	for _, c := range []condition{nothing, noPath, missing, expired, inUse, stopped} {
		for _, asks := range []bool{true, false} {
			if asks && c == stopped {
				continue // none is asked
			}
			running := asks || c == inUse
			if !asks && c == inUse {
				continue
			}
			t.Run(map[bool]string{true: "running: ", false: "not running: "}[running]+string(c), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "d")
				if text, err := exec.Command("cp", "-a", base, dir).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				move(t, dir)
				switch {
				case c == inUse:
					serve(t, swpd, dir, "busy.yaml")
				case running:
					serve(t, swpd, dir, "swpd.yaml")
				}
				spoil(t, c)
				var waiting sync.WaitGroup // for the store: whoever has it open may be about to end
				defer waiting.Wait()
				for _, o := range operations(fingerprint) {
					switch {
					case c != inUse && c != stopped && o.asks != asks:
					case o.fails[c] == locked:
						waiting.Go(func() { o.judge(t, c) })
					default:
						o.judge(t, c)
					}
				}
			})
		}
	}
}

func (o *operated) judge(t *testing.T, c condition) {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main("v1.2.3", words(o.args), &out, &errs)
	var said []string
	for line := range strings.Lines(errs.String()) {
		if !strings.HasPrefix(line, "swpd: warning: ") {
			said = append(said, line)
		}
	}
	text, want := strings.TrimSuffix(strings.Join(said, ""), "\n"), o.fails[c]
	switch {
	case want == "" && code != cli.ExitOK:
		t.Errorf("swpd %s: exit code %d: %s%s", o.args, code, out.String(), errs.String())
	case want != "" && (code == cli.ExitOK || !regexp.MustCompile("(?m)"+want).MatchString(text)):
		t.Errorf("swpd %s: exit code %d, want the error %s: %s%s", o.args, code, want, out.String(), errs.String())
	}
	if found := bare.FindString(out.String() + errs.String()); found != "" {
		t.Errorf("swpd %s says %q: %s%s", o.args, found, out.String(), errs.String())
	}
}

// move makes a directory the current one, with the PATH of swpd, and no configuration from the environment.
func move(t *testing.T, dir string) {
	t.Helper()
	t.Chdir(dir)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("HOME", dir)
	t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "xdg"))
	t.Setenv("SWPD_CONFIG", "")
}

// spoil makes a condition in the current directory.
func spoil(t *testing.T, c condition) {
	t.Helper()
	for _, dir := range []string{".", "neighbour"} {
		switch c {
		case missing:
			if err := os.RemoveAll(filepath.Join(dir, "side")); err != nil {
				t.Fatal(err)
			}
		case expired:
			pki := filepath.Join(dir, "pki")
			authority, err := devpki.Open(pki)
			if err == nil {
				_, err = authority.Renew(devpki.Server(pki), false, 24*time.Hour, time.Now().AddDate(0, -1, 0))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if c == noPath {
		t.Setenv("PATH", "")
	}
}

const operatedYAML = `identity: {cert: pki/server.crt, key: pki/server.key}
trust: {ca: [pki/ca.crt]}
listeners:
  - address: swp+tls://127.0.0.1:0
admin: 127.0.0.1:0
data: data
access:
  rules:
    - {identity: "spiffe://here.example/**"}
mcp:
  servers:
    files: {command: only-in-the-path-of-swpd}
    web: {url: "http://127.0.0.1:1/", headers_from: {X-Key: side/web.key}}
a2a:
  workers:
    plan: {kinds: [plan], url: "http://127.0.0.1:1/", schema: side/plan.json}
agdisc:
  cards:
    card: {file: side/card.json}
partners:
  far: {identity: spiffe://far.example/swpd, trust: [side/far.pem]}
`

// furnish makes the directories of two configurations, a backup of the first, and an invitation of which it returns the
// fingerprint. A swpd has run with the first.
func furnish(t *testing.T, swpd, dir string) (fingerprint string) {
	t.Helper()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	authority := func(at, name string) {
		t.Helper()
		if err := devpki.Create(at, devpki.Options{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	far := filepath.Join(t.TempDir(), "pki")
	authority(far, "spiffe://far.example/swpd")
	anchor, err := os.ReadFile(filepath.Join(far, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]string{"here": dir, "neighbour": filepath.Join(dir, "neighbour")} {
		authority(filepath.Join(at, "pki"), "spiffe://"+name+".example/swpd")
		write(filepath.Join(at, "swpd.yaml"), operatedYAML, 0o600)
		write(filepath.Join(at, "side", "web.key"), "key", 0o600)
		write(filepath.Join(at, "side", "plan.json"), `{"type":"object"}`, 0o600)
		write(filepath.Join(at, "side", "card.json"), `{"name":"card"}`, 0o600)
		write(filepath.Join(at, "side", "far.pem"), string(anchor), 0o600)
	}
	for name, change := range map[string][2]string{
		"busy": {"admin: 127.0.0.1:0", "admin: off"}, "imported": {"data: data", "data: imported"},
		"restored": {"data: data", "data: restored"}, "copied": {"data: data", "data: copied"},
	} {
		write(filepath.Join(dir, name+".yaml"), strings.Replace(operatedYAML, change[0], change[1], 1), 0o600)
	}
	for name, state := range map[string]string{"acme": "active", "beta": "suspended", "gamma": "active"} {
		write(filepath.Join(dir, "partners.d", name+".yaml"), "identity: spiffe://"+name+".example/swpd\nstate: "+state+"\n", 0o600)
	}
	write(filepath.Join(dir, "bin", "only-in-the-path-of-swpd"), "#!/bin/sh\n", 0o700)
	there := filepath.Join(t.TempDir(), "there")
	authority(filepath.Join(there, "pki"), "spiffe://there.example/swpd")
	write(filepath.Join(there, "swpd.yaml"), "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\nlisteners: [{address: \"swp+tls://there.example:7777\"}]\n", 0o600)
	move(t, dir)
	serve(t, swpd, dir, "swpd.yaml")()
	run := func(args string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main("v1.2.3", words(args), &out, &errs); code != cli.ExitOK {
			t.Fatalf("swpd %s: exit code %d: %s%s", args, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	run("store export --to store.swp --config swpd.yaml")
	run("backup saved --config swpd.yaml")
	told := run("partner invite here --offer rpc:find --out their.invitation --config " + filepath.Join(there, "swpd.yaml"))
	return regexp.MustCompile("[0-9a-f]{64}").FindString(told)
}

// serve runs swpd in a directory, and returns when it serves. It is stopped at the end of the test, or earlier.
func serve(t *testing.T, swpd, dir, file string) (stop func()) {
	t.Helper()
	short, err := os.MkdirTemp("", "swpd") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(short, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(swpd, "run", "--config", file)
	var log bytes.Buffer
	cmd.Dir, cmd.Stderr, cmd.Env = dir, &log, append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(short, "notify"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = manager.Close() // nothing comes any more
	}()
	done := false
	stop = func() {
		t.Helper()
		if done {
			return
		}
		done = true
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("swpd run: %v\n%s", err, log.String())
		}
	}
	t.Cleanup(stop)
	if err := manager.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, err := manager.Read(buf)
		if err != nil {
			t.Fatalf("swpd run does not serve: %v", err)
		}
		if bytes.Contains(buf[:n], []byte("READY=1")) {
			return stop
		}
	}
}
