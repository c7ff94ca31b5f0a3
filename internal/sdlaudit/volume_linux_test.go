package sdlaudit_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/disk/disktest"
	"github.com/slimwire/swp/internal/sdlaudit"
)

// On a full volume nothing is added, and nothing of it stays in the file. The chain goes on when
// there is room again, which it finds by itself, once a second.
func TestAChainGoesOnWhenItsVolumeHasRoomAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	disktest.Small(t, dir)
	path, now := filepath.Join(dir, "chain.jsonl"), time.Unix(1_800_000_000, 0)
	var told []error
	c, err := sdlaudit.Open(sdlaudit.Options{
		Path: path, Size: 1 << 30, Now: func() time.Time { return now }, Failed: func(err error) { told = append(told, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	add(t, c, signer, 0)
	ballast := disktest.Fill(t, dir)
	n, full := 1, error(nil)
	for ; full == nil && n < 1000; n++ { // the last block of the file has room for some
		_, full = c.Add(who, event(n), signer)
	}
	n-- // the last one was not added
	if !errors.Is(full, syscall.ENOSPC) || !errors.Is(c.Err(), syscall.ENOSPC) || len(told) != 1 {
		t.Fatalf("entry %d: %v; the chain says %v, and has told %v", n, full, c.Err(), told)
	}
	if r, faults := verify(t, path, true); r.Entries != n || r.Torn != 0 || r.Faults != 0 {
		t.Errorf("full: %+v, want %d entries\n%s", r, n, faults)
	}
	if err := c.Ready(who); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: ready, %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second - 1)
	if err := c.Ready(who); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("before a second is over: %v", err)
	}
	now = now.Add(1)
	if err := c.Ready(who); err != nil || len(told) != 2 || told[1] != nil {
		t.Fatalf("with room again: %v; told %v", err, told)
	}
	add(t, c, signer, n)
	if r, faults := verify(t, path, true); r.Entries != n+1 || r.Torn != 0 || r.Faults != 0 {
		t.Errorf("with room again: %+v, want %d entries\n%s", r, n+1, faults)
	}
}
