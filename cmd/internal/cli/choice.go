package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is the value of a flag that is one of a closed list.
type choice struct {
	to     *string
	values []string
}

// Choice adds a flag whose value is one of a list, of which value is the default. Another
// value is refused while flags are read, with the list. Completion proposes the list, and
// the help ends with it.
func Choice(cmd *cobra.Command, to *string, name, value, usage string, values ...string) {
	*to = value
	cmd.Flags().Var(&choice{to, values}, name, usage+": "+or(values))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (c *choice) Set(value string) error {
	if !slices.Contains(c.values, value) {
		return fmt.Errorf("want %s", or(c.values))
	}
	*c.to = value
	return nil
}

func (c *choice) String() string { return *c.to }
func (*choice) Type() string     { return "string" }

// or lists values: a, b or c.
func or(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
