package command

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/internal/sdlaudit"
	"github.com/slimwire/swp/sdl/seal"
)

func newAuditVerifySDL() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify-sdl [FILE]",
		Short: "Verify the audit chain of A2A-SDL",
		Long: `Recompute the hashes of the audit chain that sdl.audit writes, and check the links
between its entries and their signatures. Each entry that was changed, removed, added or
moved is named, except entries that were removed at the end: compare the last entry_hash
with a receipt. FILE is by default sdl-audit.jsonl in the data directory of the
configuration; a missing file is an empty chain. A signature must be of a key of --key,
else of the key in sdl.sign of the configuration. Without a key signatures are counted
and not checked. The exit code is 1 if there is a fault.`,
		Example: `  swpd audit verify-sdl --config swpd.yaml --signed
  swpd audit verify-sdl --key acme.pub --json sdl-audit.jsonl`,
		Args: cobra.MaximumNArgs(1),
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON: each fault on a line, then the result")
	keys := cmd.Flags().StringArray("key", nil, "`file` with a public Ed25519 key, PEM or base64url; repeatable")
	signed := cmd.Flags().Bool("signed", false, "each entry must be signed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o := sdlaudit.Verification{Signed: *signed}
		if err := readChainKeys(&o, *keys); err != nil {
			return err
		}
		if len(args) == 0 || len(*keys) == 0 {
			needs := theTrail()
			if len(*keys) == 0 {
				needs.Files = append(needs.Files, "sdl.sign")
			}
			c, err := load(cmd, *file, needs)
			if err != nil {
				return err
			}
			o.Path = c.SDLAuditFile()
			if len(*keys) == 0 && c.SDL.Sign.Key != "" {
				if err := addConfiguredKey(&o, c); err != nil {
					return err
				}
			}
		}
		if len(args) > 0 {
			o.Path = args[0]
		}
		if o.Signed && len(o.Keys) == 0 {
			return cli.Usagef("audit: --signed needs the key of the endpoint: name it with --key, or its configuration with --config")
		}
		return verifyChain(cmd.Context(), cmd.OutOrStdout(), o, *asJSON)
	}
	return cmd
}

// readChainKeys reads the public keys of --key.
func readChainKeys(o *sdlaudit.Verification, files []string) error {
	for _, name := range files {
		text, err := cli.ReadFile(name)
		if err != nil {
			return err
		}
		key, err := seal.ParseVerifyKey(strings.TrimSpace(string(text)))
		if err != nil {
			return cli.Usagef("--key %s: %v", name, err)
		}
		o.Keys = append(o.Keys, sdlaudit.Key{Public: key})
	}
	return nil
}

// addConfiguredKey adds the public key that belongs to sdl.sign.
func addConfiguredKey(o *sdlaudit.Verification, c *config.Config) error {
	text, err := cli.ReadFile(c.SDL.Sign.Key)
	if err != nil {
		return err
	}
	key, err := seal.ParseSigningKey(strings.TrimSpace(string(text)))
	if err != nil {
		return cli.Usagef("sdl.sign.key: %v", err)
	}
	if public, ok := key.Public().(ed25519.PublicKey); ok {
		o.Keys = append(o.Keys, sdlaudit.Key{Public: public, Kid: c.SDL.Sign.Kid})
	}
	return nil
}

func verifyChain(ctx context.Context, out io.Writer, o sdlaudit.Verification, asJSON bool) error {
	var failed error
	o.Found = func(f sdlaudit.Finding) {
		switch {
		case failed != nil:
		case asJSON:
			failed = printJSONLine(out, f)
		default:
			_, failed = fmt.Fprintf(out, "%s:%d: %s\n", o.Path, f.Line, cli.Field(f.Text))
		}
	}
	r, err := sdlaudit.Verify(ctx, o)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if asJSON {
		err = printJSONLine(out, r)
	} else {
		err = printChain(out, &r, len(o.Keys) > 0)
	}
	switch {
	case err != nil:
		return err
	case r.Faults > 0:
		return fmt.Errorf("audit: faults: %d, in %s", r.Faults, o.Path)
	}
	return nil
}

func printChain(out io.Writer, r *sdlaudit.Result, keys bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title, format string, args ...any) { _, _ = fmt.Fprintf(w, title+"\t"+format+"\n", args...) }
	row("entries", "%d", r.Entries)
	row("faults", "%d", r.Faults)
	if keys {
		row("signed", "%d, %d verified", r.Signed, r.Verified)
	} else {
		row("signed", "%d, not verified: name the key with --key, or the configuration with --config", r.Signed)
	}
	row("last", "%s", orDash(r.Last))
	if r.Torn > 0 {
		row("incomplete", "%s at the end, of an entry that is not written yet; swpd removes it when it starts", plain.Count(r.Torn, "octet"))
	}
	return w.Flush()
}
