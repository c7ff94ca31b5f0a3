package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/relay"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/store/sqlstore/sqlstoretest"
)

// largeOctets is the size of a payload of which there are many.
const largeOctets = 64 << 10

func largePayload(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", i), largeOctets/8)
}

// fill adds four kinds of content, each of some MiB, and small deliveries.
func (u *upgraded) fill(t *testing.T, mib int) {
	t.Helper()
	const clients = 4
	n := mib << 20 / largeOctets
	var work sync.WaitGroup
	each := func(n int, open func() func(i int) error) {
		for c := range clients {
			do := open()
			work.Go(func() {
				for i := c; i < n; i += clients {
					if err := do(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	send := func(topic string, octets int) func() func(i int) error {
		return func() func(i int) error {
			_, s := relayPeer(t, u.running, u.addrs[0])
			return func(i int) error {
				_, err := relay.Send(t.Context(), s, &relay.Publication{ID: fmt.Append(nil, topic, i), Topic: topic, Payload: largePayload(i)[:octets]})
				return err
			}
		}
	}
	each(n, send("large", largeOctets))
	each(10_000, send("small", 100))
	each(n, func() func(i int) error {
		s := u.mustDial(u.addrs[0])
		return func(i int) error {
			return publishes(t, s.Session, record(fmt.Sprint("large ", i), "large", string(largePayload(i))))
		}
	})
	each(n, func() func(i int) error {
		s := u.mustDial(u.addrs[0])
		return func(i int) error { return put(t.Context(), s.Session, stateprofile.State{Blob: largePayload(i)}) }
	})
	each(clients, func() func(i int) error {
		s := u.mustDial(u.addrs[0])
		return func(i int) error {
			octets := bytes.Repeat(largePayload(i), n/clients)
			return artifact.Upload{
				ArtifactID: fmt.Sprint("large ", i), Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: syncPlain,
			}.Send(t.Context(), s.Session)
		}
	})
	work.Wait()
}

// digestOf returns the number of pieces of a data directory, and a digest of them, at a time.
func digestOf(t *testing.T, data string, at time.Time, later []string) string {
	t.Helper()
	now := func() time.Time { return at }
	engine, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: filepath.Join(data, "store"), Durability: store.Process, Now: now, Later: later})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	files, err := filestore.Open(t.Context(), filestore.Options{
		Records: engine, Space: "artifact", Dir: filepath.Join(data, "artifacts"), Durability: store.Process, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	n, sum := 0, sha256.New()
	for _, from := range []store.Exporter{engine, files} {
		err := from.Export(t.Context(), func(p store.Piece) error {
			if _, is := p.(*store.Start); is {
				return nil
			}
			n++
			_, err := fmt.Fprintf(sum, "%T %+q\n", p, p)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%d pieces, SHA-256 %x", n, sum.Sum(nil))
}

// peak returns the highest resident memory of this process since the last call with reset, in MiB.
func peak(t *testing.T, reset bool) (mib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(text, &mib); err != nil {
		t.Fatal(err)
	}
	if reset {
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Skipf("the peak of the memory cannot be reset here: %v", err)
		}
		return peak(t, false)
	}
	return mib >> 10
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	total := int64(0)
	err := filepath.Walk(path, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

func TestAnUpgradeOf400MiBKeepsEverything(t *testing.T) {
	effort.Release(t)
	dir := t.TempDir()
	u := newUpgraded(t, dir)
	for _, c := range contents {
		c.write(t, u)
	}
	u.fill(t, 100)
	if err := u.end(); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, upgradeData)
	size, at := sizeOf(t, data), time.Now()
	if size < 400<<20 {
		t.Fatalf("the data has %d octets", size)
	}
	before := digestOf(t, data, at, nil)
	wantSame := func(what string, later []string) {
		t.Helper()
		if after := digestOf(t, data, at, later); after != before {
			t.Errorf("%s: %s, want %s", what, after, before)
		}
	}
	file := filepath.Join(data, "store", "state.db")
	open := func(ctx context.Context) (*sqlstore.Store, error) {
		return sqlstore.Open(ctx, sqlstore.Options{
			Dir: filepath.Dir(file), Durability: store.Process, Migrate: true, Later: sqlstoretest.PlantedSteps, Notice: func(text string) { t.Log(text) },
			Now: func() time.Time { return at },
		})
	}

	// A start that ends in the middle.
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		for ctx.Err() == nil {
			if info, err := os.Stat(file + "-wal"); err == nil && info.Size() > 100<<20 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	})
	_, err := open(ctx)
	cancel()
	watch.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a migration that is interrupted: %v", err)
	}
	wantSame("after a migration that was interrupted", nil)

	idle, began := peak(t, true), time.Now()
	s, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	took, most := time.Since(began), peak(t, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB, of which the database has %d: migrated in %v, with %d MiB of memory above %d", size>>20, sizeOf(t, file)>>20, took, most-idle, idle)
	if rest := int64(most-idle) << 20; rest > size {
		t.Errorf("the migration needs %d MiB of memory, more than there is of data", most-idle)
	}
	wantSame("after the migration", sqlstoretest.PlantedSteps)

	_, err = (&Transfer{Config: mustLoad(t, filepath.Join(dir, "swpd.yaml")), Log: t.Output()}).Export(t.Context(), io.Discard)
	if !errors.Is(err, store.ErrNewer) {
		t.Errorf("the earlier release reads the data: %v", err)
	}

	// This release can serve the tables of the planted one, because their new columns have defaults: the
	// number of the schema is all that keeps it from that.
	db, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const userVersion = 60 // where the header of a SQLite file has it
	_, err = db.WriteAt(binary.BigEndian.AppendUint32(nil, 3), userVersion)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	newUpgraded(t, dir).readAll(t)
}
