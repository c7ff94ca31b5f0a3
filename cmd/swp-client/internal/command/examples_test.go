package command

import (
	"io"
	"strings"
	"testing"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/cmd/internal/cli/clitest"
)

func TestTheExamplesOfHelpAndDocumentsAreAccepted(t *testing.T) {
	program := func() *cli.Program {
		f := &flags{in: strings.NewReader(""), out: io.Discard, errOut: io.Discard}
		return &cli.Program{Root: newRoot(f), Arguments: usageArguments(), Effect: inEffect, Before: f.before}
	}
	n := 0
	for at, lines := range clitest.Examples(t, program(), "../../../..") {
		for _, args := range lines {
			n++
			if err := clitest.Accepts(program(), args); err != nil {
				t.Errorf("%s: swp-client %q: %v", at, args, err)
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d examples are found", n)
	}
	if clitest.Accepts(program(), []string{"state", "put", "swp+tls://127.0.0.1", "a", "b"}) == nil || clitest.Accepts(program(), []string{"ping", "--no-such-flag"}) == nil {
		t.Error("what is wrong is accepted")
	}
}
