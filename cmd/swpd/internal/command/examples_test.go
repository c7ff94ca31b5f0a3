package command

import (
	"testing"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/cmd/internal/cli/clitest"
)

func TestTheExamplesOfHelpAndDocumentsAreAccepted(t *testing.T) {
	program := func() *cli.Program { return &cli.Program{Root: newRoot("test")} }
	n := 0
	for at, lines := range clitest.Examples(t, program(), "../../../..") {
		for _, args := range lines {
			n++
			if err := clitest.Accepts(program(), args); err != nil {
				t.Errorf("%s: swpd %q: %v", at, args, err)
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d examples are found", n)
	}
}
