package command

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
)

func newCred(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cred",
		Short: "Present, delegate and revoke credentials",
		Long: `Present credentials to an endpoint, delegate them and revoke them. An accepted
credential starts a chain, which lasts until it expires or is revoked. With --chain
other commands use that chain. FILE holds a credential or a delegation, - is standard
input; neither is given on the command line, where other users could see it. A line end
after a token is not part of it; other credentials are all octets of FILE.`,
		Example: `  swp-client cred present swp+tls://127.0.0.1:7777 token.jwt
  swp-client --chain 0f3c… rpc call swp+tls://127.0.0.1:7777 demo.echo '{}'
  swp-client cred delegate swp+tls://127.0.0.1:7777 0f3c… delegation.jwt --expires 10m
  swp-client cred revoke swp+tls://127.0.0.1:7777 0f3c…`,
	}
	cmd.AddCommand(newCredPresent(f), newCredDelegate(f), newCredRevoke(f))
	return cmd
}

func newCredPresent(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "present ADDR [FILE]",
		Short: "Present a credential, and print the id of its chain",
		Long: `Present a credential, and print the id of the chain that it starts. Presenting the same
credential again under the same id has no effect. The credential of type mtls is the
digest of the certificate of this client, without a FILE.`,
		Example: `  swp-client cred present swp+tls://127.0.0.1:7777 token.jwt
  swp-client cred present swp+tls://127.0.0.1:7777 --type mtls
  pass show api-key | tr -d '\n' | swp-client cred present swp+tls://127.0.0.1:7777 - --type opaque --json`,
	}
	var kind string
	cli.Choice(cmd, &kind, "type", cred.JWT, "`type` of the credential", cred.JWT, cred.MTLS, cred.Opaque)
	id := cmd.Flags().String("id", "", "chain_id in `hex` (default 16 random octets)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chain, err := parseChain("--id", *id)
		if err != nil {
			return err
		}
		if len(chain) == 0 {
			chain = profiles.NewMsgID()
		}
		credential, err := f.credential(kind, args[1:])
		if err != nil {
			return err
		}
		err = f.onCred(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			return c.PresentCredential(ctx, kind, credential, chain)
		})
		return f.sent(err, func(confirmed bool) error {
			if f.asJSON {
				return f.printJSON(map[string]any{"chain_id": hex.EncodeToString(chain), "confirmed": confirmed})
			}
			f.printf("%x\n", chain)
			return nil
		})
	}
	return takes(cmd, connects, traces, hints)
}

func newCredDelegate(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delegate ADDR CHAIN FILE",
		Short: "Add a delegation to a chain of this identity",
		Long: `Add a delegation to a chain of this identity. In a chain of tokens the delegation is a
token: its issuer is the subject of the previous token, and its sub is the delegate.`,
		Example: `  swp-client cred delegate swp+tls://127.0.0.1:7777 0f3c… delegation.jwt --expires 10m`,
	}
	expires := cmd.Flags().Duration("expires", time.Hour, "lifetime of the delegation; its parent may expire earlier")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chain, err := parseChain("CHAIN", args[1])
		if err != nil {
			return err
		}
		if *expires <= 0 {
			return &usageError{fmt.Sprintf("--expires is %v, want a duration above 0", *expires)}
		}
		delegation, err := f.secret(args[2], isToken)
		if err != nil {
			return err
		}
		return f.sent(f.onCred(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			return c.DelegateCredential(ctx, chain, delegation, time.Now().Add(*expires))
		}), f.showConfirmed)
	}
	return takes(cmd, connects, traces, hints)
}

func newCredRevoke(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ADDR CHAIN",
		Short: "Revoke a chain of this identity",
		Long: `Revoke a chain of this identity permanently, for every user of it. Presenting its
credential again under the same id does not restore it. An unknown chain is no error.`,
		Example: `  swp-client cred revoke swp+tls://127.0.0.1:7777 0f3c… --reason 'laptop lost'`,
	}
	reason := cmd.Flags().String("reason", "", "`text` that explains it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chain, err := parseChain("CHAIN", args[1])
		if err != nil {
			return err
		}
		return f.sent(f.onCred(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			return c.RevokeCredential(ctx, chain, *reason)
		}), f.showConfirmed)
	}
	return takes(cmd, connects, traces, hints)
}

// parseChain reads a chain_id; empty text is none.
func parseChain(what, text string) ([]byte, error) {
	chain, err := hex.DecodeString(text)
	if err != nil || len(chain) > cred.MaxChainID {
		return nil, &usageError{fmt.Sprintf("%s: %.80q is no chain_id, want up to %d hexadecimal digits", what, text, 2*cred.MaxChainID)}
	}
	return chain, nil
}

// credential returns the credential of a type from a file, or from the own certificate.
func (f *flags) credential(kind string, file []string) ([]byte, error) {
	switch {
	case kind == cred.MTLS && len(file) > 0:
		return nil, &usageError{"FILE has no effect beside --type mtls, whose credential is made from the certificate; leave it out"}
	case kind == cred.MTLS:
		id, err := f.findIdentity()
		if err != nil {
			return nil, err
		}
		return id.Digest()
	case len(file) == 0:
		return nil, &usageError{"FILE with the credential is missing; - is standard input"}
	}
	return f.secret(file[0], func([]byte) bool { return kind == cred.JWT })
}

// isToken reports whether octets, but for a line end, have the form of a signed token.
func isToken(octets []byte) bool { return tokenForm.Match(octets) }

var tokenForm = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+\r?\n$`)

// secret reads octets from a file, or from standard input, without the line end if that is
// not part of them.
func (f *flags) secret(name string, text func([]byte) bool) ([]byte, error) {
	from := f.in
	if name != "-" {
		file, err := cli.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	octets, err := io.ReadAll(io.LimitReader(from, cred.MaxCredential+2))
	if err != nil {
		return nil, err
	}
	if line, ended := bytes.CutSuffix(octets, []byte("\n")); ended && text(octets) {
		octets = bytes.TrimSuffix(line, []byte("\r"))
	}
	if len(octets) == 0 || len(octets) > cred.MaxCredential {
		return nil, &usageError{fmt.Sprintf("%s holds %d octets or more, want 1 to %d", name, len(octets), cred.MaxCredential)}
	}
	return octets, nil
}

// onCred connects, runs do within the timeout, and says more about what endpoints
// refuse.
func (f *flags) onCred(ctx context.Context, address string, do func(context.Context, *client.Client) error) error {
	err := f.on(ctx, address, do)
	switch answered(err, cred.Name).Code {
	case cred.CodeUnsupported:
		return advise(err, "That endpoint is not configured for such credentials (cred in its configuration).")
	case cred.CodeRevoked:
		return advise(err, "Show the credential under another id.")
	}
	return err
}
