//go:build unix

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/archive"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(copyAt); at != "" {
		os.Exit(copyUntil(at))
	}
	os.Exit(pgtest.Run(m))
}

// place returns the configuration of a node, by its name, for each of several nodes of a new database.
func place(t *testing.T) func(node string) *config.Config {
	t.Helper()
	server := pgtest.Shared(t)
	name, err := server.Name(t.Context())
	pgtest.Must(t, err)
	at := url.URL{Scheme: "postgres", Path: "/" + name, RawQuery: url.Values{"host": {server.Socket()}, "user": {"postgres"}}.Encode()}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shared"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func(node string) *config.Config {
		c := configOf(t, filepath.Join(dir, node))
		c.Store, c.Cluster.Node, c.Cluster.Artifacts = at.String(), node, filepath.Join(dir, "shared")
		return c
	}
}

func TestANodeStandsByUntilTheActiveOneEnds(t *testing.T) {
	node := place(t)
	open := func(name string, standby func(string)) (*Storage, error) {
		return Open(t.Context(), Options{Config: node(name), Log: zap.NewNop(), Migrate: true, Served: func() *all.Set { return nil }, Standby: standby})
	}
	first, err := open("first", func(string) { t.Error("the first node stands by") })
	if err != nil {
		t.Fatal(err)
	}
	told(t, func(done func(bool, error)) {
		first.Put("space", "key", 0, "owner", []byte("value"), time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
	})
	if _, err := open("other", nil); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "another node uses the database") {
		t.Errorf("without a way to stand by: %v", err)
	}
	stands, opened := make(chan string, 8), make(chan *Storage, 1)
	go func() {
		second, err := open("second", func(active string) { stands <- active })
		if err != nil {
			t.Error(err)
		}
		opened <- second
	}()
	if active := <-stands; active != "first" {
		t.Errorf("it stands by for %q", active)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := <-opened
	if _, value, err := second.Get(t.Context(), "space", "key"); err != nil || string(value) != "value" {
		t.Errorf("%q, %v", value, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if len(stands) > 0 {
		t.Errorf("it began to stand by again, for %q", <-stands)
	}
}

func TestAWaitForTheActiveNodeCanBeEnded(t *testing.T) {
	node := place(t)
	first, err := Open(t.Context(), Options{Config: node("first"), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Open(ctx, Options{Config: node("second"), Log: zap.NewNop(), Standby: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

func TestANodeWithoutThePlaceOfArtifactsDoesNotStandBy(t *testing.T) {
	node := place(t)
	first, err := Open(t.Context(), Options{Config: node("first"), Log: zap.NewNop(), Migrate: true, Served: func() *all.Set { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := node("second")
	c.Cluster.Artifacts = filepath.Join(t.TempDir(), "not-mounted")
	stands := func(active string) {
		t.Errorf("it stands by for %q", active)
		cancel()
	}
	_, err = Open(ctx, Options{Config: c, Log: zap.NewNop(), Served: func() *all.Set { return nil }, Standby: stands})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "cluster.artifacts") {
		t.Errorf("it started: %v", err)
	}
}

func TestTwoNodesCannotHaveOneDataDirectory(t *testing.T) {
	node := place(t)
	first, err := Open(t.Context(), Options{Config: node("first"), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	c := node("first")
	c.Cluster.Node = "second"
	if _, err := Open(t.Context(), Options{Config: c, Log: zap.NewNop(), Standby: func(string) {}}); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "each node has a directory for itself") {
		t.Errorf("error %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// What the embedded store has goes to PostgreSQL and back without a difference.
func TestDataMovesBetweenTheEmbeddedAndASharedStore(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	node := place(t)
	export := func(c *config.Config) []byte {
		t.Helper()
		var file bytes.Buffer
		if _, err := (&Transfer{Config: c, Log: t.Output()}).Export(t.Context(), &file); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	load := func(c *config.Config, file []byte) {
		t.Helper()
		if _, err := (&Transfer{Config: c, Log: t.Output()}).Import(t.Context(), bytes.NewReader(file)); err != nil {
			t.Fatal(err)
		}
	}
	first := export(configOf(t, data))
	load(node("a"), first)
	if _, err := (&Transfer{Config: node("a"), Log: t.Output()}).Import(t.Context(), bytes.NewReader(first)); !errors.Is(err, store.ErrUsed) {
		t.Errorf("a second import: %v", err)
	}
	shared := export(node("a"))
	back := configOf(t, t.TempDir())
	load(back, shared)
	if want, got := pieces(t, first), pieces(t, export(back)); !slices.Equal(want, got) {
		t.Errorf("%d pieces, and after both moves %d, which differ", len(want), len(got))
	}
}

// pieces returns the pieces of an export as text, without the counters at the start of a section.
func pieces(t *testing.T, file []byte) (list []string) {
	t.Helper()
	r := archive.NewReader(bytes.NewReader(file))
	for {
		section, err := r.Section()
		if errors.Is(err, io.EOF) {
			return list
		}
		for err == nil {
			var p store.Piece
			if p, err = r.Next(); err == nil {
				if _, is := p.(*store.Start); !is {
					list = append(list, fmt.Sprintf("%s %T %+v", section, p, p))
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

func TestTL11AStoreOnPostgreSQLSaysWhoseDataItHas(t *testing.T) {
	s, err := Open(t.Context(), Options{Config: place(t)("one"), Log: zap.NewNop(), Migrate: true, Served: func() *all.Set { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	claimed(t, s, owned(t, s))
	names := &claims.Registry{Partners: []claims.Partner{{Name: "caller", Identity: "spiffe://a.example/caller", Source: "one"}}}
	s.Vouch(names)
	c, err := s.Claim(t.Context(), names.Partners[0].Identity)
	if err != nil || !c.Recorded || c.Foreign([]string{"one"}) || !c.Foreign([]string{"other"}) {
		t.Errorf("%+v, %v", c, err)
	}
}
