package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/plain"
)

func newCertShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [DIR|FILE]...",
		Short: "Show certificates and check them",
		Long: `Show certificates: the identity that peers see, the other names, the issuer, the
validity and the fingerprint; whether the key in the same directory belongs to the
certificate, and whether the ca.crt there has issued it. Without DIR or FILE the
certificates of a configuration are shown: its identity, its trust and that of its
partners; without a configuration those in pki in the current directory, else those
that swpd run makes. With --running the certificates in force in the swpd on this
machine, and the last ones of its partners. The exit code is 1 if one has a fault.`,
		Example: `  swpd cert show edge/pki
  swpd cert show acme.pem --json
  swpd cert show --config edge/swpd.yaml
  swpd cert show --config edge/swpd.yaml --running`,
	}
	file := configFlag(cmd)
	running := cmd.Flags().Bool("running", false, "ask the running swpd of the configuration")
	at := serverFlags(cmd)
	ca := cmd.Flags().String("ca", "", "`file` with the authorities for the check, default ca.crt in the directory of the certificate")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		infos, err := shown(cmd, args, *file, at, *ca, *running)
		if err != nil {
			return err
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), infos)
		} else {
			err = printInfos(cmd.OutOrStdout(), infos)
		}
		return errors.Join(err, wrong(infos))
	}
	return cmd
}

// shown returns what the arguments and flags of cert show mean.
func shown(cmd *cobra.Command, args []string, file string, at *server, ca string, running bool) ([]certinfo.Info, error) {
	switch {
	case running && (len(args) > 0 || ca != ""):
		return nil, &exitError{exitUsage, errors.New("--running asks a swpd, which takes no file and no --ca")}
	case !running && at.at != "":
		return nil, &exitError{exitUsage, errors.New("--admin is for --running")}
	case running:
		return inForce(file, at)
	case len(args) == 0:
		c, err := loadIdentity(cmd, file, theCertificates())
		if err != nil {
			return nil, err
		}
		return check.Certificates(c, time.Now())
	}
	var all []certinfo.Info
	for _, arg := range args {
		files := []certinfo.Files{certinfo.Beside(arg)}
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			if files, err = certinfo.In(arg); err != nil {
				return nil, cli.Unreadable(err)
			}
		}
		for _, f := range files {
			if ca != "" {
				f.CA = ca
			}
			infos, err := certinfo.Read(f, time.Now())
			if err != nil {
				return nil, &exitError{exitUsage, cli.Unreadable(err)}
			}
			all = append(all, infos...)
		}
	}
	return all, nil
}

// inForce asks a running swpd.
func inForce(file string, at *server) ([]certinfo.Info, error) {
	_, s, err := askStatus(at, file)
	if err != nil {
		return nil, err
	}
	return s.Certificates, nil
}

func wrong(infos []certinfo.Info) error {
	var all []error
	for _, i := range infos {
		if i.Problem != "" {
			all = append(all, fmt.Errorf("%s: %s", i.File, i.Problem))
		}
	}
	return errors.Join(all...)
}

func printInfos(out io.Writer, infos []certinfo.Info) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title, format string, args ...any) { _, _ = fmt.Fprintf(w, title+"\t"+format+"\n", args...) }
	some := func(title string, list []string) {
		if len(list) > 0 {
			row(title, "%s", strings.Join(list, " "))
		}
	}
	for n, i := range infos {
		if n > 0 {
			_, _ = fmt.Fprintln(w)
		}
		file := i.File
		if i.Number > 0 {
			file += fmt.Sprintf(", certificate %d", i.Number)
		}
		row("file", "%s", file)
		if i.Fingerprint == "" { // there is no certificate in it
			row("wrong", "%s", i.Problem)
			continue
		}
		switch {
		case i.Authority:
			row("authority", "%s", i.Subject)
		case i.Identity == "":
			row("identity", "none")
		default:
			row("identity", "%s", i.Identity)
		}
		some("URI", i.URIs)
		some("DNS", i.DNS)
		some("IP", i.IPs)
		row("issuer", "%s", i.Issuer)
		row("valid", "%s to %s, %s", day(i.NotBefore), day(i.NotAfter), left(i.NotAfter))
		some("usage", i.Usage)
		row("SHA-256", "%s", i.Fingerprint)
		if i.Key != "" {
			row("key", "%s is its own", i.Key)
		}
		if i.Vouched != "" {
			row("trust", "%s vouches for it", i.Vouched)
		}
		if i.Problem != "" {
			row("wrong", "%s", i.Problem)
		}
	}
	return w.Flush()
}

// left says how long it is until the end of a certificate.
func left(end time.Time) string {
	switch d := time.Until(end); {
	case d <= 0:
		return "over"
	case d < 48*time.Hour:
		return d.Round(time.Minute).String() + " left"
	default:
		return plain.Count(int(d.Hours()/24), "day") + " left"
	}
}

func newCertBundle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Print the file that a partner imports for this endpoint",
		Long: `Print the authorities of trust.ca that have issued the certificate of this endpoint, in
PEM form, after its identity and addresses as text. The partner saves the output as a
file, compares the fingerprints with yours over another channel, and imports it with
swpd init --partner FILE, or as trust of a new entry. It contains no secret.`,
		Example: `  swpd cert bundle --config edge/swpd.yaml > edge.pem
  swpd cert bundle --config edge/swpd.yaml --address swp+tls://edge.example.org:7777 > edge.pem
  swpd cert show edge.pem`,
	}
	file := configFlag(cmd)
	addresses := cmd.Flags().StringArray("address", nil, "`address` for the partner to dial, default the addresses of listeners; repeatable")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadIdentity(cmd, *file, theEndpoint())
		if err != nil {
			return err
		}
		b, err := check.Bundle(c, time.Now())
		if err != nil {
			return err
		}
		if len(*addresses) > 0 {
			if err := b.SetAddresses(*addresses); err != nil {
				return &exitError{exitUsage, err}
			}
		}
		if len(b.Addresses) == 0 {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "swpd: warning: no listener has an address that a partner can dial, so this endpoint has to dial the partner; or name an address with --address")
		}
		_, err = cmd.OutOrStdout().Write(b.Encode())
		return err
	}
	return cmd
}

// readInfos describes an identity that was just made.
func readInfos(f devpki.Files) (certinfo.Info, error) {
	infos, err := certinfo.Read(certinfo.Files{Cert: f.Cert, Key: f.Key, CA: f.CA}, time.Now())
	if err != nil {
		return certinfo.Info{}, err
	}
	return infos[0], wrong(infos)
}
