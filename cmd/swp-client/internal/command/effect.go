package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// effect is a set of flags of root that take effect together. A command has those of
// its connection, if its usage line begins with an address, or those that takes
// names.
type effect string

const (
	connects effect = "identity cert key ca expect timeout verbose" // of a connection
	traces   effect = "traceparent tracestate"                      // a trace context is sent ahead
	hints    effect = "policy"                                      // policy hints are sent ahead
	chains   effect = "chain"                                       // the chain of credentials is named in what is done
	always   effect = "json"
)

// effectMark is where a command keeps what takes has said.
const effectMark = "flags"

// takes says which flags of root take effect in a command, and returns it.
func takes(cmd *cobra.Command, effects ...effect) *cobra.Command {
	var names []string
	for _, e := range effects {
		names = append(names, string(e))
	}
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[effectMark] = strings.Join(names, " ")
	return cmd
}

// inEffect returns the flags of root that take effect in a command.
func inEffect(cmd *cobra.Command) []string {
	said, ok := cmd.Annotations[effectMark]
	if !ok && strings.Contains(cmd.Use, " "+addrPlain) {
		said = string(connects + " " + traces + " " + hints + " " + chains)
	}
	return append(strings.Fields(said), string(always))
}

// everywhere reports whether endpoints of every version check the chain that a command names:
// those of profiles that takes gives chains.
func everywhere(cmd *cobra.Command) bool {
	return strings.Contains(cmd.Annotations[effectMark], string(chains))
}

// checkEffect refuses a flag of root that has no effect in a command.
func (f *flags) checkEffect(cmd *cobra.Command) error {
	effective, refused := inEffect(cmd), ""
	cmd.Root().PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !slices.Contains(effective, flag.Name) {
			refused = flag.Name
		}
	})
	switch {
	case refused == "":
	case !slices.Contains(effective, "timeout"):
		return &usageError{fmt.Sprintf("--%s has no effect in %q, which connects to nothing; leave it out", refused, cmd.CommandPath())}
	default:
		return &usageError{fmt.Sprintf("--%s has no effect in %q; leave it out", refused, cmd.CommandPath())}
	}
	if f.timeout <= 0 {
		return &usageError{fmt.Sprintf("--timeout %v: want a duration above 0, such as 10s", f.timeout)}
	}
	return nil
}
