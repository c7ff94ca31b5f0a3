package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/slimwire/swp/internal/disk"
)

func TestWhereADirectoryCanBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, can := range map[string]bool{
		dir: true, filepath.Join(dir, "new", "deep"): true, file: false, filepath.Join(file, "below"): false,
		"/proc/x": runtime.GOOS != "linux", "/sys/x": runtime.GOOS != "linux",
	} {
		if err := disk.CanHold(path); (err == nil) != can {
			t.Errorf("%s: %v, want %v", path, err, can)
		}
	}
	if err := disk.CanHold(file); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
}
