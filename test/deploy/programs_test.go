// Package deploy_test checks deploy/helm and deploy/compose with the types of Kubernetes and Compose, and with the real
// programs. It is a module of its own, because their types are no dependencies of the product.
package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root is the directory of the repository.
const root = "../.."

// bin is where TestMain puts helm, swpd and swp-client. They stay there, and are linked again after a change.
const bin = root + "/bin/deploy"

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func build() error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-modfile=tools/helm/go.mod", "helm.sh/helm/v3/cmd/helm"},
		{"./cmd/swpd", "./cmd/swp-client"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-C", root, "-ldflags=-s -w", "-o", "bin/deploy/"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// program returns a command of one of the programs that were built.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + bin}
	return cmd
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
