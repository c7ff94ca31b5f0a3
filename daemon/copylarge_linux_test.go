package daemon

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/pgtest"
)

func TestACopyOf400MiBToPostgreSQLAndBackKeepsEverything(t *testing.T) {
	effort.Release(t)
	server, err := pgtest.New("")
	pgtest.Must(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	database, err := server.Database(t.Context())
	pgtest.Must(t, err)

	dir, other := t.TempDir(), t.TempDir()
	u := newUpgraded(t, dir)
	for _, c := range contents {
		if c.name != "chains" && c.name != "A2A-SDL" { // which expire during this test
			c.write(t, u)
		}
	}
	u.fill(t, 100)
	if err := u.end(); err != nil {
		t.Fatal(err)
	}
	embedded := mustLoad(t, filepath.Join(dir, "swpd.yaml"))
	if size := sizeOf(t, embedded.Data); size < 400<<20 {
		t.Fatalf("the data has %d octets", size)
	}
	_, name, _ := strings.Cut(database, "dbname=")
	at := url.URL{Scheme: "postgres", Path: "/" + name, RawQuery: url.Values{"host": {server.Socket()}, "user": {"postgres"}}.Encode()}
	shared := mustLoad(t, filepath.Join(dir, "swpd.yaml"))
	shared.Data, shared.Store, shared.Cluster.Artifacts = filepath.Join(dir, "node"), at.String(), filepath.Join(dir, "shared")
	if err := os.Mkdir(shared.Cluster.Artifacts, 0o700); err != nil {
		t.Fatal(err)
	}
	u = &upgraded{dir: other, restored: true}
	u.configure(t)
	back := mustLoad(t, filepath.Join(other, "swpd.yaml"))

	before, err := (&Transfer{Config: embedded, Log: t.Output()}).Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []Copy{{From: embedded, To: shared}, {From: shared, To: back}} {
		step.Log = t.Output()
		idle, began := peak(t, true), time.Now()
		n, err := step.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more := peak(t, false) - idle
		t.Logf("%+v in %v, with %d MiB of memory above %d", n, time.Since(began), more, idle)
		if n.Digest != before.Digest {
			t.Errorf("the digest of the copy is %s, want %s", n.Digest, before.Digest)
		}
		if most := 256; more > most && !effort.Watched { // the race detector needs much
			t.Errorf("the copy needs %d MiB of memory, want at most %d", more, most)
		}
	}
	after, err := (&Transfer{Config: back, Log: t.Output()}).Digest(t.Context())
	if err != nil || after.Digest != before.Digest {
		t.Errorf("the digest of the last copy is %+v, %v, want %+v", after, err, before)
	}
	u = newUpgraded(t, other)
	u.restored = true
	u.readAll(t)
}
