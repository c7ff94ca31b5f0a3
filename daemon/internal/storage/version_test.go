package storage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// plant writes a version of the data.
func plant(t *testing.T, data, version string) {
	t.Helper()
	s := openIn(t, data)
	stored, _, err := s.Get(t.Context(), spaceData, nameVersion)
	if err != nil {
		t.Fatal(err)
	}
	told(t, func(done func(bool, error)) {
		s.Put(spaceData, nameVersion, stored, "", []byte(version), time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantWords wants that an error is of a kind, and that it has words for the operator.
func wantWords(t *testing.T, err error, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v, want %v", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v\ndoes not say %q", err, word)
		}
	}
}

func TestDataThatAReleaseWritesHasItsVersion(t *testing.T) {
	data := t.TempDir()
	filled(t, data) // as before there was a version
	for range 2 {
		s, err := Open(t.Context(), Options{Config: configOf(t, data), Log: zap.NewNop(), Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		if version, value, err := s.Get(t.Context(), spaceData, nameVersion); version == 0 || string(value) != "1" || err != nil {
			t.Errorf("version %q, %v", value, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDataOfALaterReleaseIsRefusedAndUntouched(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	export := exportOf(t, data)
	plant(t, data, "2")
	file := filepath.Join(data, dirStore, "state.db")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := configOf(t, data)
	words := []string{"ERR_COMPATIBILITY_POLICY", data, "version 2 of the data, and this program knows versions up to 1", "restore the backup from before the upgrade"}
	for _, migrate := range []bool{false, true} {
		_, err := Open(t.Context(), Options{Config: c, Log: zap.NewNop(), Migrate: migrate, AcceptDamage: true})
		wantWords(t, err, store.ErrNewer, words...)
	}
	_, err = transfer(t, data).Export(t.Context(), new(bytes.Buffer))
	wantWords(t, err, store.ErrNewer, words...)
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed, %v", err)
	}
	if _, err := transfer(t, t.TempDir()).Import(t.Context(), bytes.NewReader(export)); err != nil {
		t.Errorf("a backup from before the upgrade: %v", err)
	}
}

func TestABackupOfALaterReleaseLeavesNoStore(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	plant(t, data, "2")
	// The later release knows its version: the engine alone is asked for the backup.
	s := &Storage{conf: configOf(t, data)}
	records, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: filepath.Join(data, dirStore), Durability: store.Process})
	if err != nil {
		t.Fatal(err)
	}
	s.engine = records
	if s.blobs, err = openFiles(t.Context(), &Options{Config: s.conf, Log: zap.NewNop()}, records); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := s.Backup(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.blobs.Close(), s.engine.Close()); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	_, err = transfer(t, into).Import(t.Context(), &file)
	wantWords(t, err, store.ErrNewer, "nothing was imported", "version 2 of the data", "import it with the release that wrote it, or a later one")
	wantNoStore(t, "a backup of a later release", into)
}

func TestAStoreOfAnEarlierReleaseIsMigratedAtAStartOnly(t *testing.T) {
	data := t.TempDir()
	filled(t, data)
	file := filepath.Join(data, dirStore, "state.db")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: configOf(t, data), Log: zap.NewNop(), later: []string{"ALTER TABLE record ADD COLUMN added INTEGER NOT NULL DEFAULT 0"}}
	_, err = Open(t.Context(), o) // as an export and swpd check --data do
	wantWords(t, err, store.ErrOlder, "schema 3, and this program uses schema 4", "its content was not read; swpd run migrates it at its start", "run swpd check --data and make a backup with the earlier release before")
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed, %v", err)
	}
	o.Migrate = true
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = transfer(t, data).Export(t.Context(), new(bytes.Buffer))
	wantWords(t, err, store.ErrNewer, "schema 4, and this program knows schemas up to 3", "restore the backup from before the upgrade")

	if err := os.Remove(filepath.Join(data, dirStore, "state.mark")); err != nil {
		t.Fatal(err)
	}
	o.later = append(o.later, "ALTER TABLE record ADD COLUMN another INTEGER NOT NULL DEFAULT 0")
	o.AcceptDamage = true
	_, err = Open(t.Context(), o)
	wantWords(t, err, store.ErrDamaged, "start the earlier release once with --accept-damage")
}
