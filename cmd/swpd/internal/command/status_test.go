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
