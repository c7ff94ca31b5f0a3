package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/invitation"
	"github.com/slimwire/swp/internal/disk"
)

func newPartner() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partner",
		Short: "Invite, accept, list, suspend, revoke and pin partners",
		Long: `Begin and end partnerships with endpoints of other organisations. Each partner that these
commands make has the file partners.d/NAME.yaml beside the configuration. swpd.yaml is
never changed. A running swpd is told; it also finds changed files by itself within two seconds.

Two organisations become partners with two commands each: one invites, the other accepts and
replies, the first one accepts the reply. Both compare the fingerprint of the file that they
accept with the other one over another channel, such as the telephone.`,
		Example: `  swpd partner invite beta --config swpd.yaml --offer mcp:files --out beta.invitation
  swpd partner accept acme.invitation --config swpd.yaml --offer rpc:orders.find --reply acme.reply
  swpd partner accept acme.reply --config swpd.yaml
  swpd partner list --config swpd.yaml
  swpd partner suspend beta --config swpd.yaml`,
	}
	cmd.AddCommand(newPartnerInvite(), newPartnerAccept(), newPartnerList(), newPartnerSuspend(), newPartnerResume(), newPartnerRevoke(), newPartnerPin())
	return cmd
}

// partners are the partners of a configuration, for the commands about them.
type partners struct {
	file  string // the configuration
	needs config.Needs
	conf  *config.Config
}

// with returns the configuration as it will be with other files of partners.
func (p *partners) with(drafts config.Drafts) (*config.Config, error) {
	c, _, err := p.needs.Load(p.file, os.Environ(), drafts)
	return c, err
}

func loadPartners(cmd *cobra.Command, file string, needs config.Needs) (*partners, error) {
	if file == "" {
		return nil, cli.Usagef("partners belong to a configuration: name its file with --config, or in SWPD_CONFIG")
	}
	c, err := load(cmd, file, needs)
	if err != nil {
		return nil, err
	}
	return &partners{file, needs, c}, nil
}

// inviteExt ends the names of the files of invitations to which no reply was accepted yet.
const inviteExt = ".invited"

func (p *partners) invited(name string) string {
	return filepath.Join(config.DirOfPartners(p.file), name+inviteExt)
}

func (p *partners) isInvited(name string) bool {
	_, err := os.Stat(p.invited(name))
	return err == nil
}

// invitations returns those without a reply, by the name of the partner.
func (p *partners) invitations() (map[string]*invitation.Invitation, error) {
	found := make(map[string]*invitation.Invitation)
	entries, err := os.ReadDir(config.DirOfPartners(p.file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), inviteExt)
		if !is || strings.HasPrefix(name, ".") {
			continue
		}
		i, err := readInvitation(p.invited(name))
		if err != nil {
			return nil, err
		}
		found[name] = i
	}
	return found, nil
}

func readInvitation(file string) (*invitation.Invitation, error) {
	f, err := cli.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is read
	text, err := io.ReadAll(io.LimitReader(f, invitation.MaxSize+1))
	if err != nil {
		return nil, cli.Unreadable(err)
	}
	i, err := invitation.Decode(text)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s %w", file, err)}
	}
	return i, nil
}

// put writes a file into the directory of the partners, for the accounts that can read the
// configuration: swpd may run as another one.
func (p *partners) put(file string, text []byte, replace bool) error {
	info, err := os.Stat(p.file)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	if err := os.Mkdir(dir, 0o750); err == nil {
		err = giveTo(dir, info, 0o750)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	write := disk.Create
	if replace {
		write = disk.Replace
	}
	return write(file, text, func(made *os.File) error { return giveTo(made.Name(), info, info.Mode().Perm()&0o640|0o600) })
}

// giveTo gives a file the group of another one, and a mode.
func giveTo(file string, like fs.FileInfo, mode fs.FileMode) error {
	if stat, ok := like.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(file, -1, int(stat.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(file, mode)
}

// tell has the swpd that runs with the configuration reload it, and says what came of it. Once it has taken up a change
// of one of the keys, other faults are warnings.
func (p *partners) tell(out, warnings io.Writer, keys ...string) error {
	admin, err := askActive(new(server), p.file)
	if err != nil {
		_, _ = fmt.Fprintf(out, "no running swpd was told (%v); one that runs finds the change within two seconds, and the next start reads it\n", err)
		return nil
	}
	var result daemon.Reloaded
	if err := admin.ask(http.MethodPost, "/reload", &result); err != nil {
		return err
	}
	printReloaded(out, &result)
	short := shortOf(&result)
	if short == nil || !slices.ContainsFunc(result.Changed, func(key string) bool { return slices.Contains(keys, key) }) {
		return short
	}
	for line := range strings.Lines(short.Error()) {
		_, _ = fmt.Fprintf(warnings, "swpd: warning: the partner is taken up, and this is not: %s\n", cli.Field(strings.TrimSpace(line)))
	}
	return nil
}

func newPartnerList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the partners of a configuration",
		Long: `List the partners of a configuration with their files, states and dates, and the
invitations without an accepted reply. An invitation that is accepted no more is expired.`,
		Example: `  swpd partner list --config swpd.yaml
  swpd partner list --config swpd.yaml --json`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := loadPartners(cmd, *file, config.Needs{Keys: []string{"partners"}})
		if err != nil {
			return err
		}
		list, err := p.list(time.Now())
		if err != nil {
			return err
		}
		if len(list) == 0 {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "swpd: no partners")
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return printPartners(cmd.OutOrStdout(), list)
	}
	return cmd
}

// listed is a partner in a list.
type listed struct {
	Name       string   `json:"name"`
	State      string   `json:"state"` // active, ended, suspended, revoked, invited or expired
	Identity   string   `json:"identity,omitempty"`
	Addresses  []string `json:"addresses"`
	File       string   `json:"file"`
	ValidUntil string   `json:"valid_until,omitempty"`
	ReviewBy   string   `json:"review_by,omitempty"`
	DaysLeft   *int     `json:"days_left,omitempty"` // until the end of validity, or of an invitation
	ReviewDue  bool     `json:"review_due,omitempty"`
}

const (
	stateEnded   = "ended"
	stateInvited = "invited"
	stateExpired = "expired" // an invitation
)

func (p *partners) list(now time.Time) ([]listed, error) {
	list := []listed{} // not nil: JSON would show null
	for _, name := range slices.Sorted(maps.Keys(p.conf.Partners)) {
		one := p.conf.Partners[name]
		l := listed{
			Name: name, State: one.State, Identity: one.Identity, Addresses: []string{}, File: cmp.Or(p.conf.PartnerFiles[name], p.file),
			ValidUntil: one.ValidUntil.String(), ReviewBy: one.ReviewBy.String(), DaysLeft: daysUntil(one.ValidUntil.Time, now),
			ReviewDue: !one.ReviewBy.IsZero() && !now.Before(one.ReviewBy.Time),
		}
		for _, a := range one.Addresses {
			l.Addresses = append(l.Addresses, a.String())
		}
		if one.State == config.StateActive && one.Ended(now) {
			l.State = stateEnded
		}
		list = append(list, l)
	}
	invited, err := p.invitations()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(invited)) {
		i := invited[name]
		state := stateInvited
		if !now.Before(i.Until) {
			state = stateExpired
		}
		list = append(list, listed{Name: name, State: state, Addresses: []string{}, File: p.invited(name), ValidUntil: i.Until.Format(time.RFC3339), DaysLeft: daysUntil(i.Until, now)})
	}
	return list, nil
}

// daysUntil returns the whole days until a time, 0 after it; nil if there is no time.
func daysUntil(t, now time.Time) *int {
	if t.IsZero() {
		return nil
	}
	days := int(max(t.Sub(now), 0) / (24 * time.Hour))
	return &days
}

func printPartners(out io.Writer, list []listed) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range list {
		until, review := "without end", ""
		switch {
		case l.DaysLeft == nil:
		case l.State == stateEnded, l.State == stateExpired:
			until = "until " + l.ValidUntil
		case *l.DaysLeft == 1:
			until = fmt.Sprintf("until %s, 1 day left", l.ValidUntil)
		default:
			until = fmt.Sprintf("until %s, %d days left", l.ValidUntil, *l.DaysLeft)
		}
		if l.ReviewBy != "" {
			review = "review by " + l.ReviewBy
		}
		if l.ReviewDue {
			review += ", due"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.State, until, review, l.Identity, strings.Join(l.Addresses, " "), l.File)
	}
	return w.Flush()
}

// stateCommand is a command that changes the state of a partner. To keep somebody out it needs nothing but the state:
// that cannot wait for the correction of faults.
func stateCommand(use, short, long, to string, from ...string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "  swpd partner " + use + " beta --config swpd.yaml",
	}
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry := "partners." + args[0]
		needs, taken := config.Needs{Files: []string{entry}}, []string{entry}
		if to != config.StateActive {
			needs = config.Needs{Keys: []string{entry + ".state"}}
			taken = append(taken, "access.deny") // if the entries of partners have faults
		}
		p, err := loadPartners(cmd, *file, needs)
		if err != nil {
			return err
		}
		if err := p.change(args[0], use, to, from); err != nil {
			return &exitError{exitUsage, err}
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "partner %s is %s\n", args[0], to)
		return p.tell(cmd.OutOrStdout(), cmd.ErrOrStderr(), taken...)
	}
	return cmd
}

func newPartnerSuspend() *cobra.Command {
	return stateCommand("suspend", "Keep a partner out for a while", `Suspend a partner: its connections are closed, it is not let in, and nothing is sent to it
until swpd partner resume. Deliveries to it wait. If the configuration has faults elsewhere,
this is done all the same, also by the swpd that runs.`, config.StateSuspended, config.StateActive)
}

func newPartnerResume() *cobra.Command {
	return stateCommand("resume", "Let a suspended partner in again", `Let a suspended partner in again. If the configuration has faults elsewhere, the file of the
partner is changed all the same; the swpd that runs reads it once they are corrected.`, config.StateActive, config.StateSuspended)
}

func newPartnerRevoke() *cobra.Command {
	return stateCommand("revoke", "Keep a partner out for good", `Revoke a partner: as suspend, for good. Its file stays, so that swpd partner accept takes
the same identity again only with --again. Faults elsewhere in the configuration do not stop it.`, config.StateRevoked, config.StateActive, config.StateSuspended)
}

// change writes another state into the file of a partner.
func (p *partners) change(name, use, to string, from []string) error {
	if one, ok := p.conf.Partners[name]; ok && p.conf.PartnerFiles[name] != "" {
		if one.State != config.StateRevoked && to == config.StateActive && one.Ended(time.Now()) {
			return p.tooLate(name)
		}
		if err := leaves(one.State, name, use, from); err != nil {
			return err
		}
	}
	c, err := p.edit(name, "state: "+to, func(text []byte) ([]byte, error) { return config.SetState(text, to) })
	if err == nil && c.Partners[name].State != to {
		err = fmt.Errorf("the state of partner %s stays %s: it is set in %s", name, c.Partners[name].State, c.Place("partners."+name+".state"))
	}
	return err
}

// tooLate is the error for a partner whose validity has ended.
func (p *partners) tooLate(name string) error {
	key := "partners." + name + ".valid_until"
	return fmt.Errorf("partner %s was valid until %s; set a later date there: %s", name, p.conf.Partners[name].ValidUntil, p.conf.Place(key))
}

// leaves returns an error unless a partner is in one of the states from.
func leaves(state, name, use string, from []string) error {
	if slices.Contains(from, state) {
		return nil
	}
	err := fmt.Errorf("partner %s is %s; %s is for partners that are %s", name, state, use, strings.Join(from, " or "))
	if state == config.StateRevoked {
		err = fmt.Errorf("%w; swpd partner accept --again takes a new invitation of it", err)
	}
	return err
}

// edit changes the file of a partner. Before that it checks the needed parts of the configuration with the change. It
// returns this configuration. key is the new content, for advice.
func (p *partners) edit(name, key string, change func(text []byte) ([]byte, error)) (*config.Config, error) {
	file := p.conf.PartnerFiles[name]
	switch _, ok := p.conf.Partners[name]; {
	case !ok && p.isInvited(name):
		return nil, fmt.Errorf("%s is invited, and no partner yet; remove %s to withdraw the invitation", name, p.invited(name))
	case !ok:
		return nil, fmt.Errorf("there is no partner %.80q; there are: %s", name, orNobody(slices.Sorted(maps.Keys(p.conf.Partners))))
	case file == "":
		return nil, fmt.Errorf("partner %s is in %s, which no command changes; write there: partners.%s.%s", name, p.conf.Place("partners."+name), name, key)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	changed, err := change(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c, err := p.with(config.Drafts{name: changed})
	if err != nil || bytes.Equal(text, changed) {
		return c, err
	}
	return c, p.put(file, changed, true)
}

func orNobody(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
