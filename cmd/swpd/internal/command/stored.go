package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
)

// Bounds of a request for stored data.
const (
	storedFor    = 20 * time.Second
	storedOctets = 4 << 20
)

// newStored returns the command that lists a kind of stored data, with a command for each action.
func newStored(kind daemon.StoredKind) *cobra.Command {
	cmd := &cobra.Command{
		Use:   kind.Name,
		Short: "List " + kind.Does,
		Long: `List ` + kind.Does + `. swpd must run: it is asked
at its admin listener. Patterns are those of the access rules. A page has at most 200 rows; swpd reads at most
10,000 for it, in 5 seconds. If there may be more, standard error has the --after for the next page.`,
		Example: "  swpd store " + kind.Name + "\n  swpd store " + kind.Name + " --config swpd.yaml --limit 20 --json",
		Args:    cobra.NoArgs,
	}
	file := configFlag(cmd)
	at := serverFlags(cmd)
	filters := make(map[string]*string)
	for _, field := range []string{"owner", "id", "name", "state"} {
		if title := kind.Titles[field]; title != "" {
			filters[field] = cmd.Flags().String(field, "", "only rows whose "+title+" matches this `pattern`")
		}
	}
	limit := cmd.Flags().Int("limit", daemon.MaxStoredRows, "at most so many rows")
	after := cmd.Flags().String("after", "", "the `place` that the page before has told")
	asJSON := cmd.Flags().Bool("json", false, "print JSON: {\"rows\": […], \"next\": …}")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{"limit": {strconv.Itoa(*limit)}, "after": {*after}}
		for field, pattern := range filters {
			query.Set(field, *pattern)
		}
		admin, err := askActive(at, *file)
		if err != nil {
			return err
		}
		var page daemon.StoredRows
		if err := admin.put(cmd.Context(), http.MethodGet, "/store/"+kind.Name+"?"+query.Encode(), "", nil, &page); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), page)
		}
		if len(page.Rows) > 0 {
			err = printStored(cmd.OutOrStdout(), &kind, page.Rows)
		} else {
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), "swpd: no row is selected")
		}
		if err == nil && page.Next != "" {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "swpd: there may be more: --after %s\n", page.Next)
		}
		return err
	}
	for _, action := range kind.Actions {
		cmd.AddCommand(newStoredAction(kind.Name, action))
	}
	return cmd
}

// printStored prints rows as a table.
func printStored(out io.Writer, kind *daemon.StoredKind, rows []*daemon.StoredRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(of func(field string) string) {
		var cells []string
		for _, field := range []string{"owner", "id", "name", "state", "count", "octets", "begun", "ended", "note"} {
			if kind.Titles[field] != "" {
				cells = append(cells, cli.Field(of(field)))
			}
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	line(func(field string) string { return strings.ToUpper(kind.Titles[field]) })
	for _, r := range rows {
		line(func(field string) string {
			switch field {
			case "owner":
				return r.Owner
			case "id":
				return r.ID
			case "name":
				return r.Name
			case "state":
				return r.State
			case "count":
				return strconv.FormatInt(r.Count, 10)
			case "octets":
				return strconv.FormatInt(r.Octets, 10)
			case "begun":
				return timeField(r.Begun)
			case "ended":
				return timeField(r.Ended)
			}
			return r.Note
		})
	}
	return w.Flush()
}

func timeField(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// newStoredAction returns the command of an action on a row.
func newStoredAction(kind string, action daemon.StoredAction) *cobra.Command {
	_, verb, _ := strings.Cut(action.Name, ".")
	cmd := &cobra.Command{
		Use:   verb + " OWNER ID",
		Short: strings.ToUpper(action.Does[:1]) + action.Does[1:],
		Long: strings.ToUpper(action.Does[:1]) + action.Does[1:] + `. OWNER and ID are those of swpd store ` + kind + `.
swpd must run. The command sends it the token in admin.token of the data directory, or the one in
--token-file, which --admin needs; the log and the audit trail of swpd have the operator, the action
and the row.`,
		Example: "  swpd store " + kind + " " + verb + " spiffe://example.org/agents/planner 6f72646572 --config swpd.yaml" + map[bool]string{true: " --yes"}[action.Final],
		Args:    cobra.ExactArgs(2),
	}
	file := configFlag(cmd)
	at := serverFlags(cmd)
	at.acts = true
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	yes := new(bool)
	if action.Final {
		yes = cmd.Flags().Bool("yes", false, "do not ask")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if at.at != "" && at.tokenFile == "" {
			return cli.Usagef("--admin needs --token-file, because the token in a data directory is for the swpd of its configuration only")
		}
		if action.Final && !*yes {
			question := fmt.Sprintf("%s %s of %s: %s. This cannot be undone. Go on? [y/N] ", action.Name, cli.Field(args[1]), cli.Field(args[0]), action.Does)
			if err := agreed(cmd, question, "use --yes", "nothing was changed"); err != nil {
				return err
			}
		}
		admin, err := askActive(at, *file)
		if err != nil {
			return err
		}
		token, err := admin.operatorToken(at.tokenFile)
		if err != nil {
			return err
		}
		body, err := json.Marshal(daemon.StoredTarget{Owner: args[0], ID: args[1]})
		if err != nil {
			return err
		}
		var result daemon.StoredResult
		if err := admin.put(cmd.Context(), http.MethodPost, "/actions/"+action.Name, token, body, &result); err != nil {
			return err
		}
		if *asJSON {
			return printJSONLine(cmd.OutOrStdout(), result)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), result.Said)
		return err
	}
	return cmd
}

// operatorToken reads the token of a file, or the one in the data directory of the server.
func (s *server) operatorToken(name string) (string, error) {
	if name == "" {
		name = filepath.Join(s.data, daemon.AdminToken)
	}
	return readToken(name)
}

// readToken reads the token of a file.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", cli.Unreadable(err)
	}
	defer func() { _ = f.Close() }() // it is read
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimSpace(string(text)), err
}

// put puts a request to the server, and reads the answer into v. The text of a refusal is the error.
func (s *server) put(ctx context.Context, method, path, token string, body []byte, v any) error {
	ctx, cancel := context.WithTimeout(ctx, storedFor)
	defer cancel()
	resp, err := s.request(ctx, method, path, token, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, storedOctets))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		err = errors.New(cmp.Or(strings.TrimSpace(string(text[:min(len(text), 4096)])), resp.Status))
		if resp.StatusCode == http.StatusBadRequest { // a flag or an argument is wrong
			err = &exitError{exitUsage, err}
		}
		return err
	}
	return json.Unmarshal(text, v)
}
