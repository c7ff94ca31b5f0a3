package entrances

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASocketIsNotTakenFromOthers(t *testing.T) {
	dir := t.TempDir()
	file, taken := filepath.Join(dir, "file"), filepath.Join(dir, "taken")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", taken) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	for path, want := range map[string]string{file: "is no socket", taken: "another process listens", filepath.Join(dir, "none", "s"): "no such file"} {
		if got, err := ListenUnix(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", path, got, err, want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}
