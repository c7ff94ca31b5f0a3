package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

func TestAPartnerThatCapturesLocalNamesIsReported(t *testing.T) {
	t.Parallel()
	b := open(t, "b", "")
	a := open(t, "a", withCard(t)+"a2a: {workers: {one: {kinds: [b/report, report], command: cat}}}\n")
	s := a.mustDial(a.addrs[0])
	for i, topic := range []string{"b/t", "t", "bb/t", "b/u"} {
		if _, err := relay.Send(t.Context(), s.Session, &relay.Publication{ID: fmt.Append(nil, i), Topic: topic}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 101 {
		octets, sum := octetsOf(1)
		u := artifact.Upload{ArtifactID: fmt.Sprintf("b/%03d", i), Size: 1, Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
		if err := u.Send(t.Context(), s.Session); err != nil {
			t.Fatal(err)
		}
	}
	if err := publishes(t, s.Session, record("1", "b/k", "x"), record("2", "k", "x"), record("3", "b/k", "x"), record("4", "bb/k", "x")); err != nil {
		t.Fatal(err)
	}
	a.agent("b/worker", func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) { return nil, nil }, "k")
	want := []string{
		`partners.b captures local names`, `kind of a2a.workers (1): \"b/report\"`, `relay topic (2): \"b/t\", \"b/u\"`,
		`artifact_id (100): \"b/000\", \"b/001\", \"b/002\"`,
		`event_type of a stored event (1): \"b/k\"`,
	}
	reported := func() {
		t.Helper()
		a.await("captures local names")
		_, health := a.get("/readyz?verbose")
		_, status := a.get("/status")
		for _, text := range want {
			if !strings.Contains(a.log.String(), text) {
				t.Errorf("the log does not have %s", text)
			}
			if plain := strings.ReplaceAll(text, `\"`, `"`); !strings.Contains(health+status, plain) && !strings.Contains(health+status, text) {
				t.Errorf("neither readyz nor the status has %s: %s", plain, health)
			}
		}
	}
	a.trusting("b", b, b.addrs[0])
	reported()
	checked(t, a, []string{"stored names were not compared with those of partners: swpd uses "})
	var stored map[string]map[string][]string
	if _, body := a.get("/names?prefix=b/&prefix=none/"); json.Unmarshal([]byte(body), &stored) != nil || len(stored) != 2 || len(stored["none/"]["artifact_id"]) != 0 || !slices.Contains(stored["b/"]["relay topic"], "b/u") {
		t.Errorf("stored names: %s", body)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	want = append(want, `agent_id of a connected agent (1): \"b/worker\"`) // is stored when it was declared, at the latest by the end
	checked(t, a, want)
	a.again()
	reported()
	a.rewrite("\npartners:\n  b: {", "\npartners:\n  other: {")
	a.reloaded()
	if _, health := a.get("/readyz?verbose"); strings.Contains(health, "captures local names") {
		t.Errorf("after the partner has another name: %s", health)
	}
}

// checked wants the same of check, which changes nothing.
func checked(t *testing.T, o *organisation, want []string) {
	t.Helper()
	before := filesOf(t, filepath.Join(o.dir, "data"))
	c, err := config.Load(filepath.Join(o.dir, "swpd.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := check.Read(c)
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(plan.Warnings, "\n")
	for _, text := range want {
		if plain := strings.ReplaceAll(text, `\"`, `"`); !strings.Contains(warnings, plain) {
			t.Errorf("check does not warn of %s: %s", plain, warnings)
		}
	}
	if _, err := os.Stat(filepath.Join(o.dir, "data", "store", "state.db-wal")); err == nil {
		return // swpd is running, and writes
	}
	after := filesOf(t, filepath.Join(o.dir, "data"))
	for file, sum := range after {
		if before[file] != sum {
			t.Errorf("check has changed %s", file)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d files before, then %d", len(before), len(after))
	}
}

// filesOf are the files below a directory, with their digests.
func filesOf(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	files := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() { // such as the socket for commands
			return err
		}
		octets, err := os.ReadFile(path)
		files[path] = sha256.Sum256(octets)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
