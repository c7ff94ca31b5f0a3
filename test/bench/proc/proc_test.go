package proc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/test/bench/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		_ = proc.Answer(os.Stdin, os.Stdout, proc.Ops{
			"double": func(raw json.RawMessage) (any, error) {
				var n int
				err := json.Unmarshal(raw, &n)
				return 2 * n, err
			},
			"fail": func(json.RawMessage) (any, error) { return nil, errors.New("as asked") },
		})
		return
	}
	os.Exit(m.Run())
}

func TestChildAnswersAndEndsWithItsInput(t *testing.T) {
	c, err := proc.Start(t.Context(), "child")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := c.Do("double", 21, &n); err != nil || n != 42 {
		t.Errorf("double: %d, %v", n, err)
	}
	if err := c.Do("fail", nil, nil); err == nil || !strings.Contains(err.Error(), "as asked") {
		t.Errorf("fail: %v", err)
	}
	if err := c.Do("unheard of", nil, nil); err == nil {
		t.Error("an unknown command has no error")
	}
	if err := c.Do("double", 4, &n); err != nil || n != 8 {
		t.Errorf("after failures: %d, %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := c.Do("double", 1, &n); err == nil {
		t.Error("a closed child answers")
	}
}

func TestAnswerStopsAtWhatIsNoCommand(t *testing.T) {
	if err := proc.Answer(strings.NewReader("lunch"), new(bytes.Buffer), nil); err == nil {
		t.Error("no error")
	}
}

func TestOwnUsageIsPlausible(t *testing.T) {
	rss, err := proc.Resident(os.Getpid())
	if err != nil || rss < 1<<20 || rss > 1<<40 {
		t.Errorf("resident: %d octets, %v", rss, err)
	}
	cpu, err := proc.CPU(os.Getpid())
	if err != nil || cpu < 0 || cpu > 24*time.Hour {
		t.Errorf("processor time: %v, %v", cpu, err)
	}
	if _, err := proc.Resident(-1); err == nil {
		t.Error("no error for a process that is not there")
	}
}
