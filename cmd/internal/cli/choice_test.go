package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestAFlagWithAClosedListRefusesOtherValues(t *testing.T) {
	for value, want := range map[string]string{"b": "", "": "want a, b or c", "d": "want a, b or c", "A": "want a, b or c"} {
		cmd := &cobra.Command{Use: "x"}
		var got string
		Choice(cmd, &got, "kind", "a", "the `kind`", "a", "b", "c")
		if got != "a" || !strings.Contains(cmd.Flags().FlagUsages(), `--kind kind   the kind: a, b or c (default "a")`) {
			t.Fatalf("%q, %s", got, cmd.Flags().FlagUsages())
		}
		switch err := cmd.ParseFlags([]string{"--kind", value}); {
		case want == "" && (err != nil || got != value):
			t.Errorf("%q: %q, %v", value, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || got != "a"):
			t.Errorf("%q: %q, %v, want %s", value, got, err, want)
		}
	}
}
