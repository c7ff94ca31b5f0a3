package command

import "github.com/spf13/cobra"

func newSDL(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sdl",
		Short: "Use A2A-SDL, and check its data files",
		Long: `Use A2A-SDL: envelopes in JSON or CBOR with a schema, optionally signed and
encrypted.`,
		Example: `  swp-client sdl send swp+tls://127.0.0.1:7777 {} --tool sys.ping --from did:key:caller --to did:web:example.org
  swp-client sdl keygen --agent did:key:caller caller
  swp-client sdl check cases/*.expect.json flows.jsonl`,
	}
	cmd.AddCommand(newSDLSend(f), newSDLListen(f), newSDLKeygen(f), newSDLSeal(f), newSDLOpen(f), newSDLApprove(f), newSDLPropose(f), newSDLCheck(f))
	return cmd
}
