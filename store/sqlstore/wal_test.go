package sqlstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// anotherBoot is not the boot id of this machine.
const anotherBoot = "11111111-2222-3333-4444-555555555555"

// powerCut returns the files of a store whose machine lost its power: a log with commits of an
// entry each, and the mark of the creation of the store, because a mark is not synced.
func powerCut(t *testing.T, commits int) image {
	t.Helper()
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	defer s.Close()
	for i := range commits {
		if err := add(s, i); err != nil {
			t.Fatal(err)
		}
	}
	return take(t, dir).with("state.mark", sqlstore.MarkOf(1, store.Power, anotherBoot))
}

// Parts of the log of SQLite, https://sqlite.org/fileformat2.html#the_write_ahead_log.
const (
	logHeader   = 32
	frameHeader = 24
	frameSize   = frameHeader + 4096
)

// transactions returns the ends of the transactions of a log, in frames.
func transactions(t *testing.T, log []byte) (ends []int) {
	t.Helper()
	frames := (len(log) - logHeader) / frameSize
	for i := range frames {
		if binary.BigEndian.Uint32(log[logHeader+i*frameSize+4:]) != 0 {
			ends = append(ends, i+1)
		}
	}
	if len(ends) < 3 || ends[len(ends)-1] != frames {
		t.Fatalf("transactions end at %v of %d frames", ends, frames)
	}
	return ends
}

func TestST04AFlippedBitInTheLogWithEntriesBehindIsNeverSilent(t *testing.T) {
	const entries = 4
	files := powerCut(t, entries)
	log := files["state.db-wal"]
	ends := transactions(t, log)
	r := rand.New(rand.NewPCG(4, 4))
	flip := func(at int) {
		damaged := bytes.Clone(log)
		damaged[at] ^= 1 << r.IntN(8)
		wantRefused(t, files.with("state.db-wal", damaged), "state.db-wal")
		if t.Failed() {
			t.Fatalf("octet %d of a log of %d, transactions %v", at, len(log), ends)
		}
	}
	for at := range logHeader {
		flip(at)
	}
	// The last transaction may be one that was not acknowledged; all before it were.
	for frame := range ends[len(ends)-2] {
		at := logHeader + frame*frameSize
		for _, field := range []int{0, 4, 8, 12, 16, 20} { // page, commit, salts, checksums
			flip(at + field + r.IntN(4))
		}
		flip(at + frameHeader + r.IntN(4096))
	}
	// A longer part: zeros, or what an earlier round of the log has left.
	earlier := powerCut(t, entries)["state.db-wal"]
	for _, end := range ends[:len(ends)-1] {
		from, to := logHeader+(end-1)*frameSize, logHeader+end*frameSize
		for _, filler := range [][]byte{make([]byte, frameSize), earlier[from:to]} {
			damaged := bytes.Clone(log)
			copy(damaged[from:to], filler)
			wantRefused(t, files.with("state.db-wal", damaged), "state.db-wal")
		}
	}
}

// The power fails while a transaction is written: any of its pages may be missing, whatever their
// order. It was not acknowledged.
func TestATornTransactionAtTheEndOfTheLogOpensQuietly(t *testing.T) {
	const entries = 4
	files := powerCut(t, entries)
	log, earlier := files["state.db-wal"], powerCut(t, entries)["state.db-wal"]
	ends := transactions(t, log)
	first, last := ends[len(ends)-2], ends[len(ends)-1]
	acknowledged := make(map[int]bool)
	for i := range entries - 1 {
		acknowledged[i] = true
	}
	all := 1<<(last-first) - 1
	missings := []int{all}
	for i := range last - first {
		missings = append(missings, 1<<i, all^1<<i)
	}
	for _, missing := range missings {
		for name, filler := range map[string][]byte{"zeros": make([]byte, len(log)), "an earlier round": earlier} {
			torn := bytes.Clone(log)
			for i := range last - first {
				if missing>>i&1 == 1 {
					from := logHeader + (first+i)*frameSize
					copy(torn[from:from+frameSize], filler[from:])
				}
			}
			wantQuiet(t, files.with("state.db-wal", torn), fmt.Sprintf("%s for the frames %b", name, missing), acknowledged)
		}
	}
	for size := logHeader + first*frameSize; size < len(log); size += frameSize / 3 {
		wantQuiet(t, files.with("state.db-wal", log[:size]), fmt.Sprint(size, " octets"), acknowledged)
	}
}

// wantQuiet wants that a store opens without a notice and has what was acknowledged.
func wantQuiet(t *testing.T, files image, what string, acknowledged map[int]bool) {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: files.place(t), Notice: func(text string) {
		t.Errorf("%s: notice %q", what, text)
	}})
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer s.Close()
	wantKept(t, s, acknowledged)
	s.WaitChecked()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("%s: Check: %v", what, err)
	}
}

// An unacknowledged transaction that was written in part is overwritten by a shorter one: the log
// ends before the rest of it.
func TestTheRestOfAnUnacknowledgedTransactionIsNoDamage(t *testing.T) {
	files := powerCut(t, 3)
	grow := func(files image, octets int) image {
		dir := files.place(t)
		s := open(t, sqlstore.Options{Dir: dir})
		defer s.Close()
		if err := put(s, "key", "owner", octets); err != nil {
			t.Fatal(err)
		}
		return take(t, dir)
	}
	log := bytes.Clone(grow(files, 40_000)["state.db-wal"])
	for _, octets := range []int{20_000, 10} { // each fails after its last frame was written
		shorter := grow(files, octets)["state.db-wal"]
		if len(shorter) >= len(log) || !bytes.Equal(shorter[:len(files["state.db-wal"])], files["state.db-wal"]) {
			t.Fatalf("the log of %d octets does not go on as one of %d", len(log), len(shorter))
		}
		copy(log, shorter)
	}
	wantQuiet(t, files.with("state.db-wal", log), "three transactions, one over the other", map[int]bool{0: true, 1: true, 2: true})
}

// At store.Process a power cut may leave any part of the log.
func TestAHoleInTheLogIsNoDamageAtDurabilityProcess(t *testing.T) {
	files := powerCut(t, 6)
	log := bytes.Clone(files["state.db-wal"])
	end := transactions(t, log)[1]
	clear(log[logHeader+end*frameSize:][:frameSize])
	files = files.with("state.db-wal", log)
	wantQuiet(t, files.with("state.mark", sqlstore.MarkOf(1, store.Process, anotherBoot)), "power cut", nil)
	wantRefused(t, files.with("state.mark", sqlstore.MarkOf(1, store.Process, sqlstore.BootID())), "state.db-wal")
}

// What a power cut has left at store.Process is behind what is written from then on.
func TestWhatFollowsAHoleInTheLogIsToldFromIt(t *testing.T) {
	for _, level := range []store.Durability{store.Process, store.Power} {
		files := powerCut(t, 12)
		log := bytes.Clone(files["state.db-wal"])
		end := transactions(t, log)[1]
		clear(log[logHeader+end*frameSize:][:frameSize])
		dir := files.with("state.db-wal", log).with("state.mark", sqlstore.MarkOf(1, store.Process, anotherBoot)).place(t)
		for n := range 2 { // the second one finds the end of the process
			s := open(t, sqlstore.Options{Dir: dir, Durability: level})
			if err := put(s, fmt.Sprint(n), "owner", 10); err != nil {
				t.Fatal(err)
			}
			killed := take(t, dir)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			dir = killed.place(t)
		}
		wantQuiet(t, take(t, dir), string(level), nil)
	}
}

// The mark has the level of the transactions to come before there is one.
func TestTheMarkHasTheLevelOfWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	for _, level := range []store.Durability{store.Power, store.Process, store.Power, store.Power} {
		s := open(t, sqlstore.Options{Dir: dir, Durability: level})
		mark := string(take(t, dir)["state.mark"])
		if !strings.Contains(mark, " "+string(level)+" ") {
			t.Errorf("%s: the mark is %q", level, mark)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A log that was written back whole is not needed.
func TestDamageOfALogThatIsNotNeededIsNotRefused(t *testing.T) {
	files := powerCut(t, 6)
	log := bytes.Clone(files["state.db-wal"])
	log[logHeader+frameHeader] ^= 1
	dir := files.place(t)
	if err := open(t, sqlstore.Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true}
	wantQuiet(t, take(t, dir).with("state.db-wal", log), "written back", acknowledged)
}

func TestST04ADamagedLogIsAcceptedOnlyExplicitly(t *testing.T) {
	files := powerCut(t, 6)
	log := bytes.Clone(files["state.db-wal"])
	end := transactions(t, log)[2]
	log[logHeader+end*frameSize+frameHeader+7] ^= 8
	dir := files.with("state.db-wal", log).place(t)
	if _, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir}); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("Open: %v", err)
	}
	var notices []string
	s := open(t, sqlstore.Options{Dir: dir, AcceptDamage: true, Notice: func(text string) { notices = append(notices, text) }})
	wantKept(t, s, map[int]bool{0: true, 1: true})
	if err := add(s, 6); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text := strings.Join(notices, "\n"); !strings.Contains(text, "accepted") || !strings.Contains(text, "kept as") {
		t.Errorf("notices: %s", text)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "state.db.damaged-*Z-wal")); len(kept) != 1 {
		t.Errorf("the log is kept as %q", kept)
	}
	wantQuiet(t, take(t, dir), "after damage was accepted", map[int]bool{0: true, 1: true, 6: true})
}
