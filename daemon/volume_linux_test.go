package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
)

func TestST03FullVolumeIsNotReadyAndRecovers(t *testing.T) {
	dir := t.TempDir()
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
