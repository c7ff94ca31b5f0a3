package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
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
	"github.com/slimwire/swp/internal/plain"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the state of a running swpd, or of a server, worker, agent, back end, partner or certificate",
		Long: `Ask the swpd on this machine, through the socket in its data directory, whether it is ready and
what it serves. The exit code is 3 if it runs but is not ready, 1 if it does not
answer, or if the swpd that answers runs with another file than --config.

With NAME show what is known of the things of this name that stand behind swpd: MCP servers, workers,
agents, back ends, partners, certificates (by their files), "store" and "audit trail". That is their state
and since when, the last success, the last error with the last lines of standard error, and what to do.
Secrets in these lines are masked. The exit code is 3 if one of these things does not work.`,
		Example: `  swpd status
  swpd status files
  swpd status --config swpd.yaml
  swpd status --admin 127.0.0.1:7790 --token-file alice.token --json
  swpd status --cluster
  swpd status --watch`,
	}
	file := configFlag(cmd)
	at := serverFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	nodes := cmd.Flags().Bool("cluster", false, "show the nodes that share the store")
	watch := cmd.Flags().Bool("watch", false, "follow: ask again each second, until interrupted; with --json an object on each line")
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(args[0])) {
			return cli.Unexpected(cmd, args[0])
		}
		if *nodes && len(args) > 0 {
			return cli.Usagef("--cluster has no effect with NAME; use one of them")
		}
		once := func(out io.Writer) error {
			_, s, err := askStatus(at, *file)
			switch {
			case err != nil:
				return err
			case len(args) > 0:
				return describe(out, s, args[0], *asJSON, *watch)
			case *nodes && s.Cluster == nil:
				return errors.New("this swpd shares its store with no other node (store is not a postgres:// URL)")
			}
			var v any = s
			if *nodes {
				v = s.Cluster
			}
			switch {
			case *asJSON && *watch:
				err = json.NewEncoder(out).Encode(v)
			case *asJSON:
				err = printJSON(out, v)
			case *nodes:
				err = printNodes(out, s.Cluster)
			default:
				err = printStatus(out, s)
			}
			if err == nil && !s.Ready {
				return &exitError{exitUnwell, errors.New("not ready: " + strings.Join(s.Reasons, "; "))}
			}
			return err
		}
		if *watch {
			if _, err := at.find(*file); err != nil {
				return err
			}
			return follow(cli.UntilStopped(cmd).Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), !*asJSON, once)
		}
		return once(cmd.OutOrStdout())
	}
	return cmd
}

// watchEvery is the interval of status --watch.
const watchEvery = time.Second

// follow calls once again and again, until ctx ends or out fails. With clear each output replaces the
// one before on the screen. It goes on when once fails, and prints the error: to out with clear, else
// to errs.
func follow(ctx context.Context, out, errs io.Writer, clear bool, once func(io.Writer) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var text bytes.Buffer
		if clear {
			text.WriteString("\x1b[H\x1b[2J") // to the top left, then erase
		}
		if err := once(&text); err != nil {
			to := errs
			if clear {
				to = &text
			}
			_, _ = fmt.Fprintf(to, "swpd: %v\n", err)
		}
		if _, err := out.Write(text.Bytes()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// server is a running swpd to ask: at an address, with a token if that needs one.
type server struct {
	at, tokenFile string
	token         string
	acts          bool   // a token names the operator of an action
	data          string // directory of its configuration; empty with --admin
}

// serverFlags adds --admin and --token-file.
func serverFlags(cmd *cobra.Command) *server {
	s := new(server)
	cmd.Flags().StringVar(&s.at, "admin", "", "`address` of the admin listener, default the socket of the configuration")
	cmd.Flags().StringVar(&s.tokenFile, "token-file", "", "`file` with the token of an operator in admin.actions, for --admin")
	return s
}

// find returns the server at --admin, or the server of a configuration.
func (s *server) find(file string) (*server, error) {
	switch {
	case s.at != "" && file != "" && file != os.Getenv("SWPD_CONFIG"):
		return nil, cli.Usagef("--config has no effect with --admin, which is the address to ask; use one of them")
	case s.at == "" && s.tokenFile != "" && !s.acts:
		return nil, cli.Usagef("--token-file has no effect without --admin: the socket of a configuration needs no token")
	case s.at != "":
		found := &server{at: strings.TrimPrefix(s.at, "http://")}
		if err := config.CheckAdmin(found.at); err != nil {
			return nil, cli.Usagef("--admin: %v", err)
		}
		if found.at == config.AdminOff {
			return nil, cli.Usagef("--admin: off is no address to ask")
		}
		if s.tokenFile == "" {
			return found, nil
		}
		var err error
		found.token, err = readToken(s.tokenFile)
		return found, err
	}
	c, _, err := theWay().Load(file, os.Environ(), nil) // of other faults a running swpd tells
	switch {
	case err != nil:
		return nil, &exitError{exitUsage, err}
	case c.Admin.Address == config.AdminOff:
		return nil, errors.New("admin is off in this configuration, so a running swpd cannot be asked")
	}
	return &server{at: c.CommandAddress(), data: c.Data}, nil
}

// maxStatus bounds the answer to /status: a record of a thing behind swpd has up to 4 KiB.
const maxStatus = 16 << 20

// askStatus asks the swpd of a configuration, or the one at an address, and returns its
// address. Another one, which happens to listen on the address in the file, is an error.
func askStatus(at *server, file string) (admin *server, s *daemon.Status, err error) {
	admin, err = at.find(file)
	if err != nil {
		return nil, nil, err
	}
	s = new(daemon.Status)
	if err := admin.askFor(http.MethodGet, "/status", 5*time.Second, maxStatus, s); err != nil {
		return nil, nil, err
	}
	if at.at == "" && file != "" && !sameFile(s.Config, file) {
		with := s.Config
		if with == "" {
			with = "the built-in configuration"
		}
		return nil, nil, fmt.Errorf("another swpd listens on %s: it runs with %s as %s, not with %s; swpd status --admin %s asks that one",
			admin.at, with, s.Identity, file, admin.at)
	}
	return admin, s, nil
}

// askActive is askStatus for a request that a node that stands by refuses.
func askActive(at *server, file string) (admin *server, err error) {
	admin, s, err := askStatus(at, file)
	if err != nil {
		return nil, err
	}
	if c := s.Cluster; c != nil && c.Stands {
		return nil, fmt.Errorf("node %s stands by; ask the active node (%s)", c.Node, cmp.Or(c.Active, "none is known"))
	}
	return admin, nil
}

// sameFile reports whether two names denote one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// ask puts a request to the admin listener of a running swpd and reads the
// answer into v.
func (s *server) ask(method, path string, v any) error {
	return s.askFor(method, path, 5*time.Second, 1<<20, v)
}

// askFor is ask with bounds of the time and the octets of the answer.
func (s *server) askFor(method, path string, wait time.Duration, most int64, v any) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	resp, err := s.request(ctx, method, path, "", http.NoBody)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusConflict {
		return errors.New(strings.TrimSpace(string(body)))
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(body, v) != nil {
		return fmt.Errorf("the server on %s is not the admin listener of swpd (HTTP %d)", s.at, resp.StatusCode)
	}
	return nil
}

// request puts a request to the server, with another token if that is not empty.
func (s *server) request(ctx context.Context, method, path, token string, body io.Reader) (*http.Response, error) {
	host, direct := s.at, new(http.Transport) // no proxy stands before this machine
	socket, unix := config.UnixSocket(s.at)
	if unix {
		host = "localhost"
		direct.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			short, done, err := config.ShortSocket(socket)
			if err != nil {
				return nil, err
			}
			defer done()
			return new(net.Dialer).DialContext(ctx, "unix", short)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, body)
	if err != nil {
		return nil, err
	}
	if token = cmp.Or(token, s.token); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: direct}).Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), unix && errors.Is(err, fs.ErrNotExist):
		return nil, &notListening{s.at}
	case unix && errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("not permitted to use %s: run this command as the user of swpd", socket)
	}
	return resp, err
}

// notListening is the error of request where nothing listens.
type notListening struct{ at string }

func (e *notListening) Error() string {
	return fmt.Sprintf("nothing listens on %s: swpd does not run, or with another configuration (--config) or address (--admin)", e.at)
}

func (*notListening) Unwrap() error { return syscall.ECONNREFUSED }

// printNodes prints a line for each node.
func printNodes(out io.Writer, c *daemon.ClusterStatus) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NODE\tROLE\tSEEN\tADDRESS\tVERSION\tSTARTED\tPROGRAMS\tCONFIGURATION")
	for _, n := range c.Nodes {
		role := "stands by"
		switch {
		case n.Active:
			role = "active"
		case n.Silent > c.SilentAfter:
			role = "silent"
		}
		same := n.Config
		if n.Differs {
			same += ", differs from that of " + c.Node
		}
		programs := "-"
		if n.Programs != nil {
			programs = fmt.Sprint(*n.Programs)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%.0f s ago\t%s\t%s\t%s\t%s\t%s\n", cli.Field(n.Name), role, n.Silent, cli.Field(cmp.Or(n.Address, "none")),
			cli.Field(n.Version), n.Started.UTC().Format(time.RFC3339), programs, cli.Field(same))
	}
	return w.Flush()
}

func printStatus(out io.Writer, s *daemon.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, cli.Field(fmt.Sprintf(format, args...)))
	}
	state := "ready"
	if !s.Ready {
		state = "not ready"
	}
	row("state", "%s, for %s", state, time.Since(s.Started).Round(time.Second))
	for _, reason := range s.Reasons {
		row("", "%s", reason)
	}
	for _, warning := range s.Warnings {
		row("warning", "%s", warning)
	}
	row("version", "%s", s.Version)
	row("identity", "%s", s.Identity)
	row("certificate", "valid until %s", s.NotAfter.Format(time.RFC3339))
	title := "addresses"
	for _, address := range s.Addresses {
		row(title, "%s", address)
		title = ""
	}
	if s.HTTP != "" {
		row("http", "%s", s.HTTP)
	}
	if s.Probes != "" {
		row("health", "%s", s.Probes)
	}
	if s.Metrics != "" {
		row("metrics", "https://%s", s.Metrics)
	}
	row("store", "%s", s.Store)
	if c := s.Cluster; c != nil {
		row("cluster", "this is node %s of %d, and %s is active; swpd status --cluster shows them", c.Node, len(c.Nodes), cmp.Or(c.Active, "none"))
		if c.Stands {
			row("", "connections that it passes to the active node: %d", c.Passed)
			return w.Flush()
		}
	}
	row("sessions", "%d", s.Sessions)
	row("in flight", "%d of %s", s.Memory.Used, plain.Count(s.Memory.Limit, "octet"))
	for _, most := range s.Memory.Most {
		row("", "%d: %s", most.Octets, most.Identity)
	}
	for _, pool := range s.Shares {
		if pool.Used == 0 {
			continue
		}
		row(pool.Name, "%d of %d", pool.Used, pool.Capacity)
		for _, most := range pool.Most {
			row("", "%d: %s", most.Used, cmp.Or(most.Identity, "all identities"))
		}
	}
	for _, server := range s.Servers {
		if !slices.ContainsFunc(s.Behind, func(b daemon.Behind) bool { return b.Kind == "server" && b.Name == server && !b.State.Well() }) {
			row("MCP server", "%s", server)
		}
	}
	for i := range s.Behind {
		if b := &s.Behind[i]; !b.State.Well() && b.Kind != "partner" { // which follow
			row(kindOf(b), "%s: %s", b.Name, b.Line())
		}
	}
	for _, server := range s.Departing {
		row("MCP server", "%s, removed or changed: ends with its last request or session", server)
	}
	for _, p := range s.Partners {
		state := "away"
		if p.Up {
			state = "up, " + p.Transport + " " + p.Addr
		}
		if p.Barred != "" {
			row("partner", "%s: %s", p.Name, strings.TrimPrefix(p.Barred, "partner "+p.Name+" "))
			continue
		}
		row("partner", "%s: %s, since %s", p.Name, state, p.Since.Format(time.RFC3339))
		if b := p.Bundle; b != nil {
			row("", "trust bundle: %s", b.Line(time.Now()))
		}
		if p.Queue.Messages > 0 {
			row("", "waiting for it: %s, %s", plain.Count(p.Queue.Messages, "delivery"), plain.Count(p.Queue.Octets, "octet"))
			if h := p.Queue.Held; h != nil {
				row("", "%s does not accept those of the topic %s now: %s: %s", p.Name, h.Topic, h.Code, h.Message)
			}
		}
	}
	for _, r := range s.Receipts {
		if !r.Known {
			row("receipts", "%s: not known, the partner has not said whether it offers them", r.Partner)
			continue
		}
		if !r.Used {
			row("receipts", "%s: none, the partner does not offer them", r.Partner)
			continue
		}
		row("receipts", "%s: %d exchanges confirmed, %d waiting", r.Partner, r.Confirmed, r.Waiting)
		if r.Differing+r.Unknown+r.Skipped+r.Unlisted+r.Refused > 0 {
			row("", "%d differing, %d unknown to it, %d without a receipt, %d not confirmed by it; %d receipts refused", r.Differing, r.Unknown, r.Skipped, r.Unlisted, r.Refused)
		}
	}
	return w.Flush()
}
