package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/rpc"
)

// smallVolume returns a directory whose data is on a volume of its own, of 8 MiB.
func smallVolume(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small volume cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestST03FullVolumeIsNotReadyAndRecovers(t *testing.T) {
	t.Parallel()
	dir := smallVolume(t)
	data := filepath.Join(dir, "data")
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, "")
	s := r.mustDial(r.addrs[0])
	ballast := filepath.Join(data, "ballast")
	fill(t, ballast)
	r.await("the store cannot be written: the volume is full")
	if status, body := r.get("/readyz"); status != http.StatusServiceUnavailable || !strings.HasPrefix(body, "store: ") || !strings.Contains(body, "full") {
		t.Errorf("full: /readyz says %d %q", status, body)
	}
	if status, body := r.get("/livez"); status != http.StatusOK {
		t.Errorf("full: /livez says %d %q", status, body)
	}
	if err := echo(t, s); err != nil {
		t.Errorf("full: what needs no store: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	r.await("the store can be written again")
	if _, body := r.get("/readyz"); body != "ready\n" {
		t.Errorf("with space again: /readyz says %q", body)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// fill writes a file until the volume is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

func TestWithoutARecordNothingIsDone(t *testing.T) {
	t.Parallel()
	dir := smallVolume(t)
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, "")
	s := r.mustDial(r.addrs[0])
	ballast := filepath.Join(dir, "data", "ballast")
	fill(t, ballast)
	var refused error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, refused = rpc.Call(t.Context(), s.Session, "swp.agents.list", nil); refused != nil && strings.Contains(refused.Error(), "audit") {
			break
		}
	}
	if refused == nil || !strings.Contains(refused.Error(), "the volume of this endpoint's audit trail is full") {
		t.Fatalf("a call without room for its record: %v", refused)
	}
	if err := echo(t, s); err != nil {
		t.Errorf("what has no record: %v", err)
	}
	if status, body := r.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "audit records") {
		t.Errorf("/readyz says %d %q", status, body)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	r.await("audit records are written again")
	if _, err := rpc.Call(t.Context(), s.Session, "swp.agents.list", nil); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
