package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestADamagedPageFailsOnlyWhatNeedsIt(t *testing.T) {
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	page := bytes.Index(b, []byte("value 150 value")) / 4096 * 4096
	clear(b[page : page+4096])
	dir := files.with("state.db", b).place(t)
	// The check is not waited for, as on a disk that is slow.
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, CheckFor: 1})
	if err != nil {
		t.Skipf("the check was faster: %v", err)
	}
	defer s.Close()
	results := make(chan error, heldRecords+1)
	var after uint64
	for i := range heldRecords {
		s.Put("space", fmt.Sprintf("%04d", i), 0, "owner", nil, time.Time{}, func(r store.PutResult) {
			if r.Err == nil && r.Version == 0 {
				r.Err = errors.New("a record is missing")
			}
			results <- r.Err
		})
	}
	s.Append("space", "log 0", "", "owner", nil, time.Time{}, func(r store.AppendResult) {
		after = r.Seq
		results <- r.Err
	})
	failed := 0
	for range heldRecords + 1 {
		if err := <-results; errors.Is(err, store.ErrDamaged) {
			failed++
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed == 0 || failed > heldRecords/2 {
		t.Errorf("%d of %d failed", failed, heldRecords)
	}
	if after != heldEntries/3+1 {
		t.Errorf("what came after has number %d", after)
	}
	s.WaitChecked()
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Check: %v", err)
	}
}

func TestADamagedRecordCanBeRemoved(t *testing.T) {
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	b[bytes.Index(b, []byte("value 123 value"))+3] ^= 1
	b[bytes.LastIndex(b, []byte("value 123 value"))+3] ^= 1
	s := open(t, sqlstore.Options{Dir: files.with("state.db", b).place(t)})
	defer s.Close()
	errs := make(chan error, 1)
	s.Put("space", "0123", 0, "owner", nil, time.Time{}, func(r store.PutResult) { errs <- r.Err })
	if err := <-errs; !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Put over a damaged record: %v", err)
	}
	s.Delete("space", "0123", 1, func(_ bool, err error) { errs <- err })
	if err := <-errs; !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Delete of a version of a damaged record: %v", err)
	}
	s.Delete("space", "0123", 0, func(removed bool, err error) {
		if !removed {
			err = errors.Join(err, errors.New("not removed"))
		}
		errs <- err
	})
	if err := <-errs; err != nil {
		t.Error(err)
	}
	s.Put("space", "0123", 0, "owner", nil, time.Time{}, func(r store.PutResult) {
		if !r.Wrote {
			r.Err = errors.Join(r.Err, errors.New("not written"))
		}
		errs <- r.Err
	})
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

func TestLessThanTheMachineWasPromisedIsToldNotRefused(t *testing.T) {
	files := killed(t)
	shorter := files.with("state.db-wal", files["state.db-wal"][:len(files["state.db-wal"])/2])
	// As written at store.Process before the machine was started again.
	var notices []string
	dir := shorter.with("state.mark", sqlstore.MarkOf(1_000_000, store.Process, "11111111-2222-3333-4444-555555555555")).place(t)
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, Notice: func(text string) { notices = append(notices, text) }})
	if err != nil {
		t.Fatalf("Open after the machine has ended: %v", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	_ = s.Close()
	if len(notices) != 1 || !strings.Contains(notices[0], "ended with the machine") {
		t.Errorf("notices: %q", notices)
	}
	for what, mark := range map[string][]byte{
		"promised more":           sqlstore.MarkOf(1_000_000, store.Power, "11111111-2222-3333-4444-555555555555"),
		"the machine has gone on": sqlstore.MarkOf(1_000_000, store.Process, sqlstore.BootID()),
		"nothing is known of it":  sqlstore.MarkOf(1_000_000, store.Process, ""),
	} {
		if _, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: shorter.with("state.mark", mark).place(t)}); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Octets are flipped in values only: the structure of the file stays whole, and
// only the checksums of rows tell.
func TestST04AcceptedDamageOfRowsIsLeftOut(t *testing.T) {
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	hit := make(map[int]bool)
	for i := 0; i < heldRecords; i += 37 {
		hit[i] = true
		for at := 0; ; { // the record, the entry and the item
			next := bytes.Index(b[at:], fmt.Appendf(nil, "value %d value", i))
			if next < 0 {
				break
			}
			at += next + 3
			b[at] ^= 1
			at += len(value(i)) - 20
		}
	}
	last := heldEntries - 1 // of its log
	hit[last] = true
	b = bytes.ReplaceAll(b, fmt.Appendf(nil, "value %d value", last), fmt.Appendf(nil, "vague %d value", last))
	dir := files.with("state.db", b).place(t)

	plain := open(t, sqlstore.Options{Dir: dir})
	plain.WaitChecked()
	if err := plain.Check(t.Context()); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Check without accepting: %v", err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}

	var notices []string
	s := open(t, sqlstore.Options{Dir: dir, AcceptDamage: true, CheckFor: 1, Notice: func(text string) { notices = append(notices, text) }})
	wantUndamaged := func() {
		t.Helper()
		for i := range heldRecords {
			version, got, err := s.Get(t.Context(), "space", fmt.Sprintf("%04d", i))
			if err != nil || hit[i] != (version == 0) || !hit[i] && !bytes.Equal(got, value(i)) {
				t.Errorf("record %d, damaged %v: version %d, %v", i, hit[i], version, err)
			}
		}
		for l := range 3 {
			seen := make(map[string]bool)
			err := s.Read(t.Context(), "space", fmt.Sprint("log ", l), 0, func(seq uint64, id string, data []byte) bool {
				i := int(seq-1)*3 + l
				seen[id] = id == fmt.Sprint("id ", i) && bytes.Equal(data, value(i))
				return true
			})
			err = errors.Join(err, s.Items(t.Context(), "space", fmt.Sprint("queue ", l), 0, func(_ uint64, id string, _ int, _ []byte) bool {
				seen["item "+id] = true
				return true
			}))
			if err != nil {
				t.Error(err)
			}
			for i := l; i < heldEntries; i += 3 {
				id := fmt.Sprint("id ", i)
				if seen[id] == hit[i] || seen["item "+id] == hit[i] {
					t.Errorf("%d, damaged %v: entry %v, item %v", i, hit[i], seen[id], seen["item "+id])
				}
			}
		}
		s.WaitChecked()
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
	wantUndamaged()
	if text := strings.Join(notices, "\n"); !strings.Contains(text, "accepted") || !strings.Contains(text, "kept as") {
		t.Errorf("notices: %s", text)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "state.db.damaged-*Z"))
	if len(kept) != 1 {
		t.Fatalf("kept beside the new database: %q", kept)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = open(t, sqlstore.Options{Dir: dir})
	defer s.Close()
	wantUndamaged()

	// The number of an entry that is lost is not given again: who has seen it would
	// miss what has it now.
	seqs := make(chan uint64, 1)
	s.Append("space", fmt.Sprint("log ", last%3), "", "owner", nil, time.Time{}, func(r store.AppendResult) {
		if r.Err != nil {
			t.Error(r.Err)
		}
		seqs <- r.Seq
	})
	if seq := <-seqs; seq <= heldEntries/3 {
		t.Errorf("the next entry has number %d, want one above %d", seq, heldEntries/3)
	}
}
