package client

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func openTestJournal(t *testing.T) (*Journal, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state", "swp-client")
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j, filepath.Join(dir, "tasks")
}

func add(t *testing.T, j *Journal, task SentTask) *Entry {
	t.Helper()
	e, err := j.Add(task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func find(t *testing.T, j *Journal, id string) *Entry {
	t.Helper()
	e, err := j.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestJournalKeepsATaskAndItsMark(t *testing.T) {
	j, dir := openTestJournal(t)
	sent := SentTask{
		Address: "swp+tls://127.0.0.1:7777", ID: "00ff10", Kind: "k", Agent: "a", Params: []string{"n=v"},
		Deadline: time.Now().Add(time.Minute).Round(0), Sent: time.Now().Round(0), Input: []byte("in\x00\xff"),
	}
	e := add(t, j, sent)
	same := cmpopts.EquateApproxTime(0)
	if got := find(t, j, "00ff10"); got.After != 0 || got.Done || !cmp.Equal(got.SentTask, sent, same) {
		t.Errorf("%+v, want %+v", got, sent)
	}
	for _, seq := range []uint64{1, 9, 10, 1<<64 - 1} {
		if err := e.Mark(seq); err != nil {
			t.Fatal(err)
		}
		if got := find(t, j, "00FF"); got.After != seq || got.Done || !cmp.Equal(got.SentTask, sent, same) {
			t.Errorf("after %d: %+v", seq, got)
		}
	}
	if err := e.Finish(true); err != nil {
		t.Fatal(err)
	}
	if got := find(t, j, "00ff10"); got.After != 1<<64-1 || !got.Done || got.Failed {
		t.Errorf("finished: %+v", got)
	}
	info, err := os.Stat(filepath.Join(dir, "00ff10.task"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestJournalFindsByTheOnlyIDThatBeginsSo(t *testing.T) {
	j, dir := openTestJournal(t)
	for _, id := range []string{"aabb", "aabbcc", "aabbcd", "ffff0000"} {
		add(t, j, SentTask{ID: id, Sent: time.Now()})
	}
	for id, want := range map[string]string{"aabb": "aabb", "aabbcc": "aabbcc", "ffff": "ffff0000", "FFFF00": "ffff0000"} {
		if got := find(t, j, id).ID; got != want {
			t.Errorf("%s: found %s, want %s", id, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "beef.task"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "aab", "aabbc", "0123", "../beef", "beef", "zzzz", "aabb*"} {
		if _, err := j.Find(id); !errors.Is(err, ErrNoTask) {
			t.Errorf("%q: %v, want %v", id, err, ErrNoTask)
		}
	}
}

func TestForgottenTaskIsNotFound(t *testing.T) {
	j, _ := openTestJournal(t)
	if err := add(t, j, SentTask{ID: "aabb", Sent: time.Now()}).Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Find("aabb"); !errors.Is(err, ErrNoTask) {
		t.Errorf("%v, want %v", err, ErrNoTask)
	}
}

func TestJournalSaysWhatItCannotRead(t *testing.T) {
	j, dir := openTestJournal(t)
	mark := func(text string) string {
		p := checkedFile{rest: crc32.Checksum([]byte(text), castagnoli)}
		return string(p.seal(fmt.Sprintf(markFormat, 3, markOpen))) + text
	}
	for id, octets := range map[string]string{
		"a001": "", "a002": mark("{}")[:10], "a003": mark(""), "a004": mark("{\n"), "a005": strings.Repeat("x", 40) + "{}",
		"a006": mark("{\"task_id\":\"a005\"}\n"), "a007": mark("{\"task_id\":\"xyz\"}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, id+".task"), []byte(octets), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Find(id); err == nil || errors.Is(err, ErrNoTask) {
			t.Errorf("%s: %v", id, err)
		}
	}
	add(t, j, SentTask{ID: "b001", Sent: time.Now()})
	list, err := j.List()
	if err == nil || len(list) != 1 || list[0].ID != "b001" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAFlippedBitOfATaskIsAnErrorThatNamesTheFile(t *testing.T) {
	j, dir := openTestJournal(t)
	add(t, j, SentTask{ID: "b001", Sent: time.Now()})
	e := add(t, j, SentTask{ID: "a001", Kind: "k", Params: []string{"n=v"}, Input: []byte("input"), Sent: time.Now()})
	if err := e.Mark(108); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a001.task")
	octets, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(octets []byte, what string, at int) {
		if err := os.WriteFile(path, octets, 0o600); err != nil {
			t.Fatal(err)
		}
		if e, err := j.Find("a001"); err == nil {
			t.Errorf("%s at %d: after %d, done %v, %+v", what, at, e.After, e.Done, e.SentTask)
			e.Close()
		} else if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove") {
			t.Errorf("%s at %d: %v", what, at, err)
		}
		list, err := j.List()
		if len(list) != 1 || list[0].ID != "b001" || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s at %d: %d tasks, %v", what, at, len(list), err)
		}
	}
	for at := range octets {
		bit := byte(1) << (at % 8)
		octets[at] ^= bit
		refused(octets, "flipped", at)
		octets[at] ^= bit
		refused(octets[:at], "cut", at)
	}
	add(t, j, SentTask{ID: "c001", Sent: time.Now()}) // a file that cannot be read stops nothing
	if err := os.WriteFile(path, octets, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := find(t, j, "a001"); e.After != 108 {
		t.Errorf("after %d", e.After)
	}
}

func TestJournalForgetsTheOldest(t *testing.T) {
	j, _ := openTestJournal(t)
	now := time.Now()
	for i := range keepDone + 10 {
		e := add(t, j, SentTask{ID: fmt.Sprintf("d%05d", i), Sent: now.Add(time.Duration(i) * time.Second)})
		if err := e.Finish(true); err != nil {
			t.Fatal(err)
		}
	}
	add(t, j, SentTask{ID: "aaaa", Sent: now.Add(-keepOpen - time.Minute)})
	add(t, j, SentTask{ID: "bbbb", Sent: now.Add(-keepOpen + time.Minute)})
	if err := j.prune(now); err != nil {
		t.Fatal(err)
	}
	list, err := j.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.ID)
	}
	var want []string
	for i := range keepDone - 1 { // there is room for one that will be done
		want = append(want, fmt.Sprintf("d%05d", keepDone+9-i))
	}
	want = append(want, "bbbb")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
