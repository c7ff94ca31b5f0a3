package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
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
	saved, left := fmt.Sprintf("%d records, %d entries and %d items saved", heldRecords-len(hit), heldEntries-len(hit), heldItems-len(hit)),
		fmt.Sprintf(`left out: %d records ("space": %[1]d), %[1]d entries ("space": %[1]d), %[1]d items ("space": %[1]d); the damaged file is kept as`, len(hit))
	if text := strings.Join(notices, "\n"); !strings.Contains(text, "accepted") || !strings.Contains(text, saved) || !strings.Contains(text, left) {
		t.Errorf("notices: %s\nwant %s, %s", text, saved, left)
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

// Each page of the file is lost in turn. That which is left out is counted by kind, and exactly but for records of a page that
// cannot be read. Rows behind the page are saved. A log that is kept gives no number of an entry again.
func TestST04WhatAcceptedDamageLeavesOutIsCountedByKind(t *testing.T) {
	files := stopped(t)
	pages := len(files["state.db"]) / 4096
	lost, much := 0, 0 // pages of which something, and much, is left out
	for page := 1; page < pages; page++ {
		if !effort.Due(page, 8) {
			continue
		}
		b := bytes.Clone(files["state.db"])
		clear(b[page*4096:][:4096])
		var notices []string
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: files.with("state.db", b).place(t), AcceptDamage: true, Notice: func(text string) { notices = append(notices, text) }})
		if err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		records, entries, items := contents(t, s)
		notice := notices[len(notices)-1]
		if strings.Contains(notice, " saved, ") { // else the page was free
			for kind, lost := range map[string]int{"records": heldRecords - records, "entries": heldEntries - entries, "items": heldItems - items} {
				told, exact := leftOut(notice, kind)
				if told > lost || exact && told != lost || kind != "records" && told < lost {
					t.Errorf("page %d of %d: %d %s are left out: %s", page, pages, lost, kind, notice)
				}
			}
			lost++
			if min(records-heldRecords, entries-heldEntries, items-heldItems) < -20 {
				much++
			}
		} else if records != heldRecords || entries != heldEntries || items != heldItems {
			t.Errorf("page %d: %d records, %d entries, %d items, and the notices %q", page, records, entries, items, notices)
		}
		for l := range 3 {
			if entries == 0 { // the logs are lost
				break
			}
			seqs := make(chan store.AppendResult, 1)
			s.Append("space", fmt.Sprint("log ", l), "", "owner", nil, time.Time{}, func(r store.AppendResult) { seqs <- r })
			if r := <-seqs; r.Err != nil || r.Seq <= heldEntries/3 {
				t.Errorf("page %d: the next entry of log %d has number %d, %v", page, l, r.Seq, r.Err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if lost == 0 || much > lost/4 { // pages that have others below them
		t.Errorf("of %d pages with data %d have taken more than 20 records, entries or items along", lost, much)
	}
}

// contents counts what a store has of that of fill.
func contents(t *testing.T, s *sqlstore.Store) (records, entries, items int) {
	t.Helper()
	err := s.Scan(t.Context(), "space", "", "", func(string, uint64, []byte) bool { records++; return true })
	for i := range 3 {
		err = errors.Join(err,
			s.Read(t.Context(), "space", fmt.Sprint("log ", i), 0, func(uint64, string, []byte) bool { entries++; return true }))
	}
	if err != nil {
		t.Error(err)
	}
	return records, entries, s.Stats().Items
}

var omission = regexp.MustCompile(`(\d+) (records|entries|items)( or more)?`)

// leftOut returns how many of a kind a notice says are left out, and whether that is their number.
func leftOut(notice, kind string) (n int, exact bool) {
	_, left, _ := strings.Cut(notice, "left out: ")
	for _, m := range omission.FindAllStringSubmatch(left, -1) {
		if m[2] == kind {
			n, _ = strconv.Atoi(m[1])
			return n, m[3] == ""
		}
	}
	return 0, true
}
