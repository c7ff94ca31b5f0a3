//go:build unix

package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/store"
)

func copied(t *testing.T, from, to *config.Config) (Copied, error) {
	t.Helper()
	return (&Copy{From: from, To: to, Log: t.Output()}).Run(t.Context())
}

// wantDigest expects a digest of a store.
func wantDigest(t *testing.T, c *config.Config, want string) {
	t.Helper()
	d, err := (&Transfer{Config: c, Log: t.Output()}).Digest(t.Context())
	if err != nil || d.Digest != want {
		t.Errorf("the digest of %s is %q, %v, want %q; parts %+v", c.Store, d.Digest, err, want, d.Parts)
	}
}

func TestACopyToPostgreSQLAndBackHasTheDigestOfItsSource(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	first, node := configOf(t, data), place(t)
	steps, verified := 0, 0
	c := &Copy{From: first, To: node("a"), Log: t.Output(), Progress: func(Transferred) { steps++ }, Verifying: func(Transferred) { verified++ }}
	there, err := c.Run(t.Context())
	want := Transferred{Records: 1, Logs: 1, Entries: 1, Items: 1, Artifacts: 2, Bytes: there.Bytes, Data: node("a").Store}
	if err != nil || there.Transferred != want || there.From != data || steps < 8 || verified != steps {
		t.Fatalf("%+v, %v; %d pieces were copied and %d verified", there, err, steps, verified)
	}
	back := configOf(t, filepath.Join(t.TempDir(), "back"))
	again, err := copied(t, node("b"), back)
	if err != nil || again.Digest != there.Digest || len(there.Digest) != 64 {
		t.Errorf("back: %+v, %v, want the digest %s", again, err, there.Digest)
	}
	for _, of := range []*config.Config{first, node("c"), back} {
		wantDigest(t, of, there.Digest)
	}
	s := openIn(t, back.Data)
	told(t, func(done func(bool, error)) { s.blobs.Append("part", uint64(len(content)), 8, []byte("end"), done) })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestACopyNeedsAnEmptyStoreThatNobodyUses(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	first, node := configOf(t, data), place(t)
	wantRefused := func(what string, from, to *config.Config, kind error, text string) {
		t.Helper()
		if _, err := copied(t, from, to); err == nil || kind != nil && !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", what, err, text)
		}
	}
	wantRefused("to itself", first, configOf(t, data), nil, "both configurations have the same store")
	wantRefused("of nothing", configOf(t, t.TempDir()), node("a"), nil, "the source: data: there is no store")
	memory := configOf(t, t.TempDir())
	memory.Store = config.StoreMemory
	wantRefused("from memory", memory, node("a"), nil, "the store is in memory")
	wantRefused("to memory", first, memory, nil, "the store is in memory")

	other := place(t)
	opened, err := Open(t.Context(), Options{Config: other("active"), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	apart := func(c *config.Config) *config.Config { // with other artifacts
		c.Cluster.Artifacts = t.TempDir()
		return c
	}
	wantRefused("over artifacts", first, other("a"), store.ErrUsed, "cluster.artifacts: ")
	wantRefused("to a node", first, apart(other("a")), store.ErrLocked, "another node uses the database")
	wantRefused("from a node", other("a"), configOf(t, t.TempDir()), store.ErrLocked, "another node uses the database")
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	wantRefused("over a store", first, apart(other("a")), store.ErrUsed, "need a database without a store")
	same := apart(other("a"))
	same.Store += "&application_name=other"
	wantRefused("to itself under another name", other("b"), same, store.ErrLocked, "another node uses the database")

	running := openIn(t, data)
	wantRefused("of a store in use", first, node("a"), store.ErrLocked, "the source: data: the store in")
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := copied(t, first, node("a")); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestACopyThatIsInterruptedLeavesNoStoreToStartOn(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	first, node := configOf(t, data), place(t)
	interrupted := func(to *config.Config, at func(Transferred) bool) error {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &Copy{From: first, To: to, Log: t.Output()}
		c.Progress = func(n Transferred) {
			if at(n) {
				cancel()
			}
		}
		c.Verifying = c.Progress
		_, err := c.Run(ctx)
		return err
	}
	records := func(n Transferred) bool { return n.Records > 0 }
	artifacts := func(n Transferred) bool { return n.Artifacts > 0 }

	embedded := configOf(t, t.TempDir())
	for what, at := range map[string]func(Transferred) bool{"records": records, "artifacts": artifacts} {
		if err := interrupted(embedded, at); !errors.Is(err, context.Canceled) {
			t.Errorf("embedded, %s: %v", what, err)
		}
		wantNoStore(t, what, embedded.Data)
	}

	if err := interrupted(node("a"), records); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnfinished) {
		t.Errorf("shared, records: %v", err)
	}
	if err := interrupted(node("a"), artifacts); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "swpd does not start on it; remove the schema") {
		t.Errorf("shared, artifacts: %v", err)
	}
	_, err := Open(t.Context(), Options{Config: node("a"), Log: zap.NewNop(), Standby: func(string) {}})
	if !errors.Is(err, store.ErrUnfinished) || !strings.Contains(err.Error(), "DROP SCHEMA swp CASCADE") {
		t.Errorf("a start: %v", err)
	}
	again := node("a")
	again.Cluster.Artifacts = t.TempDir()
	if _, err := copied(t, first, again); !errors.Is(err, store.ErrUnfinished) || !strings.Contains(err.Error(), "DROP SCHEMA swp CASCADE") {
		t.Errorf("a copy over it: %v", err)
	}

	// What the message says.
	u, err := url.Parse(node("a").Store)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), u.String())
	if err == nil {
		_, err = db.Exec(t.Context(), "DROP SCHEMA swp CASCADE")
		err = errors.Join(err, db.Close(t.Context()))
	}
	left, failed := os.ReadDir(node("a").Cluster.Artifacts)
	for _, e := range left {
		failed = errors.Join(failed, os.RemoveAll(filepath.Join(node("a").Cluster.Artifacts, e.Name())))
	}
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if _, err := copied(t, first, node("a")); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// Variables of a process that copies a store until it is killed.
const (
	copyAt   = "TEST_COPY_AT" // "records" or "artifacts": what it copies then
	copyFrom = "TEST_COPY_FROM"
	copyTo   = "TEST_COPY_TO"
	copyDSN  = "TEST_COPY_STORE" // empty: embedded
	copyInto = "TEST_COPY_ARTIFACTS"
)

// copyUntil is the main function of that process. It says when it has come to at.
func copyUntil(at string) int {
	load := func(data string) *config.Config {
		c, err := config.Load("", []string{"SWPD_DATA=" + os.Getenv(data), "SWPD_DURABILITY=process", "HOME=/"})
		if err != nil {
			panic(err)
		}
		return c
	}
	c := &Copy{From: load(copyFrom), To: load(copyTo), Log: os.Stderr}
	if dsn := os.Getenv(copyDSN); dsn != "" {
		c.To.Store, c.To.Cluster.Node, c.To.Cluster.Artifacts = dsn, "copy", os.Getenv(copyInto)
	}
	c.Progress = func(n Transferred) {
		if at == "records" && n.Records > 0 || n.Artifacts > 0 {
			fmt.Println(at)
			select {}
		}
	}
	_, err := c.Run(context.Background())
	fmt.Println("it was not killed:", err)
	return 1
}

// killCopy copies a store in another process, which is killed.
func killCopy(t *testing.T, at string, from, to *config.Config) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), copyAt+"="+at, copyFrom+"="+from.Data, copyTo+"="+to.Data)
	if to.Clustered() {
		cmd.Env = append(cmd.Env, copyDSN+"="+to.Store, copyInto+"="+to.Cluster.Artifacts)
	}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != at+"\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
}

func TestACopyThatIsKilledLeavesNoStoreToStartOn(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	first := configOf(t, data)
	for _, at := range []string{"records", "artifacts"} {
		t.Run(at, func(t *testing.T) {
			to := configOf(t, t.TempDir())
			killCopy(t, at, first, to)
			staging := filepath.Join(to.Data, dirStaging)
			_, started := Open(t.Context(), Options{Config: to, Log: zap.NewNop()})
			_, again := copied(t, first, to)
			for what, err := range map[string]error{"a start": started, "another copy": again} {
				if err == nil || !strings.Contains(err.Error(), "remove "+staging) {
					t.Errorf("embedded, %s: %v", what, err)
				}
			}
			if err := os.RemoveAll(staging); err != nil {
				t.Fatal(err)
			}
			if _, err := copied(t, first, to); err != nil {
				t.Errorf("embedded, after that: %v", err)
			}

			node := place(t)
			killCopy(t, at, first, node("a"))
			var err error
			for {
				// The server may not have noticed yet that the process is gone.
				if _, err = Open(t.Context(), Options{Config: node("a"), Log: zap.NewNop()}); !errors.Is(err, store.ErrLocked) {
					break
				}
			}
			if !errors.Is(err, store.ErrUnfinished) {
				t.Errorf("shared, a start: %v", err)
			}
		})
	}
}

func TestACopyThatDiffersIsNamed(t *testing.T) {
	exports := make([]*Transfer, 0, 3)
	for _, key := range []string{"a", "a", "b"} {
		data := t.TempDir()
		filled(t, data)
		s := openIn(t, data)
		told(t, func(done func(bool, error)) {
			s.Put("another space", key, 0, "owner", nil, time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
		})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		x := transfer(t, data)
		if _, err := x.Digest(t.Context()); err != nil {
			t.Fatal(err)
		}
		exports = append(exports, x)
	}
	if err := exports[0].equals(exports[2]); err == nil || !strings.Contains(err.Error(), "in store: records of another space (1 and 1 pieces)") {
		t.Errorf("another record: %v", err)
	}
	exports[1].starts[0].Items = 0
	if err := exports[0].equals(exports[1]); err == nil || !strings.Contains(err.Error(), "its counters are") {
		t.Errorf("a counter that went back: %v", err)
	}
}
