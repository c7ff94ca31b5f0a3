package command

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/audit"
)

func newAudit(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Judge proofs of exchanges between endpoints, offline",
		Long:    `Judge what swpd audit prove has written, without a swpd and without its trail.`,
		Example: `  swp-client audit check exchange.json --ca acme-ca.crt`,
	}
	cmd.AddCommand(newAuditCheck(f))
	return cmd
}

// proven is the result of audit check.
type proven struct {
	Proven bool `json:"proven"`
	audit.Statement

	// Payloads that were given and have the digests of the proof.
	Payloads []string `json:"payloads,omitempty"`
}

func newAuditCheck(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE|-",
		Short: "Say whether a file of swpd audit prove proves an exchange",
		Long: `Verify a file of swpd audit prove, offline: that no octet of it was changed, that the
exchange is in the receipt, and that an endpoint has signed the receipt whose certificate an
authority of --ca vouches for. The file says what that endpoint has answered, or asked, by
SHA-256; --request and --answer compare a payload that was handed over with it. The answer
is the payloads of all its messages, one behind the other.

Exit status: 0 if it is proven, 1 with the reason if it is not.`,
		Example: `  swp-client audit check exchange.json --ca acme-ca.crt
  swp-client audit check exchange.json --ca acme-ca.crt --signer spiffe://acme.example/swpd --request request.json --answer answer.json
  swp-client audit check exchange.json --ca acme-ca.crt --json | jq .request_sha256`,
	}
	signer := cmd.Flags().String("signer", "", "`identity` that must have signed; default: any that an authority vouches for")
	request := cmd.Flags().String("request", "", "`file` with the payload of the request")
	answer := cmd.Flags().String("answer", "", "`file` with the payload of the answer")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p, err := f.checkProof(args[0], *signer)
		if err != nil {
			return err
		}
		result := proven{Proven: true, Statement: p.Statement}
		for _, row := range []struct{ what, file, sum string }{{"request", *request, p.Request}, {"answer", *answer, p.Answer}} {
			if row.file == "" {
				continue
			}
			if err := comparePayload(row.what, row.file, row.sum); err != nil {
				return err
			}
			result.Payloads = append(result.Payloads, row.what)
		}
		if f.asJSON {
			return f.printJSON(&result)
		}
		return result.print(f.out)
	}
	return takes(cmd, "ca")
}

// checkProof reads and verifies a file.
func (f *flags) checkProof(name, signer string) (*audit.Proof, error) {
	if f.ca == "" {
		return nil, &usageError{"name the authority of the endpoint that has signed: --ca FILE"}
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, &usageError{err.Error()}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &usageError{f.ca + " holds no certificate in PEM form"}
	}
	src := f.in
	if name != "-" {
		file, err := cli.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		src = file
	}
	octets, err := io.ReadAll(io.LimitReader(src, audit.MaxProof+1))
	if err != nil {
		return nil, err
	}
	trust := audit.TrustHolders(roots)
	if signer != "" {
		trust = audit.TrustOf(signer, roots)
	}
	return audit.CheckProof(octets, trust)
}

// errNoAnswer refuses a payload of an answer that the proof does not have.
var errNoAnswer = errors.New("audit: the proof says that there was no answer")

// comparePayload compares a payload with a digest of the proof.
func comparePayload(what, name, want string) error {
	if want == "" {
		return errNoAnswer
	}
	file, err := cli.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("audit: %s is not the %s of this exchange: its SHA-256 is %s, want %s", name, what, got, want)
	}
	return nil
}

func (p *proven) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title, format string, args ...any) { _, _ = fmt.Fprintf(w, title+"\t"+format+"\n", args...) }
	if p.Side == "asked" {
		row("proven", "%s has asked this of %s", visible(p.Signer), visible(p.Partner))
	} else {
		row("proven", "%s was asked this by %s, and has answered", visible(p.Signer), visible(p.Partner))
	}
	row("signed", "%s", p.SignedAt.Format(time.RFC3339Nano))
	row("exchange", "msg_id %s, profile %d, type %d", p.MsgID, p.Profile, p.MsgType)
	row("", "%s to %s, by its clock", p.Began.Format(time.RFC3339Nano), p.Ended.Format(time.RFC3339Nano))
	for _, sum := range []struct{ name, value string }{{"caller", p.Caller}, {"target", p.Target}} {
		if sum.value != "" {
			row(sum.name, "SHA-256 %s", sum.value)
		}
	}
	row("request", "SHA-256 %s", p.Request)
	if p.Answer != "" {
		row("answer", "SHA-256 %s, type %d", p.Answer, p.Answered)
	} else {
		row("answer", "none")
	}
	if !p.Complete {
		row("", "not complete: the exchange was lost or given up")
	}
	for _, one := range p.Payloads {
		row("payload", "the file has the SHA-256 of the %s", one)
	}
	return w.Flush()
}
