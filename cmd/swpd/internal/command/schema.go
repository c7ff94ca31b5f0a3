package command

import (
	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon/config"
)

func newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: `Print the JSON Schema (draft 7) of swpd.yaml, or with --partner that of a file in
partners.d, with the meaning and the default of each key. An editor with a YAML language
server completes and checks keys with it; the first line of the file names the schema:

# yaml-language-server: $schema=swpd.schema.json

It does not know what several keys mean together, nor the ranges of numbers: swpd check
does.`,
		Example: `  swpd schema > swpd.schema.json
  swpd schema --partner > partners.d/partner.schema.json`,
	}
	partner := cmd.Flags().Bool("partner", false, "of a file in partners.d")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		text := config.Schema()
		if *partner {
			text = config.PartnerSchema()
		}
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}
