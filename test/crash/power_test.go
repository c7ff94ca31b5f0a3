package crash

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/events"
)

// TestST02PowerCutLosesNothingAcknowledged cuts the power of a disk: a file
// system in a file, which is copied while swpd is stopped. The copy has what
// reached the disk; what only the page cache of the file system holds is not in
// it. That this shows the difference is seen with fsync off: then it has to lose
// what was acknowledged.
func TestST02PowerCutLosesNothingAcknowledged(t *testing.T) {
	t.Run("power", func(t *testing.T) {
		if lost := cutPower(t, "power"); lost > 0 {
			t.Errorf("%d acknowledged events are lost", lost)
		}
	})
	t.Run("process", func(t *testing.T) {
		for range 3 { // the cut may come just after a checkpoint
			if cutPower(t, "process") > 0 {
				return
			}
		}
		t.Error("without fsync nothing was lost: this test proves nothing")
	})
}

// cutPower returns how many events swpd had acknowledged and no longer held
// after the cut.
func cutPower(t *testing.T, level string) (lost uint64) {
	t.Helper()
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	makeDisk(t, disk)
	at := mount(t, disk)

	r := newRig(t, filepath.Join(at, "data"), "durability: "+level+"\n")
	if _, err := r.start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range 4 {
		p := post{Role: roleGiver, Number: n, Journals: dir}
		p.Name = p.nameOf(0)
		w, err := newWorker(p, r.as)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { w.produce(ctx) })
	}
	time.Sleep(2 * time.Second) // shorter than what a kernel waits before it writes by itself
	r.signal(syscall.SIGSTOP)
	command(t, "cp", "--sparse=always", disk, disk+".cut")
	acked := make(map[string]uint64)
	h, err := readAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range h.numbered {
		acked[made.id] = made.acked
	}
	r.kill()
	cancel()
	all.Wait()
	if len(acked) != 4 {
		t.Fatalf("acknowledged were %v", acked)
	}

	after := newRig(t, filepath.Join(mount(t, disk+".cut"), "data"), "durability: "+level+"\n")
	if level == "process" { // without fsync a later transaction can have reached the disk before an earlier one
		after.mayEnd = "-wal is damaged"
	}
	if _, err := after.start(); err != nil {
		if after.mayEnd != "" && strings.Contains(err.Error(), after.mayEnd) {
			t.Logf("%s: acknowledged %v, lost as swpd says: %v", level, acked, err)
			return 1
		}
		t.Fatal(err)
	}
	held := heldBy(t, after)
	after.kill()
	for producer, n := range acked {
		lost += n - min(n, held[producer])
	}
	t.Logf("%s: acknowledged %v, held after the cut %v", level, acked, held)
	return lost
}

// heldBy returns the last event of every producer, up to one that is published now. Each
// event has to be the next one of its producer.
func heldBy(t *testing.T, r *rig) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	last := numbered("last", 1)
	held := make(map[string]uint64)
	err := connected(ctx, r.dial, func(ctx context.Context, c *client.Client) error {
		p, err := c.Publisher(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		if err := errors.Join(p.Publish(ctx, last), p.Sync(ctx)); err != nil {
			return err
		}
		s, err := events.Open(ctx, c.Session, events.SubscribeOptions{After: new(uint64)})
		if err != nil {
			return err
		}
		defer s.Close()
		for {
			d, err := s.Recv(ctx)
			if err != nil {
				return err
			}
			for _, e := range d.Events {
				if bytes.Equal(e.EventID, last.EventID) {
					return nil
				}
				producer, _, _ := strings.Cut(string(e.EventID), "/")
				held[producer]++
				if want := numbered(producer, held[producer]); digestOf(&e) != digestOf(want) {
					t.Errorf("event %s came as the one after %d", e.EventID, held[producer]-1)
				}
			}
		}
	})
	if err != nil {
		t.Fatalf("what is held cannot be read: %v", err)
	}
	return held
}

func makeDisk(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 256<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", file).CombinedOutput(); err != nil {
		t.Skipf("a file system cannot be made here: %v %s", err, out)
	}
}

// mount mounts a file system in a file until the test ends.
func mount(t *testing.T, file string) string {
	t.Helper()
	at := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", file, at).CombinedOutput(); err != nil {
		t.Skipf("mounting is not permitted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return at
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", name, err, out)
	}
}
