package swp_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
)

// printed compares a table with the one in a document between two comments, the first of which names the table and the
// test. With -update it writes the table.
func printed(t *testing.T, file, name, table string) {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- %s: go test . -run %s -update -->\n", name, t.Name()), fmt.Sprintf("<!-- end of %s -->", name)
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(octets), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table: %s", file, begin)
	}
	text := before + begin + "\n" + table + "\n" + end + after
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(octets) {
		t.Errorf("%s has another table of %s (go test . -run %s -update)", file, name, t.Name())
	}
}

// The table of the causes of refusals in docs/partners.md is the one of package causes.
func TestTheCausesOfRefusalsAreDocumented(t *testing.T) {
	printed(t, "docs/partners.md", "causes", causes.Table())
}

// The matrix of refusals in docs/partners.md has each cause. TestPR19EachCauseReachesTheRefusedSide and
// TestPR19TheCauseOfARefusalReachesTheRefusedSide, both of package daemon, show its cells.
func TestTheMatrixOfRefusalsIsDocumented(t *testing.T) {
	const same = "the same"
	restart := map[causes.Cause]string{ // of the partner
		causes.Suspended: same, causes.Revoked: same, causes.Ended: same, causes.Denied: same, causes.Untrusted: same, causes.Unsaid: same,
		causes.Full:     "the link is up if there is room then",
		causes.Draining: "the link is up",
	}
	var b strings.Builder
	b.WriteString("| cause | error of a call | the call waits | status, page and `/readyz` | metric | after a restart of this endpoint | after a restart of the partner |\n|---|---|---|---|---|---|---|\n")
	for _, r := range causes.All() {
		fault, waits := profiles.LinkFault(profiles.DetailLinkDown, "", r.Passes, nil), fmt.Sprintf("in the first %v without the link", profiles.LinkWait)
		if r.Lasts {
			waits = "no"
		}
		code := "`" + fault.Code.String() + "`"
		if fault.Retryable {
			code += ", retryable"
		}
		if restart[r.Cause] == "" {
			t.Errorf("a restart after %s has no text", r.Name)
		}
		fmt.Fprintf(&b, "| `%s` | %s, with words and remedy | %s | words and remedy | `swpd_partner_refused{cause=\"%s\"}` | %s | %s |\n", r.Name, code, waits, r.Name, same, restart[r.Cause])
	}
	printed(t, "docs/partners.md", "matrix", b.String())
}
