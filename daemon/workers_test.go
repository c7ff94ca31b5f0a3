package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/a2a"
)

// workerYAML configures a shell script as a worker.
func workerYAML(script, more string) string {
	return fmt.Sprintf("a2a: {workers: {one: {kinds: [k, k2], command: sh, args: [-c, %q], env: {KEY: canary-of-the-environment}%s}}}\n", script, more)
}

// hand sends a task and returns the messages of its Events and its Result.
func (s *session) hand(t *testing.T, task *a2a.Task, opts a2a.SendOptions) (messages []string, result *a2a.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := s.tasks.Send(ctx, s.Session, task, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for {
		event, err := d.Recv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return messages, d.Result()
		case err != nil:
			t.Fatal(err)
		case event.Message != "accepted":
			messages = append(messages, event.Message+string(event.Payload))
		}
	}
}

func TestWorkersCarryOutTasksAndAreCounted(t *testing.T) {
	t.Parallel()
	r := start(t, workerYAML(`echo "$SWP_TASK_KIND $KEY"; cat; test $SWP_TASK_KIND = k`, ""))
	for i, address := range r.addrs {
		s := r.mustDial(address)
		input := "canary of the input"
		messages, result := s.hand(t, &a2a.Task{Kind: "k", Input: []byte(input)}, a2a.SendOptions{})
		if strings.Join(messages, "|") != "k canary-of-the-environment|"+input || !result.OK || len(result.Output) > 0 {
			t.Errorf("%s: %q, %+v", address, messages, result)
		}
		if _, result = s.hand(t, &a2a.Task{Kind: "k2"}, a2a.SendOptions{}); result.OK || !strings.Contains(result.Reason, "exit status 1") {
			t.Errorf("%s: %+v", address, result)
		}
		for outcome, want := range map[string]int{"done": i + 1, "failed": i + 1, "stopped": 0} {
			r.counts(`swpd_a2a_runs_total{outcome="`+outcome+`",worker="one"}`, strconv.Itoa(want))
		}
	}
	for _, gauge := range []string{"swpd_a2a_tasks", `swpd_a2a_running{worker="one"}`} {
		r.counts(gauge, "0")
	}
	r.end()
	if log := r.log.String(); strings.Contains(log, "canary") || !strings.Contains(log, `"worker":"one"`) {
		t.Errorf("the log says\n%s", log)
	}
}

func TestOP02URLOfAWorkerThatCannotBeReachedStaysHere(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	r := start(t, fmt.Sprintf("a2a: {workers: {web: {kinds: k, url: %s/x}}}\n", web.URL))
	_, result := r.mustDial(r.addrs[0]).hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
	if result.OK || result.Reason != "the worker cannot be reached" {
		t.Errorf("%+v", result)
	}
	r.await(strings.TrimPrefix(web.URL, "http://")) // the operator is told
}

func TestInputsAreHeldAgainstTheSchemaOfTheirWorker(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "schema.json")
	if err := os.WriteFile(file, []byte(`{"required":["n"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, workerYAML(`cat`, ", schema: "+file))
	s := r.mustDial(r.addrs[0])
	if _, result := s.hand(t, &a2a.Task{Kind: "k2", Input: []byte(`{"n":1}`)}, a2a.SendOptions{}); !result.OK {
		t.Errorf("%+v", result)
	}
	_, result := s.hand(t, &a2a.Task{Kind: "k", Input: []byte(`{}`)}, a2a.SendOptions{})
	if want := `the input breaks the rule "required" of its schema at ""`; result.OK || !strings.Contains(result.Reason, want) {
		t.Errorf("%+v, want %s", result, want)
	}
	r.counts(`swpd_a2a_runs_total{outcome="done",worker="one"}`, "1")
}

func TestOP03StuckWorkerDoesNotHoldUpAStopAndItsTaskHasFailed(t *testing.T) {
	t.Parallel()
	r := start(t, workerYAML(`trap "" TERM; echo $$; while :; do sleep 1000; done`, ""))
	s := r.mustDial(r.addrs[0])
	task := &a2a.Task{ID: []byte("the task"), Kind: "k"}
	d, err := s.tasks.Send(t.Context(), s.Session, task, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event, err := d.Recv(t.Context())
	if err == nil && event.Message == "accepted" {
		event, err = d.Recv(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(event.Message)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took < drain {
		t.Errorf("stopped after %v", took)
	}
	if !gone(pid) {
		t.Errorf("process %d lives on", pid)
	}
	d.Close()

	// It is not run again.
	again := startIn(t, r.dir, workerYAML(`echo again`, ""))
	messages, result := again.mustDial(again.addrs[1]).hand(t, task, a2a.SendOptions{Resume: true, After: event.Seq})
	if len(messages) > 0 || result.OK || result.Reason != "interrupted by a restart" {
		t.Errorf("%q, %+v", messages, result)
	}
}
