package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// newCompletion makes the command that prints the completion of a shell.
func newCompletion(root *cobra.Command) *cobra.Command {
	name := root.Name()
	cmd := &cobra.Command{
		Use:     "completion",
		Short:   "Print the completion of a shell",
		Long:    "Print a script for a shell, which completes commands, flags and arguments. It never dials.",
		Example: "  source <(" + name + " completion bash)\n  " + name + ` completion zsh >"${fpath[1]}/_` + name + `"`,
	}
	for _, shell := range []struct {
		name, long, example string
		write               func(io.Writer) error
	}{
		{
			"bash", "The script needs the package bash-completion.",
			"  source <(%[1]s completion bash)\n  %[1]s completion bash >/etc/bash_completion.d/%[1]s",
			func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		},
		{
			"zsh", "Completion has to be on: autoload -U compinit; compinit.",
			"  source <(%[1]s completion zsh)\n  %[1]s completion zsh >\"${fpath[1]}/_%[1]s\"",
			root.GenZshCompletion,
		},
		{
			"fish", "",
			"  %[1]s completion fish | source\n  %[1]s completion fish >~/.config/fish/completions/%[1]s.fish",
			func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		},
		{
			"powershell", "Add the line to $PROFILE for every new session.",
			"  %[1]s completion powershell | Out-String | Invoke-Expression",
			root.GenPowerShellCompletionWithDesc,
		},
	} {
		cmd.AddCommand(&cobra.Command{
			Use:     shell.name,
			Short:   "Print the completion of " + shell.name,
			Long:    fmt.Sprintf("Print a script that completes %s in %s. %s", name, shell.name, shell.long),
			Example: fmt.Sprintf(shell.example, name),
			RunE:    func(cmd *cobra.Command, _ []string) error { return shell.write(cmd.OutOrStdout()) },
		})
	}
	return cmd
}
