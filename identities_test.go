package swp_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commands = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	example  = regexp.MustCompile(`(?m)^[\t ` + "`" + `]*(swpd|swp-client) .*$`)
	named    = regexp.MustCompile(`--name (spiffe://[a-z0-9./-]+)`)
	spoken   = regexp.MustCompile(`spiffe://[a-z0-9./-]+`)
)

// commandLines returns the commands that documents and help texts show, by the file.
func commandLines(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	for name, text := range documents(t) {
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			lines[name] += m[1]
		}
	}
	helps, err := filepath.Glob("cmd/*/internal/command/*.go")
	if err != nil || len(helps) == 0 {
		t.Fatalf("%d files of commands, %v", len(helps), err)
	}
	for _, file := range helps {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines[file] = strings.Join(example.FindAllString(string(text), -1), "\n")
	}
	return lines
}

// Whoever follows the documents has the identities that their commands name: some
// command that is shown makes each.
func TestIdentitiesInCommandsAreMadeByOne(t *testing.T) {
	lines := commandLines(t)
	made := make(map[string]bool)
	for _, text := range lines {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			made[m[1]] = true
			rest, _ := strings.CutPrefix(m[1], "spiffe://")
			domain, _, _ := strings.Cut(rest, "/")
			made["spiffe://"+domain+"/swp-client"] = true // init makes it beside the endpoint
		}
	}
	if len(made) < 6 {
		t.Errorf("only %d identities are made", len(made))
	}
	for file, text := range lines {
		for _, identity := range spoken.FindAllString(text, -1) {
			if !made[identity] {
				t.Errorf("%s: no command that is shown makes %s", file, identity)
			}
		}
	}
}
