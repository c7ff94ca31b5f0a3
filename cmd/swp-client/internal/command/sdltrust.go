package command

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/trust"
)

func newSDLApprove(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve --sign FILE REGISTRY|PROPOSAL|@FILE|-",
		Short: "Sign a proposal for a trust registry, offline",
		Long: `Sign a proposal to change the trust registry of an endpoint, and print the proposal with the
signature; sdl propose sends it. The input is a registry (trusted_signing_keys,
required_kid_by_agent, allowed_kids_by_agent, revoked_kids, kid_not_after), or a proposal
that others have signed.

With --approver the signature is an approval, as sdl.trust.quorum of swpd requires it of
several approvers; without it that of the single key of sdl.trust.key. A signature covers the
registry, the id and whether the registry replaces the present one. Print the input before you
sign it: an approval is given for all of it.`,
		Example: `  swp-client sdl approve @registry.json --id 2026-11 --sign alice.key --approver alice >proposal.json
  swp-client sdl approve @proposal.json --sign bob.key --approver bob | swp-client sdl propose swp+tls://127.0.0.1:7777 - --from did:key:admin --to did:web:example.org --sign admin/sign.key`,
	}
	p := cmd.Flags()
	sign := p.String("sign", "", "`file` with the Ed25519 key that signs (required)")
	approver := p.String("approver", "", "`name` of the approver, as in the file of sdl.trust.quorum")
	id := p.String("id", "", "`id` of the proposal, for a registry (default: its hash)")
	replace := p.Bool("replace", false, "for a registry: it replaces the present one, and is not merged into it")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *sign == "" {
			return &usageError{"--sign is missing: name the file with the key that signs"}
		}
		text, err := cli.ReadFile(*sign)
		if err != nil {
			return err
		}
		key, err := seal.ParseSigningKey(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		v, err := f.readValue(args[0])
		if err != nil {
			return err
		}
		if v.Get("registry").IsNull() {
			v = canonical.Object(
				canonical.Member{Name: "op", Value: canonical.String("propose")},
				canonical.Member{Name: "merge", Value: canonical.Bool(!*replace)},
				canonical.Member{Name: "registry", Value: v},
			)
			if *id != "" {
				v = v.With("proposal_id", canonical.String(*id))
			}
		} else if *id != "" || *replace {
			return &usageError{"--id and --replace are for a registry; the input is a proposal, which says both already"}
		}
		proposal, err := trust.ReadProposal(v)
		if err != nil {
			return &usageError{err.Error()}
		}
		if _, _, err := trust.ReadKeyFile(proposal.Registry); err != nil {
			return &usageError{"the registry: " + err.Error()}
		}
		v = v.With("op", canonical.String("propose")).With("proposal_id", canonical.String(proposal.ID)).With("merge", canonical.Bool(proposal.Merge))
		if *approver == "" {
			return f.writeEnvelope(sdl.JSON, v.With("signature", canonical.String(proposal.Sign(key))))
		}
		approvals := []canonical.Value{canonical.Object(
			canonical.Member{Name: "approver", Value: canonical.String(*approver)},
			canonical.Member{Name: "signature", Value: canonical.String(proposal.Sign(key))},
		)}
		for a := range v.Get("approvals").All() {
			if name, _ := a.Get("approver").Text(); name != *approver {
				approvals = append(approvals, a)
			}
		}
		return f.writeEnvelope(sdl.JSON, v.With("approvals", canonical.Array(approvals...)))
	}
	return cmd
}

// readValue reads a JSON value.
func (f *flags) readValue(arg string) (canonical.Value, error) {
	octets, err := f.readInput(arg)
	if err != nil {
		return canonical.Value{}, err
	}
	v, err := canonical.ParseJSON(octets)
	if err != nil {
		return v, &usageError{err.Error()}
	}
	return v, nil
}

func newSDLPropose(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "propose ADDR[/PARTNER]|URL PROPOSAL|@FILE|-",
		Short: "Send a signed proposal for a trust registry",
		Long: `Send a proposal of sdl approve to an endpoint, in an envelope (trustsync.v1) that is secured
as the flags require, and print the payload of the answer: whether it was accepted, by whom it
was approved, and the registry in force. The same proposal again has no effect.

` + sdlWaysHelp + `

Exit status: 1 if the answer is an error, or the proposal was rejected.`,
		Example: `  swp-client sdl propose swp+tls://127.0.0.1:7777 @proposal.json --from did:key:admin --to did:web:example.org --sign admin/sign.key`,
	}
	s := &sdlSend{sealing: addSealing(cmd), ct: sdl.CTTrustSync}
	p := cmd.Flags()
	p.StringVar(&s.from, "from", "", "`agent_id` of the sender (required)")
	p.StringVar(&s.to, "to", "", "`agent_id` of the receiver (required)")
	s.trusting, s.ways = addTrusting(cmd, "answer"), addSDLWays(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.propose(cmd.Context(), f, args[0], args[1]) }
	return cmd
}

func (s *sdlSend) propose(ctx context.Context, f *flags, address, arg string) error {
	v, err := s.request(f, arg)
	if err != nil {
		return err
	}
	payload := v.Get("payload")
	proposal, err := trust.ReadProposal(payload)
	if err != nil {
		return &usageError{err.Error()}
	}
	if proposal.Signature == "" && len(proposal.Approvals) == 0 {
		return &usageError{"nobody has signed the proposal; sdl approve does"}
	}
	how, err := s.read(f)
	if err != nil {
		return err
	}
	believed, err := s.trusting.read(f)
	if err != nil {
		return err
	}
	if v, err = how.Seal(v); err != nil {
		return err
	}
	status := ""
	err = s.sendOnce(ctx, f, address, v, believed, func(answer *sdl.Envelope) { status, _ = answer.Payload.Get("status").Text() })
	if err == nil && status != "accepted" {
		return errors.New("the proposal was rejected")
	}
	return err
}
