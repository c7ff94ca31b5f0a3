package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJoinAddsAPartnerAndLeavesTheRest(t *testing.T) {
	const access = "access:\n  rules:   # who\n    - identity: spiffe://a.example/**\n      profile: [mcp]\n  # agents follow\n  agents: []\n"
	for name, row := range map[string]struct{ text, want string }{
		"the first": {access + "mcp: {}", "    - {identity: \"spiffe://b.example/swpd\", profile: mcp, name: [shared, \"shared/**\"]}"},
		"one more":  {"partners:\n    # ours\n    old: {identity: spiffe://old.example/swpd}\n" + access, "    b:\n      identity: spiffe://b.example/swpd\n"},
	} {
		d := dir(t)
		if err := os.WriteFile(filepath.Join(d, "b.pem"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		j := Joined{Name: "b", Identity: "spiffe://b.example/swpd", Trust: "b.pem"}
		if err := j.add("swp+tls://127.0.0.1:7877"); err != nil {
			t.Fatal(err)
		}
		text, err := Join(filepath.Join(d, "swpd.yaml"), []byte(row.text), j)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(string(text), row.want) {
			t.Errorf("%s: %s", name, text)
		}
		for line := range strings.Lines(row.text) {
			if !strings.Contains(string(text), strings.TrimSuffix(line, "\n")) {
				t.Errorf("%s: %q is gone", name, line)
			}
		}
		if _, err := Join(filepath.Join(d, "swpd.yaml"), text, j); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("%s: the second time: %v", name, err)
		}
	}
}

func (j *Joined) add(address string) error {
	list, err := ParseListen(address)
	j.Addresses = append(j.Addresses, list...)
	return err
}

// What is laid out in another way is not guessed at: the error says what to write.
func TestJoinSaysWhatToWriteWhereItCannot(t *testing.T) {
	d := dir(t)
	if err := os.WriteFile(filepath.Join(d, "b.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"no rules":          "admin: off\n",
		"rules on one line": "access: {rules: [{identity: '**'}]}\n",
		"partners in flow":  "partners: {old: {identity: spiffe://old.example/swpd}}\naccess:\n  rules:\n    - identity: '**'\n",
	} {
		_, err := Join(filepath.Join(d, "swpd.yaml"), []byte(text), Joined{Name: "b", Identity: "spiffe://b.example/swpd", Trust: "b.pem"})
		if err == nil || !strings.Contains(err.Error(), "add to partners:\n  b:\n    identity: spiffe://b.example/swpd\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
