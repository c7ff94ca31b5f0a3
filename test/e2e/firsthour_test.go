package e2e

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
)

// What the documents print is what the programs do: the script takes its commands from
// README.md and docs/, and holds what they say against what is wanted.
func TestFirstHourGoesAsTheDocumentsSay(t *testing.T) {
	effort.Release(t)
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../scripts/first-hour.sh", bin)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "everything said what it should") {
		t.Errorf("it ended early:\n%s", out)
	}
}
