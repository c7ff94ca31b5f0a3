package command

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/invitation"
	"github.com/slimwire/swp/internal/disk"
)

// inviteDays is how long an invitation is accepted by default.
const inviteDays = 14

// offerFlags are the flags for the rights of a partner here and for its addresses to dial.
type offerFlags struct {
	offers, addresses *[]string
	days              *int
}

func addOfferFlags(cmd *cobra.Command) offerFlags {
	f := cmd.Flags()
	return offerFlags{
		f.StringArray("offer", nil, "`PROFILE:NAME` that the partner may use here, such as mcp:files, mcp:files/read_file, rpc:orders.find, a2a:planner; repeatable"),
		f.StringArray("address", nil, "`address` for the partner to dial, default the addresses of listeners; repeatable"),
		f.Int("days", inviteDays, "`days` for which the invitation is accepted"),
	}
}

func (f *offerFlags) rules() ([]config.PartnerRule, error) {
	var list []config.PartnerRule
	for _, text := range *f.offers {
		r, err := config.ParseOffer(text)
		if err != nil {
			return nil, cli.Usagef("--offer: %v", err)
		}
		list = append(list, r)
	}
	return list, nil
}

// make makes an invitation by this endpoint.
func (f *offerFlags) make(cmd *cobra.Command, c *config.Config, offers []config.PartnerRule, invited string) (*invitation.Invitation, error) {
	if *f.days < 1 || *f.days > 366 {
		return nil, cli.Usagef("--days: is %d, want 1 to 366", *f.days)
	}
	now := time.Now()
	b, err := check.Bundle(c, now)
	if err != nil {
		return nil, err
	}
	if len(*f.addresses) > 0 {
		if err := b.SetAddresses(*f.addresses); err != nil {
			return nil, &exitError{exitUsage, err}
		}
	}
	if len(b.Addresses) == 0 {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "swpd: warning: no listener has an address that a partner can dial, so this endpoint has to dial the partner; or name an address with --address")
	}
	for _, server := range unknownServers(c, offers) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "swpd: warning: the partner is offered the MCP server %s, which is not in this configuration\n", cli.Field(server))
	}
	i := invitation.New(nameOf(b.Identity), b, offers, now.AddDate(0, 0, *f.days))
	i.Invited = invited
	return i, nil
}

// unknownServers returns the MCP servers that are offered by name and are not there.
func unknownServers(c *config.Config, offers []config.PartnerRule) (list []string) {
	for _, r := range offers {
		if !slices.Equal(r.Profile, config.List{"mcp"}) || len(r.Name) == 0 {
			continue
		}
		server, _, _ := strings.Cut(r.Name[0], "/")
		_, there := c.MCP.Servers[server]
		if _, partner := c.Partners[server]; !there && !partner && !strings.Contains(server, "*") {
			list = append(list, server)
		}
	}
	return list
}

func newPartnerInvite() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "invite NAME",
		Short: "Print an invitation for a partner",
		Long: `Print a file that invites another endpoint to become the partner NAME: the identity, the
addresses and the authority of this endpoint, and what the partner may do here. It
contains no secret. What the partner may do are the rules of --offer, in force when its reply
is accepted, and nothing else, also where rules for everybody would give it more; for a
partner that is configured they are the rules for its identity.

With --identity no other endpoint can accept the invitation, or answer it. Without, a reply
of any endpoint is taken whose identity is not claimed here: by this endpoint, by another
partner, or in the access rules.

The invitation is kept as partners.d/NAME.invited until then. A new one for the same name
replaces it.

Tell the fingerprint to the operator of the partner over another channel.`,
		Example: `  swpd partner invite beta --config swpd.yaml --offer mcp:files --out beta.invitation
  swpd partner invite beta --config swpd.yaml --identity spiffe://beta.example/swpd --offer mcp:files --out beta.invitation
  swpd partner invite beta --config swpd.yaml --offer rpc:orders.find --offer mcp:files/read_file --days 7 --out beta.invitation`,
		Args: cobra.ExactArgs(1),
	}
	file := configFlag(cmd)
	o := addOfferFlags(cmd)
	who := cmd.Flags().String("identity", "", "`identity` of the partner, such as spiffe://beta.example/swpd: no other endpoint can accept")
	to := cmd.Flags().String("out", "-", "new `file` to write, or - for standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadPartners(cmd, *file, thePartners(*who != ""))
		if err != nil {
			return err
		}
		name := args[0]
		offers, err := o.rules()
		if err != nil {
			return err
		}
		known, is := p.conf.Partners[name]
		if is && *who != "" && *who != known.Identity {
			return cli.Usagef("--identity: partner %s is %s", name, known.Identity)
		}
		switch why := known.Barred(name, time.Now()); {
		case is && known.State == config.StateRevoked:
			return &exitError{exitUsage, fmt.Errorf("%s; invite under another name, and accept the reply with --again", why)}
		case is && known.Ended(time.Now()):
			return &exitError{exitUsage, p.tooLate(name)}
		case is && why != "":
			return &exitError{exitUsage, fmt.Errorf("%s; resume it, or invite under another name", why)}
		case is && len(offers) > 0:
			return cli.Usagef("--offer: partner %s is configured, and the rules for %s say what it may do; change them instead", name, known.Identity)
		case is:
			if offers, err = rulesFor(p.conf, known.Identity); err != nil {
				return err
			}
		default:
			if err := p.tryOffers(name, *who, offers); err != nil {
				return err
			}
			if err := p.foresee(cmd.ErrOrStderr(), name, *who); err != nil {
				return err
			}
		}
		if is {
			*who = known.Identity
		}
		i, err := o.make(cmd, p.conf, offers, *who)
		if err != nil {
			return err
		}
		text := i.Encode()
		if err := writeOut(cmd, *to, text); err != nil {
			return err
		}
		if !is {
			if err := p.put(p.invited(name), text, true); err != nil {
				return removeOut(*to, err)
			}
		}
		told := cmd.OutOrStdout()
		if *to == "-" {
			told = cmd.ErrOrStderr()
		} else {
			_, _ = fmt.Fprintf(told, "made %s\n", *to)
		}
		_, _ = fmt.Fprintf(told, "fingerprint of the invitation: %s; tell it to the partner\n", i.Sum)
		return nil
	}
	return cmd
}

// tryOffers refuses rules that are wrong, and a name or an identity that is. identity may be empty.
func (p *partners) tryOffers(name, identity string, offers []config.PartnerRule) error {
	n := config.NewPartner{Identity: cmp.Or(identity, "spiffe://to-be-known.invalid/swpd"), Allow: offers}
	_, err := p.with(config.Drafts{name: n.Text()})
	var problems config.Problems
	if errors.As(err, &problems) { // the places of some are in a file that does not exist
		lines := make([]string, len(problems))
		for i, problem := range problems {
			n := 0
			if _, err := fmt.Sscanf(problem.Key, "partners."+name+".allow[%d]", &n); err == nil {
				problem.Where, problem.Key = "--offer", offers[n].String()
			} else if problem.Key == "partners."+name+".identity" {
				problem.Where, problem.Key = "", "--identity"
			} else if strings.HasPrefix(problem.Key, "partners."+name) {
				problem.Where, problem.Key = "", "NAME"
			}
			lines[i] = problem.String()
		}
		err = errors.New(strings.Join(lines, "\n"))
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

// foresee refuses an invitation that no endpoint can accept, and warns of the conditions for its reply. identity
// may be empty.
func (p *partners) foresee(warnings io.Writer, name, identity string) error {
	if identity == "" {
		return nil
	}
	names, err := check.Claims(p.conf, time.Now())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	o := ownership{conf: p.conf, file: p.file}
	names.Owns = o.owns
	condition, err := names.Foresee(name, identity)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("--identity: %w", err)}
	}
	for _, text := range append(o.unknown, condition) {
		if text != "" {
			_, _ = fmt.Fprintf(warnings, "swpd: warning: %s\n", text)
		}
	}
	return nil
}

// rulesFor returns the rules for an identity.
func rulesFor(c *config.Config, identity string) (list []config.PartnerRule, err error) {
	may, err := check.As(c, identity)
	if err != nil {
		return nil, err
	}
	return rulesOf(may.Rules), nil
}

func rulesOf(list []check.Permission) (rules []config.PartnerRule) {
	for _, r := range list {
		rules = append(rules, config.PartnerRule{For: r.For, Profile: notAny(r.Profile), Operation: notAny(r.Operation), Name: notAny(r.Name)})
	}
	return rules
}

// notAny returns patterns; none for those that match everything.
func notAny(patterns []string) []string {
	if slices.Contains(patterns, "**") {
		return nil
	}
	return patterns
}

// writeOut writes a new file, or to standard output.
func writeOut(cmd *cobra.Command, to string, text []byte) error {
	if to == "-" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	err := disk.Create(to, text, nil)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("%s exists; remove it, or name another file", to)
	}
	return err
}

// removeOut removes the file that writeOut has made, after an error.
func removeOut(to string, err error) error {
	if to == "-" {
		return err
	}
	return errors.Join(err, os.Remove(to))
}

// acceptance is what swpd partner accept is asked for.
type acceptance struct {
	partners
	name, fingerprint, reply string
	identity                 string // that the partner must have; empty: any that is not claimed here
	validUntil, reviewBy     string
	yes, again, ownsData     bool
	offers                   offerFlags

	invitation *invitation.Invitation
	record     string // file of the invitation that it answers
	old        string // name of the revoked partner with its identity
	allow      []config.PartnerRule
	config     *config.Config // with the partner
	unknown    []string       // warnings: what could not be asked
}

func newPartnerAccept() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accept FILE",
		Short: "Accept the invitation, or the reply, of a partner",
		Long: `Show an invitation: who invites, its fingerprint, what it offers, and what it may do here;
and after a yes write partners.d/NAME.yaml and the authority of the partner beside it. The
certificates, partners and access rules of the configuration are checked before. Nothing is
overwritten.

With --reply FILE the answer is written as well: the invitation of this endpoint, with what
--offer names. The inviting endpoint accepts it with the same command; what the partner may do
there was said by its own invitation.

An invitation that has ended, was damaged, has an unknown version, or invites another endpoint
is refused, and a reply to an invitation that this endpoint has not made, or that was answered
before. So is a partner whose identity is claimed here: in the trust domain of this endpoint or
of another partner it needs their authorities, and where access rules name it, --identity has to
say that it is meant. An identity that owns data here is taken only under the authorities with
which it was a partner when the data came, or with --owns-data. In scripts use
--yes and --fingerprint: without somebody who compares it, the fingerprint must be given.`,
		Example: `  swpd partner accept acme.invitation --config swpd.yaml --offer rpc:orders.find --reply acme.reply
  swpd partner accept acme.reply --config swpd.yaml
  swpd partner accept acme.invitation --config swpd.yaml --yes --fingerprint 1f0c6a3d8c1e4b6f9a57e2c4d0b8a6f3e5d7c9b1a3f5e7d9c1b3a5f7e9d1c3b5`,
		Args: cobra.ExactArgs(1),
	}
	file := configFlag(cmd)
	a := acceptance{offers: addOfferFlags(cmd)}
	f := cmd.Flags()
	f.StringVar(&a.name, "name", "", "`name` of the partner here, default as it proposes, or as it was invited")
	f.StringVar(&a.reply, "reply", "", "new `file` for the answer, or - for standard output")
	f.StringVar(&a.identity, "identity", "", "`identity` that the partner must have, default any that is not claimed here, or as it was invited")
	f.StringVar(&a.fingerprint, "fingerprint", "", "the `fingerprint` that the partner has told; another one is refused")
	f.StringVar(&a.validUntil, "valid-until", "", "last `day` of the partnership, such as 2027-12-31; default without end")
	f.StringVar(&a.reviewBy, "review-by", "", "`day` by which it is to be reviewed")
	f.BoolVar(&a.yes, "yes", false, "do not ask; needs --fingerprint")
	f.BoolVar(&a.again, "again", false, "accept an identity whose partnership was revoked")
	f.BoolVar(&a.ownsData, "owns-data", false, "accept an identity that owns data here under other authorities: the partner gets that data")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadPartners(cmd, *file, thePartners(true))
		if err != nil {
			return err
		}
		a.partners = *p
		return a.run(cmd, args[0])
	}
	return cmd
}

func (a *acceptance) run(cmd *cobra.Command, file string) (err error) {
	if a.yes && a.fingerprint == "" {
		return cli.Usagef("--yes needs --fingerprint: somebody has to compare it with the partner")
	}
	if a.invitation, err = readInvitation(file); err != nil {
		return err
	}
	for _, step := range []func() error{a.held, a.match, a.claimed} {
		if err := step(); err != nil {
			return &exitError{exitUsage, fmt.Errorf("%s: %w", file, err)}
		}
	}
	var reply *invitation.Invitation
	if a.reply != "" {
		if reply, err = a.offers.make(cmd, a.conf, a.allow, a.invitation.Identity); err != nil {
			return err
		}
		reply.Answers = a.invitation.Sum
	}
	trust, text, err := a.text()
	if err != nil {
		return err
	}
	made := false
	switch err := a.put(trust, []byte(a.invitation.Trust), false); {
	case err == nil:
		made = true
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	undo := func(err error) error {
		if made {
			err = errors.Join(err, os.Remove(trust))
		}
		return err
	}
	warnings, err := a.check(text)
	if err != nil {
		return undo(&exitError{exitUsage, err})
	}
	out := cmd.OutOrStdout()
	if a.reply == "-" {
		out = cmd.ErrOrStderr()
	}
	if err := a.show(out, warnings); err != nil {
		return undo(err)
	}
	if err := a.agree(cmd); err != nil {
		return undo(err)
	}
	if reply != nil { // first: after an error there is neither a partner nor a reply
		if err := writeOut(cmd, a.reply, reply.Encode()); err != nil {
			return undo(err)
		}
	}
	to := config.PartnerFile(a.file, a.name)
	err = a.put(to, text, a.old == a.name)
	if errors.Is(err, fs.ErrExist) {
		err = cli.Usagef("%s exists; choose another --name, or remove it", to)
	}
	if err != nil {
		if reply != nil {
			err = removeOut(a.reply, err)
		}
		return undo(err)
	}
	_, _ = fmt.Fprintf(out, "made %s\n", to)
	if a.record != "" {
		if err := os.Remove(a.record); err != nil {
			return err
		}
	}
	if a.old != "" && a.old != a.name {
		if err := os.Remove(a.conf.PartnerFiles[a.old]); err != nil {
			return err
		}
	}
	if reply != nil {
		if a.reply != "-" {
			_, _ = fmt.Fprintf(out, "made %s\n", a.reply)
		}
		_, _ = fmt.Fprintf(out, "fingerprint of the reply: %s; tell it to the partner\n", reply.Sum)
	}
	return a.tell(out, cmd.ErrOrStderr(), "partners."+a.name)
}

// held refuses an invitation that has ended, or has another fingerprint than was told.
func (a *acceptance) held() error {
	if err := a.invitation.Ended(time.Now()); err != nil {
		return err
	}
	told := strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(a.fingerprint))
	if told != "" && told != a.invitation.Sum {
		return fmt.Errorf("has the fingerprint %s, and --fingerprint is another one: it is not the file that the partner has made", a.invitation.Sum)
	}
	return nil
}

// match finds the name and the rights of the partner, and the invitation that a reply answers.
func (a *acceptance) match() error {
	i := a.invitation
	proposed := i.Name
	var err error
	if a.allow, err = a.offers.rules(); err != nil {
		return err
	}
	if i.Answers != "" {
		all, err := a.invitations()
		if err != nil {
			return err
		}
		found := ""
		for name, made := range all {
			if made.Sum == i.Answers {
				found = name
			}
		}
		switch {
		case found == "":
			return errors.New("answers an invitation that this endpoint has not made, that was answered before, or that another one has replaced; invite again")
		case len(a.allow) > 0:
			return cli.Usagef("--offer has no effect with a reply: the invitation has said what the partner may do; change allow in its file afterwards")
		case a.reply != "":
			return cli.Usagef("--reply has no effect with a reply: the partner has accepted this endpoint already")
		}
		if err := all[found].Ended(time.Now()); err != nil {
			return fmt.Errorf("answers an invitation that %w", err)
		}
		if invited := all[found].Invited; invited != "" && invited != i.Identity {
			return fmt.Errorf("is of %s, and the invitation that it answers was for %s", i.Identity, invited)
		}
		proposed, a.record, a.allow = found, a.invited(found), all[found].Offers
		a.identity = cmp.Or(a.identity, all[found].Invited)
	}
	a.name = cmp.Or(a.name, proposed)
	if i.Answers == "" && a.isInvited(a.name) {
		return fmt.Errorf("this endpoint has invited %s too, with offers of its own: accept the reply to that, or remove %s and name them with --offer here", a.name, a.invited(a.name))
	}
	for _, name := range sortedNames(a.conf.Partners) {
		one := a.conf.Partners[name]
		switch {
		case one.Identity != i.Identity:
		case one.State != config.StateRevoked || a.conf.PartnerFiles[name] == "":
			return fmt.Errorf("is of %s, which is the partner %s already", i.Identity, name)
		case !a.again:
			return fmt.Errorf("is of %s, the partner %s that was revoked (%s); --again takes it all the same", i.Identity, name, a.conf.PartnerFiles[name])
		default:
			a.old = name
		}
	}
	if _, taken := a.conf.Partners[a.name]; taken && a.old != a.name {
		return fmt.Errorf("there is a partner %s, which is %s; choose another --name", a.name, a.conf.Partners[a.name].Identity)
	}
	return nil
}

// claimed refuses an invitation for another endpoint, and a partner whose identity is another one
// than is meant, or has a meaning here already.
func (a *acceptance) claimed() error {
	i := a.invitation
	names, err := check.Claims(a.conf, time.Now())
	if err != nil {
		return err
	}
	if i.Invited != "" && names.Self != "" && i.Invited != names.Self {
		return fmt.Errorf("invites %s, and this endpoint is %s", i.Invited, names.Self)
	}
	if a.identity != "" && a.identity != i.Identity {
		return fmt.Errorf("is of %s, and --identity is %s", i.Identity, a.identity)
	}
	b, err := i.Bundle()
	if err != nil {
		return err
	}
	known := names.Known(i.Identity)
	names.Partners = slices.DeleteFunc(names.Partners, func(p claims.Partner) bool { return p.Name == a.old })
	o := ownership{conf: a.conf, file: a.file}
	owns := false
	names.Owns = func(identity string, vouchers []string) bool {
		owns = !slices.ContainsFunc(vouchers, func(v string) bool { return slices.Contains(known, v) }) && o.owns(identity, vouchers)
		return owns && !a.ownsData
	}
	if err := names.Refuse(&claims.Partner{Name: a.name, Identity: i.Identity, Authorities: b.Authorities}); err != nil {
		return err
	}
	if a.unknown = o.unknown; a.ownsData && !owns && len(o.unknown) == 0 {
		return cli.Usagef("--owns-data has no effect: no data of %s is here, or it came under the authorities of the partner", i.Identity)
	}
	if keys := check.Named(a.conf, i.Identity); len(keys) > 0 && a.identity == "" && a.old == "" {
		return fmt.Errorf("is of %s, which is named already in %s: the peer that has this name would be locked out, unless it is the partner; if it is, accept with --identity %[1]s", i.Identity, strings.Join(keys, ", "))
	}
	return nil
}

func sortedNames(list config.Partners) []string {
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// text returns the content of the file of the partner, and the name of the one with its
// authorities.
func (a *acceptance) text() (trust string, text []byte, err error) {
	if strings.ContainsAny(a.name, `/\`) || a.name == "" || a.name[0] == '.' {
		return "", nil, cli.Usagef("%.80q is no name of a partner; choose one with --name", a.name)
	}
	for flag, day := range map[string]string{"--valid-until": a.validUntil, "--review-by": a.reviewBy} {
		if day == "" {
			continue
		}
		date, err := config.ParseDate(day)
		if err != nil {
			return "", nil, cli.Usagef("%s: %v", flag, err)
		}
		if flag == "--valid-until" && !time.Now().Before(date.Time) {
			return "", nil, cli.Usagef("--valid-until: %s is over, so the partner would not be let in", day)
		}
	}
	pem := a.name + "-" + a.invitation.Sum[:8] + ".pem"
	n := config.NewPartner{
		Identity: a.invitation.Identity, Addresses: a.invitation.Addresses, Trust: pem, Allow: a.allow, ValidUntil: a.validUntil, ReviewBy: a.reviewBy,
		OwnsData: a.ownsData,
	}
	head := fmt.Sprintf("# Accepted on %s, fingerprint %s.\n", time.Now().UTC().Format(time.DateOnly), a.invitation.Sum)
	return filepath.Join(config.DirOfPartners(a.file), pem), append([]byte(head), n.Text()...), nil
}

// check checks the configuration as it will be, and returns its warnings about the partner.
func (a *acceptance) check(text []byte) (warnings []string, err error) {
	drafts := config.Drafts{a.name: text}
	if a.old != "" && a.old != a.name {
		drafts[a.old] = nil
	}
	c, err := a.with(drafts)
	if err != nil {
		return nil, err
	}
	all, err := check.Partners(c, storedNames(a.file))
	if err != nil {
		return nil, err
	}
	a.config = c
	for _, w := range all {
		if strings.Contains(w, "partners."+a.name) || strings.Contains(w, "partner "+a.name+" ") {
			warnings = append(warnings, w)
		}
	}
	return warnings, nil
}

// show prints what is about to be accepted.
func (a *acceptance) show(out io.Writer, warnings []string) error {
	i := a.invitation
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", title, cli.Field(fmt.Sprintf(format, args...)))
	}
	what := "invitation"
	if i.Answers != "" {
		what = "reply"
	}
	row(what, "of %s, to be the partner %s here", i.Identity, a.name)
	row("fingerprint", "%s", i.Sum)
	b, err := i.Bundle()
	if err != nil {
		return err
	}
	for _, cert := range b.Authorities {
		info := certinfo.Of(cert, time.Now())
		row("authority", "%s, SHA-256 %s, valid until %s", info.Subject, info.Fingerprint, day(info.NotAfter))
		if info.Problem != "" {
			row("warning", "this authority %s", info.Problem)
		}
	}
	if len(i.Addresses) == 0 {
		row("addresses", "none: it dials this endpoint")
	}
	for _, address := range i.Addresses {
		row("address", "%s", address)
	}
	rules(row, "it offers", i.Offers)
	may, err := check.As(a.config, i.Identity)
	if err != nil {
		return err
	}
	rules(row, "it may use here", rulesOf(may.Rules))
	for _, r := range rulesOf(may.Withheld) {
		row("not for it", "%s: a rule for others too, which named_only keeps from it", r.String())
	}
	if a.validUntil != "" {
		row("valid until", "%s", a.validUntil)
	}
	if a.reviewBy != "" {
		row("review by", "%s", a.reviewBy)
	}
	if a.ownsData {
		row("it owns", "the data that is stored here under its identity")
	}
	for _, warning := range append(a.unknown, warnings...) {
		row("warning", "%s", warning)
	}
	return w.Flush()
}

func rules(row func(title, format string, args ...any), title string, list []config.PartnerRule) {
	if len(list) == 0 {
		row(title, "nothing but what every peer may use")
	}
	for _, r := range list {
		row(title, "%s", r.String())
	}
}

// agree asks whether to accept.
func (a *acceptance) agree(cmd *cobra.Command) error {
	if a.yes {
		return nil
	}
	return agreed(cmd, "Does the partner name the same fingerprint, and is this what you want? [y/N] ",
		"use --yes and --fingerprint, with the one that the partner has told", "not accepted, nothing was changed")
}

// agreed asks a question on the terminal; the error refuses anything but yes. Without a terminal the
// error says what to do instead.
func agreed(cmd *cobra.Command, question, instead, refused string) error {
	in := cmd.InOrStdin()
	if !cli.IsTerminal(in) {
		return cli.Usagef("nobody can be asked, because standard input is no terminal: %s", instead)
	}
	_, _ = fmt.Fprint(cmd.ErrOrStderr(), question)
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &exitError{exitFailed, errors.New(refused)}
	}
	return nil
}
