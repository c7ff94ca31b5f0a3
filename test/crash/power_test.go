package crash

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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

	f := new(faults)
	w := newPublishing(f, 4, 0)
	r := newRig(t, filepath.Join(at, "data"), "durability: "+level+"\n")
	if _, err := r.start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { w.run(ctx, ctx, r.dial) })
	time.Sleep(2 * time.Second) // shorter than what a kernel waits before it writes by itself
	r.signal(syscall.SIGSTOP)
	command(t, "cp", "--sparse=always", disk, disk+".cut")
	var acked []uint64
	for i := range w.acked {
		acked = append(acked, w.acked[i].Load())
	}
	r.kill()
	cancel()
	all.Wait()
	for _, n := range acked {
		if n == 0 {
			t.Fatal("nothing was acknowledged")
		}
	}

	after := newRig(t, filepath.Join(mount(t, disk+".cut"), "data"), "durability: "+level+"\n")
	if _, err := after.start(); err != nil {
		t.Fatal(err)
	}
	held := w.held(t, after)
	after.kill()
	f.report(t)
	for i := range acked {
		lost += acked[i] - min(acked[i], held[i])
	}
	t.Logf("%s: acknowledged %v, held after the cut %v", level, acked, held)
	return lost
}

// held reads the events of every producer, up to one that is published now.
func (w *publishing) held(t *testing.T, r *rig) []uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	end := w.producers
	late := newFollower(w.faults, "late", w.producers+1)
	late.until = make([]uint64, w.producers+1)
	late.until[end] = 1
	err := connected(ctx, r.dial, func(ctx context.Context, c *client.Client) error {
		lane, err := c.Open(ctx)
		if err != nil {
			return err
		}
		p := events.NewPublisher(lane, confirm)
		defer p.Close()
		if err := p.Publish(ctx, numbered(end, 1)); err != nil {
			return err
		}
		if err := p.Sync(ctx); err != nil {
			return err
		}
		return late.follow(ctx, c)
	})
	if err != nil {
		t.Fatalf("what is held cannot be read: %v", err)
	}
	return late.have[:w.producers]
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
