package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/claimed"
)

// What every program has, of its own name: the version, manual pages and completion.
func TestProgramsDescribeThemselves(t *testing.T) {
	t.Parallel()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]string{"swpd": "run", "swp-client": "ping", "spec-vector-runner": ""} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(bin, name)
			version := run(t, program, "--version")
			if !regexp.MustCompile(`^` + name + ` \d+\.\d+\.\d+\S* .*go1\.\d+`).MatchString(version) {
				t.Errorf("--version prints %q", version)
			}
			if got := run(t, program, "version"); got != version+"conformance "+strings.Join(claimed.Classes(), ", ")+"\n" {
				t.Errorf("version prints %q, and --version %q", got, version)
			}
			if got := run(t, program, "version", "--json"); !strings.Contains(got, `"version":"`+strings.Fields(version)[1]+`"`) {
				t.Errorf("version --json prints %s", got)
			}
			pages := filepath.Join(t.TempDir(), "man1")
			run(t, program, "man", pages)
			for _, page := range []string{name, strings.TrimSuffix(name+"-"+command, "-")} {
				text, err := os.ReadFile(filepath.Join(pages, page+".1"))
				if err != nil || !strings.HasPrefix(string(text), ".TH ") || !strings.Contains(string(text), "\n.SH EXIT STATUS\n") {
					t.Errorf("the page %s: %.80q, %v", page, text, err)
				}
			}
			for shell, has := range map[string]string{
				"bash": "complete -o default -F __start_" + name, "zsh": "#compdef " + name, "fish": "complete -c " + name, "powershell": "-CommandName '" + name + "'",
			} {
				if got := run(t, program, "completion", shell); !strings.Contains(got, has) {
					t.Errorf("the completion of %s has no %q", shell, has)
				}
			}
			if command != "" {
				if got := run(t, program, "__complete", command[:1]); !regexp.MustCompile(`(?m)^` + command + `\t`).MatchString(got) {
					t.Errorf("%q is completed to %s", command[:1], got)
				}
			}
			out, err := exec.Command(program, "versoin").CombinedOutput()
			if code := exitCode(err); code != 2 || command != "" && !strings.Contains(string(out), "did you mean version?") {
				t.Errorf("a command that is not there: exit code %d, %s", code, out)
			}
		})
	}
}

// exitCode is what a command ended with.
func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // that of Run and Wait
		return exit.ExitCode()
	}
	return 0
}
