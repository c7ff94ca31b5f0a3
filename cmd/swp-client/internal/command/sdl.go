package command

import "github.com/spf13/cobra"

func newSDL(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sdl",
		Short: "Speak A2A-SDL, and check data of it",
		Long: `Speak A2A-SDL: envelopes in JSON or CBOR, with their schema, that may be signed and
encrypted.`,
		Example: `  swp-client sdl check cases/*.expect.json flows.jsonl`,
	}
	cmd.AddCommand(newSDLCheck(f))
	return cmd
}
