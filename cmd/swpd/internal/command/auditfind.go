package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
)

func newAuditFind() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "find [DIR]",
		Short: "Print the records of some exchanges",
		Long: `Print the records of exchanges that match all flags, the oldest first. Patterns are those
of the access rules: * is anything without a slash, ** anything. With --json the
records are printed as they stand in the trail. What is found is not verified.

If nothing is found, standard error says so, and names each flag that no record of that
time matches. An outcome or a profile that neither this program nor the trail has is
refused with exit code 2.`,
		Example: `  swpd audit find --config swpd.yaml --outcome denied --since 24h
  swpd audit find --config swpd.yaml --identity spiffe://acme.example/swpd --profile mcp --name 'files/**'
  swpd audit find --json --since 2026-11-23T00:00:00Z /backup/audit | jq .`,
		Args: cobra.MaximumNArgs(1),
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the records as they stand in the trail")
	var q auditQuery
	q.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := q.compile(time.Now()); err != nil {
			return err
		}
		dir, err := trailDir(cmd, args, *file)
		if err != nil {
			return err
		}
		p := &entryPrinter{out: cmd.OutOrStdout(), asJSON: *asJSON}
		if err := q.print(cmd.Context(), p, dir); err != nil || p.n > 0 {
			return err
		}
		return q.explain(cmd.ErrOrStderr())
	}
	return cmd
}

// auditQuery says which entries are wanted.
type auditQuery struct {
	filters  []*auditFilter
	when     period
	from, to time.Time
}

// auditFilter is a flag with a pattern.
type auditFilter struct {
	flag, usage string
	of          func(*audit.Entry) string
	known       []string // the values that this program writes; nil: any

	pattern string
	matches func(string) bool
	hit     bool                // an entry of that time matches
	values  map[string]struct{} // some of the values that do not match
}

func (q *auditQuery) flags(cmd *cobra.Command) {
	for _, field := range audit.Fields() {
		f := &auditFilter{flag: field.Name, of: field.Of}
		switch field.Name {
		case "identity":
			f.usage = "`pattern` of the identity of the peer, or of the partner that was asked"
		case "for":
			f.usage = "`pattern` of the caller that the peer has asserted"
		case "profile":
			f.usage, f.known = "`pattern` of the profile, such as mcp", profileNames()
		case "partner":
			f.usage = "`pattern` of the partner that it was passed on to"
		case "action":
			f.usage, f.known = "`pattern` of event.action: "+strings.Join(audit.Actions(), ", "), audit.Actions()
		case "outcome":
			f.usage = "`pattern` of the outcome: ok, denied, refused:*, refused_by_partner, failed, cancelled, lost; of an exchange at a partner answered, unanswered; of a finding receipt:* and pin:*"
			f.known = outcomes()
		default:
			f.usage = "`pattern` of the " + field.Name + ", as in the access rules"
		}
		q.filters = append(q.filters, f)
	}
	for _, f := range q.filters {
		cmd.Flags().StringVar(&f.pattern, f.flag, "", f.usage)
	}
	q.when.flags(cmd)
}

func profileNames() (names []string) {
	for _, p := range all.Tables() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// outcomes returns every outcome that an exchange can have in a trail.
func outcomes() (list []string) {
	for o := profiles.OutcomeOK; int(o) < profiles.Outcomes; o++ {
		codes := []profiles.Code{profiles.OK}
		if o == profiles.OutcomeRefused {
			codes = profiles.Codes()
		}
		for _, code := range codes {
			list = append(list, o.With(code))
		}
	}
	return append(list, "answered", "accepted", "unanswered", "receipt:differs", "receipt:unknown", "receipt:refused", "receipt:unconfirmed", "receipt:unlisted", "pin:changed", "pin:gone")
}

// compile reads the flags.
func (q *auditQuery) compile(now time.Time) (err error) {
	q.filters = slices.DeleteFunc(q.filters, func(f *auditFilter) bool { return f.pattern == "" })
	for _, f := range q.filters {
		if f.matches, err = access.Matcher(f.pattern); err != nil {
			return cli.Usagef("--%s: %v", f.flag, err)
		}
		f.values = make(map[string]struct{})
	}
	q.from, q.to, err = q.when.read(now)
	return err
}

// print prints the entries that are wanted.
func (q *auditQuery) print(ctx context.Context, p *entryPrinter, dir string) error {
	for e, err := range audit.Entries(ctx, dir, false) {
		switch {
		case err != nil:
			return err
		case !e.Exchange() || e.Time.Before(q.from) || e.Time.After(q.to) || !q.wants(e):
			continue
		}
		if err := p.print(e); err != nil {
			return err
		}
	}
	return nil
}

// someValues is how many values an answer lists.
const someValues = 20

// wants reports whether an entry matches all filters.
func (q *auditQuery) wants(e *audit.Entry) bool {
	all := true
	for _, f := range q.filters {
		value := f.of(e)
		if f.matches(value) {
			f.hit = true
			continue
		}
		all = false
		if value != "" && len(f.values) <= someValues {
			f.values[value] = struct{}{}
		}
	}
	return all
}

// explain says that nothing was found, and which filters alone match nothing.
func (q *auditQuery) explain(out io.Writer) error {
	for _, f := range q.filters {
		if !f.hit && f.known != nil && !slices.ContainsFunc(f.known, f.matches) {
			return cli.Usagef("--%s: neither this program nor a record of that time has %q; want %s, or a pattern", f.flag, f.pattern, strings.Join(f.known, ", "))
		}
	}
	_, _ = fmt.Fprintln(out, "swpd: no exchange is found")
	for _, f := range q.filters {
		if f.hit {
			continue
		}
		there := slices.Sorted(maps.Keys(f.values))
		more := ""
		if len(there) > someValues {
			there, more = there[:someValues], ", and others"
		}
		if len(there) == 0 {
			there = []string{"none"}
		}
		_, _ = fmt.Fprintf(out, "swpd: no record matches --%s %q; there are: %s%s\n", f.flag, f.pattern, cli.Field(strings.Join(there, ", ")), more)
	}
	return nil
}
