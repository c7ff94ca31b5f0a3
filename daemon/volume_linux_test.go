package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/disk/disktest"
	"github.com/slimwire/swp/profiles/rpc"
)

// smallVolume returns a directory whose data is on a volume of its own, of 8 MiB.
func smallVolume(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	disktest.Small(t, filepath.Join(dir, "data"))
	return dir
}

func TestST03FullVolumeIsNotReadyAndRecovers(t *testing.T) {
	t.Parallel()
	dir := smallVolume(t)
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, "")
	s := r.mustDial(r.addrs[0])
	ballast := disktest.Fill(t, filepath.Join(dir, "data"))
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

func TestWithoutARecordNothingIsDone(t *testing.T) {
	t.Parallel()
	dir := smallVolume(t)
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, "")
	s := r.mustDial(r.addrs[0])
	ballast := disktest.Fill(t, filepath.Join(dir, "data"))
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
