package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is a swp-client that runs.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of standard output; closed at its end
	said  chan string // of standard error; closed at its end
	errs  bytes.Buffer
	ended chan error
	gone  bool
}

// begin starts a swp-client, and kills it at the end of the test if it is still there.
func (n *node) begin(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: n.client(args...), lines: make(chan string, 1000), said: make(chan string, 1000), ended: make(chan error, 1)}
	p.cmd.Env = append(p.cmd.Env, "DIR="+n.dir)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{}, 2)
	pass := func(r io.Reader, to chan<- string, also io.Writer) {
		scan := bufio.NewScanner(r)
		for scan.Scan() {
			_, _ = fmt.Fprintln(also, scan.Text())
			to <- scan.Text()
		}
		close(to)
		read <- struct{}{}
	}
	go pass(out, p.lines, io.Discard)
	go pass(errs, p.said, &p.errs)
	go func() {
		<-read
		<-read
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		if !p.gone {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
		if t.Failed() {
			t.Logf("swp-client %s said:\n%s", strings.Join(args, " "), p.errs.String())
		}
	})
	return p
}

const patience = 5 * time.Minute

// read returns the next n lines of standard output.
func (p *program) read(n int) []string {
	p.t.Helper()
	return receive(p.t, p.lines, n)
}

func receive(t *testing.T, from <-chan string, n int) (lines []string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for len(lines) < n {
		select {
		case line, ok := <-from:
			if !ok {
				t.Fatalf("it ended after %q, want %d lines", lines, n)
			}
			lines = append(lines, line)
		case <-timer.C:
			t.Fatalf("nothing came after %q, want %d lines", lines, n)
		}
	}
	return lines
}

// hears waits for a line of standard error that contains a text.
func (p *program) hears(text string) string {
	p.t.Helper()
	for {
		if line := receive(p.t, p.said, 1)[0]; strings.Contains(line, text) {
			return line
		}
	}
}

// task returns the id of the task, which send says first.
func (p *program) task() string {
	p.t.Helper()
	return strings.TrimPrefix(p.hears("task "), "task ")
}

// wait waits for the end and returns the rest of the lines and the exit code.
func (p *program) wait() (lines []string, code int) {
	p.t.Helper()
	for line := range p.lines {
		lines = append(lines, line)
	}
	for range p.said { // all of it is in errs then
	}
	err := <-p.ended
	p.gone = true
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return lines, p.cmd.ProcessState.ExitCode()
}

func (p *program) kill(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines %q, want %q", got, want)
	}
}

// marked waits until the journal has a number of events of a task as printed. A
// sender that is killed between the print and the mark prints that event again.
func (n *node) marked(t *testing.T, id string, events int) {
	t.Helper()
	mark := fmt.Sprintf("%020d ", events)
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		b, err := os.ReadFile(filepath.Join(n.dir, "state", "swp-client", "tasks", id+".task"))
		if err == nil && bytes.HasPrefix(b, []byte(mark)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("journal %.30q, %v; want %q", b, err, mark)
		}
	}
}

// counting is a worker that says 1 to 5, waits to be told to go on, says 6 to 10
// and gives its input back. Each time it is run it leaves a line in $DIR/runs.
const counting = `
echo run >>"$DIR/runs"
for i in 1 2 3 4 5; do echo $i; done
read go <"$DIR/gate"
for i in 6 7 8; do echo $i; done
echo '{"step": 9.0}'
echo 10
echo "{\"output\":$(cat)}"
`

// gate makes what counting waits at; open lets it go on.
func (n *node) gate(t *testing.T) (open func()) {
	t.Helper()
	name := filepath.Join(n.dir, "gate")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.WriteFile(name, []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runs returns how often counting was run.
func (n *node) runs(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "run\n")
}

// worker registers a worker that runs a shell script, and returns once it is
// connected.
func (n *node) worker(t *testing.T, addr, script string) *program {
	t.Helper()
	w := n.begin(t, "a2a", "worker", addr, "--agent", "counter", "--kind", "count", "--", "sh", "-c", script)
	w.hears("connected to")
	return w
}

var (
	firstHalf  = []string{"1", "2", "3", "4", "5"}
	secondHalf = []string{"6", "7", "8", `{"step": 9.0}`, "10", `{"in":1.50}`}
)

func overTransports(t *testing.T, f func(t *testing.T, n *node, addr string)) {
	for _, name := range []string{"tls", "quic"} {
		t.Run(name, func(t *testing.T) {
			n := configured(t, "a2a: {abandoned: 30s}\n")
			f(t, n, n.transports()[name])
		})
	}
}

func TestKilledSenderIsResumedWithExactlyTheRest(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, n *node, addr string) {
		open := n.gate(t)
		n.worker(t, addr, counting)
		send := n.begin(t, "a2a", "send", addr, "--kind", "count", "--input", `{"in":1.50}`)
		id := send.task()
		wantLines(t, send.read(5), firstHalf...)
		n.marked(t, id, 5)
		send.kill(syscall.SIGKILL)
		send.wait()

		open()
		rest, code := n.begin(t, "a2a", "resume", id).wait()
		wantLines(t, rest, secondHalf...)
		if code != 0 || n.runs(t) != 1 {
			t.Errorf("exit status %d, %d runs", code, n.runs(t))
		}
		late := n.begin(t, "a2a", "cancel", id)
		if _, code := late.wait(); code != 1 || !strings.Contains(late.errs.String(), "had ended before") {
			t.Errorf("cancel after the end: exit status %d", code)
		}
		all, code := n.begin(t, "a2a", "watch", id[:8]).wait()
		wantLines(t, all, append(firstHalf[:5:5], secondHalf...)...)
		if code != 0 || n.runs(t) != 1 {
			t.Errorf("exit status %d, %d runs", code, n.runs(t))
		}
		list, _ := n.begin(t, "a2a", "list").wait()
		if len(list) != 1 || !strings.Contains(list[0], id) || !strings.Contains(list[0], "done") || !strings.Contains(list[0], "10 events printed") {
			t.Errorf("list %q", list)
		}
	})
}

func TestTaskSurvivesTheDeathOfSwpd(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, n *node, addr string) {
		open := n.gate(t)
		n.worker(t, addr, counting)
		send := n.begin(t, "a2a", "send", addr, "--kind", "count", "--input", `{"in":1.50}`, "--timeout", "1m")
		killed := n.begin(t, "a2a", "send", addr, "--kind", "other", "--detach") // what nobody does yet is kept, too
		if _, code := killed.wait(); code != 0 {
			t.Errorf("exit status %d of a task that waits", code)
		}
		wantLines(t, send.read(5), firstHalf...)
		n.kill(t)
		n.launch(t)
		open()
		rest, code := send.wait()
		wantLines(t, rest, secondHalf...)
		if code != 0 || n.runs(t) != 1 {
			t.Errorf("exit status %d, %d runs", code, n.runs(t))
		}
	})
}

func TestSenderAndSwpdDieTogether(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, n *node, addr string) {
		open := n.gate(t)
		n.worker(t, addr, counting)
		send := n.begin(t, "a2a", "send", addr, "--kind", "count", "--input", `{"in":1.50}`)
		id := send.task()
		wantLines(t, send.read(5), firstHalf...)
		n.marked(t, id, 5)
		n.kill(t)
		send.kill(syscall.SIGKILL)
		send.wait()
		n.launch(t)
		open()
		rest, code := n.begin(t, "a2a", "resume", id, "--timeout", "1m").wait()
		wantLines(t, rest, secondHalf...)
		if code != 0 || n.runs(t) != 1 {
			t.Errorf("exit status %d, %d runs", code, n.runs(t))
		}
	})
}

func TestKilledWorkerFailsTheTaskAndItIsNotRunTwice(t *testing.T) {
	t.Parallel()
	for _, returns := range []bool{false, true} {
		t.Run(fmt.Sprintf("another comes %v", returns), func(t *testing.T) {
			n := configured(t, "a2a: {abandoned: 1s}\n")
			n.gate(t)
			w := n.worker(t, n.tls, counting)
			send := n.begin(t, "a2a", "send", n.tls, "--kind", "count", "--timeout", "1m")
			wantLines(t, send.read(5), firstHalf...)
			w.kill(syscall.SIGKILL)
			w.wait()
			if returns {
				n.worker(t, n.tls, counting)
			}
			rest, code := send.wait()
			wantLines(t, rest)
			if code != 1 || !strings.Contains(send.errs.String(), "the task has failed: the worker ") {
				t.Errorf("exit status %d", code)
			}
			if n.runs(t) != 1 {
				t.Errorf("%d runs", n.runs(t))
			}
		})
	}
}

func TestWorkerLetsItsTasksEndWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	n := configured(t, "a2a: {abandoned: 30s}\n")
	open := n.gate(t)
	w := n.worker(t, n.quic, counting)
	send := n.begin(t, "a2a", "send", n.quic, "--kind", "count", "--input", `{"in":1.50}`)
	wantLines(t, send.read(5), firstHalf...)
	w.kill(syscall.SIGINT)
	w.hears("stopping at the end of 1 task")
	open()
	rest, code := send.wait()
	wantLines(t, rest, secondHalf...)
	if _, ended := w.wait(); ended != 130 || code != 0 {
		t.Errorf("exit status %d of the worker, %d of the sender", ended, code)
	}

	// The second signal does not wait.
	w = n.worker(t, n.quic, counting)
	send = n.begin(t, "a2a", "send", n.quic, "--kind", "count")
	send.read(5)
	w.kill(syscall.SIGINT)
	w.hears("stopping at the end of 1 task")
	w.kill(syscall.SIGTERM)
	if _, ended := w.wait(); ended != 130 {
		t.Errorf("exit status %d of a worker that was interrupted twice", ended)
	}
	send.kill(syscall.SIGINT)
	send.wait()
}

func TestInterruptedSenderLeavesTheTaskAndCancelEndsIt(t *testing.T) {
	t.Parallel()
	n := configured(t, "a2a: {abandoned: 30s}\n")
	n.gate(t)
	w := n.worker(t, n.tls, `trap 'echo x >"$DIR/gate2"; exit 1' TERM; echo started; while :; do read go <"$DIR/gate"; done`)
	if err := syscall.Mkfifo(filepath.Join(n.dir, "gate2"), 0o600); err != nil {
		t.Fatal(err)
	}
	send := n.begin(t, "a2a", "send", n.tls, "--kind", "count")
	id := send.task()
	wantLines(t, send.read(1), "started")
	send.kill(syscall.SIGINT)
	rest, code := send.wait()
	wantLines(t, rest)
	if said := send.errs.String(); code != 130 || !strings.Contains(said, "a2a resume "+id) || !strings.Contains(said, "a2a cancel "+id) {
		t.Errorf("exit status %d, it said %q", code, said)
	}
	if _, code := n.begin(t, "a2a", "cancel", id).wait(); code != 0 {
		t.Errorf("exit status %d of cancel", code)
	}
	// The command is told to end.
	if _, err := os.ReadFile(filepath.Join(n.dir, "gate2")); err != nil {
		t.Error(err)
	}
	w.hears("failed")
	watch := n.begin(t, "a2a", "watch", id)
	if lines, code := watch.wait(); code != 1 || strings.Join(lines, "") != "started" || !strings.Contains(watch.errs.String(), "cancelled") {
		t.Errorf("watch: %q, exit status %d", lines, code)
	}
}

// workersYAML configures a command and a URL.
func workersYAML(dir, url string) string {
	return fmt.Sprintf(`a2a:
  deadline: 1m
  workers:
    shell:
      kinds: [shell, shell2]
      command: sh
      args: ["-c", 'echo "$SWP_TASK_KIND of $SWP_PEER, $NAME"; cat >&2; echo >&2; test "$SWP_TASK_KIND" = shell && echo "{\"output\":[$(echo $SWP_TASK_ID | wc -c)]}"']
      env: {NAME: secret-value}
      schema: %s/schema.json
    slow: {kinds: slow, command: sh, args: ["-c", "echo waiting; exec sleep 1000"], deadline: 1s}
    web: {kinds: web, url: %s}
`, dir, url)
}

func TestWorkersOfTheConfiguration(t *testing.T) {
	t.Parallel()
	type request struct{ id, kind, peer, input string }
	requests := make(chan request, 10)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		input, _ := io.ReadAll(r.Body)
		requests <- request{r.Header.Get("Swp-Task-Id"), r.Header.Get("Swp-Task-Kind"), r.Header.Get("Swp-Peer"), string(input)}
		if string(input) == "bad" {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, "no such thing")
			return
		}
		_, _ = io.WriteString(w, "chapter seven\n{\"percent\": 50.0}\n{\"output\":\"done\"}\n")
	}))
	defer web.Close()
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "schema.json"), []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	n := configured(t, workersYAML(dir, web.URL))
	n.secrets = []string{"SECRET", "secret-value", "chapter seven", "percent"} // ABUSE OP-02
	const peer = "spiffe://localhost/swp-client"
	for _, test := range []struct {
		name  string
		args  []string
		lines []string
		code  int
		said  string
	}{
		{"command", []string{"--kind", "shell", "--input", `{"n":1}`}, []string{"shell of " + peer + ", secret-value", "[33]"}, 0, ""},
		{"command that fails", []string{"--kind", "shell2", "--input", `{"n":2}`}, []string{"shell2 of " + peer + ", secret-value"}, 1, `the task has failed: {"n":2}`},
		{"input against the schema", []string{"--kind", "shell", "--input", `{"n":"SECRET"}`}, nil, 1, `the input breaks the rule "type" of its schema at "/n"`},
		{"input that is no JSON", []string{"--kind", "shell", "--input", "SECRET"}, nil, 1, "the input is not JSON after octet 0"},
		{"deadline of the worker", []string{"--kind", "slow"}, []string{"waiting"}, 1, "the task has failed: deadline exceeded"},
		{"deadline of the task", []string{"--kind", "slow", "--deadline", "500ms"}, []string{"waiting"}, 1, "the task has failed: deadline exceeded"},
		{"unknown kind", []string{"--kind", "none"}, nil, 1, "the task has failed: unsupported capability"},
		{"URL", []string{"--kind", "web", "--input", "-"}, []string{"chapter seven", `{"percent": 50.0}`, `"done"`}, 0, ""},
		{"URL that fails", []string{"--kind", "web", "--input", "bad"}, nil, 1, "the task has failed: the worker answered 422 Unprocessable Entity: no such thing"},
	} {
		for name, addr := range n.transports() {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				var send *program
				var id string
				var lines []string
				var code int
				for end := time.Now().Add(patience); ; {
					send = n.begin(t, append([]string{"a2a", "send", addr}, test.args...)...)
					id = send.task()
					if lines, code = send.wait(); len(lines) > 0 || len(test.lines) == 0 || time.Now().After(end) {
						break
					}
					// The machine was too slow for the first line before the deadline.
				}
				wantLines(t, lines, test.lines...)
				if code != test.code || !strings.Contains(send.errs.String(), test.said) || strings.Contains(send.errs.String(), "SECRET") {
					t.Errorf("exit status %d, want %d; it said %q", code, test.code, send.errs.String())
				}
				if strings.HasPrefix(test.name, "URL") {
					if r := <-requests; r.id != id || r.kind != "web" || r.peer != peer {
						t.Errorf("request %+v", r)
					}
				}
			})
		}
	}

	send := n.begin(t, "a2a", "send", n.tls, "--kind", "web", "--json")
	lines, code := send.wait()
	var types []string
	for _, line := range lines {
		var l struct {
			Type, Message   string
			Payload, Output json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		types = append(types, strings.TrimSpace(l.Type+" "+l.Message+string(l.Payload)+string(l.Output)))
	}
	wantLines(t, types, "sent", "event chapter seven", `event {"percent":50.0}`, `result "done"`)
	if code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestDetachedTaskGoesOnAndIsResumed(t *testing.T) {
	t.Parallel()
	n := configured(t, "a2a: {abandoned: 30s}\n")
	open := n.gate(t)
	n.worker(t, n.tls, counting)
	lines, code := n.begin(t, "a2a", "send", n.tls, "--kind", "count", "--input", `{"in":1.50}`, "--detach").wait()
	if code != 0 || len(lines) != 1 || len(lines[0]) != 32 {
		t.Fatalf("exit status %d, lines %q", code, lines)
	}
	open()
	all, code := n.begin(t, "a2a", "resume", n.quic, lines[0]).wait() // another transport will do
	wantLines(t, all, append(firstHalf[:5:5], secondHalf...)...)
	if code != 0 || n.runs(t) != 1 {
		t.Errorf("exit status %d, %d runs", code, n.runs(t))
	}
}

func TestStopOfSwpdGivesRunningTasksTheTimeToEnd(t *testing.T) {
	t.Parallel()
	script := `echo one; read go <gate; echo two; echo "{\"output\":3}"`
	n := configured(t, fmt.Sprintf("a2a: {workers: {sh: {kinds: count, command: sh, args: [-c, %q], dir: @DIR@}}}\n", script))
	open := n.gate(t)
	lines, code := n.begin(t, "a2a", "send", n.tls, "--kind", "count", "--detach").wait()
	if code != 0 || len(lines) != 1 {
		t.Fatalf("exit status %d, lines %q", code, lines)
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	open()
	if err := <-n.ended; err != nil {
		t.Errorf("swpd ended with %v", err)
	}
	n.launch(t)
	all, code := n.begin(t, "a2a", "resume", lines[0]).wait()
	wantLines(t, all, "one", "two", "3")
	if code != 0 {
		t.Errorf("exit status %d", code)
	}
}
