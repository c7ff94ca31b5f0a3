package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageTemplate is the help of a command below its description.
const usageTemplate = `Usage:
  {{if index .Annotations "group"}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableInheritedFlags}}

Flags of several commands:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableSubCommands}}

More: {{.CommandPath}} COMMAND --help{{end}}
`

// nameDefaultFlags says in our words what the flags of every command do.
func nameDefaultFlags(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Usage = "print this help"
	cmd.InitDefaultVersionFlag()
	if flag := cmd.Flags().Lookup("version"); flag != nil && cmd.Version != "" {
		flag.Usage = "print the version"
	}
}

// helpFunc is help without the flags that have no effect in the command.
func (p *Program) helpFunc(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		for _, flag := range p.idle(cmd) {
			flag.Hidden = true
			defer func() { flag.Hidden = false }()
		}
		help(cmd, args)
	}
}

// idle returns the flags of Root that have no effect in a command, nor in any below it.
func (p *Program) idle(cmd *cobra.Command) (flags []*pflag.Flag) {
	if p.Effect == nil {
		return nil
	}
	var effective []string
	walk(cmd, func(cmd *cobra.Command) { effective = append(effective, p.Effect(cmd)...) })
	p.Root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && !slices.Contains(effective, flag.Name) {
			flags = append(flags, flag)
		}
	})
	return flags
}
