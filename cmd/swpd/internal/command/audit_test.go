package command

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/internal/audit"
)

// odd is what a peer may write as the name of a method, for instance: it begins another line
// and changes the colour of a terminal.
const odd = "x\n99  2026-11-26T21:27:03.831Z  spiffe://example.org/admin  \x1b[32mok\x1b[0m\tz\u202e"

// oneLine fails if printed is not one line of characters that a terminal shows.
func oneLine(t *testing.T, what, printed string) {
	t.Helper()
	line, found := strings.CutSuffix(printed, "\n")
	if !found || strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		t.Errorf("%s is printed as %q", what, printed)
	}
}

func TestOP01RecordsArePrintedWithoutControlCharacters(t *testing.T) {
	for what, e := range map[string]audit.Entry{
		"a denial":        {Action: "exchange", Time: time.Now(), Identity: "spiffe://example.org/m", Profile: "rpc", Operation: odd, Name: odd, Outcome: "denied"},
		"a caller":        {Action: "exchange", Time: time.Now(), Identity: "spiffe://example.org/m", For: odd, Outcome: odd},
		"what was sent":   {Action: "exchange-sent", Time: time.Now(), Other: odd, Partner: odd, Outcome: "answered"},
		"what went on":    {Action: "exchange", Time: time.Now(), Name: odd, Partner: odd},
		"what a peer has": {Action: "receipt-finding", Time: time.Now(), Identity: odd, Outcome: odd, Of: 7, Reason: odd},
	} {
		var out strings.Builder
		if err := (&entryPrinter{out: &out}).print(&e); err != nil {
			t.Fatal(err)
		}
		oneLine(t, what, out.String())
	}
}

func TestOP01TheStatusIsPrintedWithoutControlCharacters(t *testing.T) {
	lines := func(warning string) int {
		var s daemon.Status
		s.Ready, s.Warnings = true, []string{warning}
		var out strings.Builder
		if err := printStatus(&out, &s); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("an escape sequence is printed: %q", out.String())
		}
		return strings.Count(out.String(), "\n")
	}
	if plain, odd := lines("x"), lines(odd); plain != odd {
		t.Errorf("a warning with a line break has %d lines more", odd-plain)
	}
}
