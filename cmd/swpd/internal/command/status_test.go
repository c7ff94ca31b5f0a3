package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/daemon"
)

func TestANodeThatStandsByIsNotAskedToAct(t *testing.T) {
	file := filepath.Join(t.TempDir(), "swpd.yaml")
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	swpd := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" {
			t.Error(r.URL.Path, "was asked for")
		}
		_ = json.NewEncoder(w).Encode(daemon.Status{Config: file, Cluster: &daemon.ClusterStatus{Node: "b", Active: "b", Stands: true}})
	}))
	_ = swpd.Listener.Close()
	swpd.Listener = ln
	swpd.Start()
	defer swpd.Close()
	if err := os.WriteFile(file, []byte("admin: unix:"+socket+"\ndata: "+t.TempDir()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"reload", "backup " + t.TempDir(), "store topics", "store dead retry x 31"} {
		var out, errs bytes.Buffer
		code := Main("v1", append(strings.Fields(line), "--config", file), &out, &errs)
		if want := "swpd: node b stands by; ask the active node (b)\n"; code != 1 || out.Len() > 0 || errs.String() != want {
			t.Errorf("%s: exit status %d, %q, %q, want 1 and %q", line, code, out.String(), errs.String(), want)
		}
	}
}

func TestFollowingGoesOnWhenSwpdDoesNotAnswer(t *testing.T) {
	for clear, want := range map[bool][2]string{
		true:  {"\x1b[H\x1b[2J1\n\x1b[H\x1b[2Jswpd: no answer\n\x1b[H\x1b[2J3\n", ""},
		false: {"1\n3\n", "swpd: no answer\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*watchEvery+time.Millisecond)
			defer cancel()
			asked := 0
			var out, errs bytes.Buffer
			err := follow(ctx, &out, &errs, clear, func(w io.Writer) error {
				if asked++; asked == 2 {
					return errors.New("no answer")
				}
				_, err := fmt.Fprintln(w, asked)
				return err
			})
			if err != nil || out.String() != want[0] || errs.String() != want[1] {
				t.Errorf("clear %v: %q and %q, %v; want %q", clear, out.String(), errs.String(), err, want)
			}
		})
	}
}

func TestStatusOfANameSaysWhatIsKnownOfIt(t *testing.T) {
	now := time.Date(2026, 11, 29, 3, 3, 11, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(-d) }
	bad := daemon.Behind{Kind: "server", Name: "files", State: "failing", Since: at(time.Hour), Failures: 12, Remedy: "mend it"}
	if err := json.Unmarshal([]byte(`{"at":"2026-11-29T03:02:11Z","text":"its process ended: exit status 1","output":["one","FATAL: \u001b no"]}`), &bad.LastError); err != nil {
		t.Fatal(err)
	}
	s := &daemon.Status{Behind: []daemon.Behind{bad, {Kind: "worker", Name: "brief", State: "ok", Since: at(time.Minute), LastSuccess: at(time.Second)}}}
	var out bytes.Buffer
	if err := printBehind(&out, &bad, now); err != nil {
		t.Fatal(err)
	}
	want := `MCP server    files
state         failing since 2026-11-29T02:03:11Z, 1h0m0s ago
last success  none is known
last error    2026-11-29T03:02:11Z, 1m0s ago
              its process ended: exit status 1
it said       one
              FATAL: \x1b no
failures      12 in the last 24 hours
do            mend it
`
	if got := out.String(); strings.ReplaceAll(got, `\u001b`, `\x1b`) != want {
		t.Errorf("%s, want %s", got, want)
	}
	var exit *exitError
	if err := describe(&out, s, "files", false, false); !errors.As(err, &exit) || exit.code != exitUnwell || err.Error() != "mcp server files is failing" {
		t.Errorf("%v", err)
	}
	if err := describe(&out, s, "brief", false, false); err != nil {
		t.Error(err)
	}
	if err := describe(&out, s, "file", false, false); err == nil || err.Error() != `nothing behind this swpd is called "file"; did you mean files?` {
		t.Errorf("%v", err)
	}
	out.Reset()
	_ = describe(&out, s, "files", true, false)
	var list []daemon.Behind
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list) != 1 || list[0].LastError == nil {
		t.Errorf("%s, %v", out.String(), err)
	}
	out.Reset()
	if err := printStatus(&out, s); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "\nMCP server   files: failing since 2026-11-29T02:03:11Z: its process ended: exit status 1: FATAL") || strings.Contains(got, "brief") {
		t.Errorf("the status is %s", got)
	}
}
