package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/plain"
)

func newPartnerPin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin NAME",
		Short: "List the tools of a partner, and accept them as they are",
		Long: `List the tools of a partner as the running swpd reads them, and which of them are pinned,
have changed since, or are gone. With --accept, pin a tool by the digest of its descriptor:
name, description and schema. While tools of a partner are pinned, calls of others, and of tools
that have changed, are refused before they are sent. The last pin is not removed by this command.

A server that the partner cannot read now is named as unread, with the reason, and so are the pinned
tools of it. They keep their pins; the tools of other servers can be accepted.

Exit codes: 0; 1 if a pinned tool has changed or is gone, or if not all tools that are listed, or
that --all is to pin, can be read.`,
		Example: `  swpd partner pin acme --config swpd.yaml
  swpd partner pin acme --config swpd.yaml --accept files/read_file --accept files/list
  swpd partner pin acme --config swpd.yaml --all`,
		Args: cobra.ExactArgs(1),
	}
	file := configFlag(cmd)
	accept := cmd.Flags().StringArray("accept", nil, "pin the `tool` SERVER/TOOL as it is now, and release one that is gone; repeatable")
	all := cmd.Flags().Bool("all", false, "pin all tools as they are now")
	asJSON := cmd.Flags().Bool("json", false, "print the list as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		p, err := loadPartners(cmd, *file, config.Needs{Keys: []string{"partners." + name}})
		if err != nil {
			return err
		}
		if _, ok := p.conf.Partners[name]; !ok {
			return cli.Usagef("there is no partner %.80q; there are: %s", name, orNobody(slices.Sorted(maps.Keys(p.conf.Partners))))
		}
		if *all && len(*accept) > 0 {
			return cli.Usagef("--all pins every tool; leave --accept out")
		}
		tools, err := p.tools(name)
		if err != nil {
			return err
		}
		if !*all && len(*accept) == 0 {
			if len(tools) == 0 {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "swpd: partner %s lists no tools\n", name)
			}
			return printTools(cmd.OutOrStdout(), tools, *asJSON)
		}
		pins, err := pinned(p.conf.Partners[name].Pinned, tools, *accept, *all)
		if err != nil {
			return err
		}
		if _, err := p.edit(name, fmt.Sprintf("pinned: %v", pins), func(text []byte) ([]byte, error) { return config.SetPinned(text, pins) }); err != nil {
			return &exitError{exitUsage, err}
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "partner %s has %s\n", name, plain.Count(len(pins), "pinned tool"))
		if err := p.tell(cmd.OutOrStdout(), cmd.ErrOrStderr(), "partners."+name); err != nil || !*all {
			return err
		}
		return unread(cmd.ErrOrStderr(), tools)
	}
	return cmd
}

// tools asks the running swpd for the tools of a partner.
func (p *partners) tools(name string) (list []daemon.PinnedTool, err error) {
	admin, err := askActive(new(server), p.file)
	if err != nil {
		return nil, err
	}
	return list, admin.askFor(http.MethodGet, "/partners/"+url.PathEscape(name)+"/tools", toolsWait, maxTools, &list)
}

// Bounds of a list of tools: its octets, and the time for it, because the partner starts its
// servers.
const (
	maxTools  = 16 << 20
	toolsWait = 10 * time.Second
)

// unread names the servers whose tools could not be read. It fails if there are any.
func unread(out io.Writer, tools []daemon.PinnedTool) (err error) {
	for _, t := range tools {
		if t.State == daemon.ToolUnread {
			_, _ = fmt.Fprintf(out, "swpd: not pinned now: %s cannot be read: %s\n", cli.Field(t.Tool), cli.Field(t.Why))
			err = errNo
		}
	}
	return err
}

// pinned returns the pins after the acceptance of tools.
func pinned(pins map[string]string, tools []daemon.PinnedTool, accept []string, all bool) (map[string]string, error) {
	next := maps.Clone(pins)
	if next == nil {
		next = make(map[string]string)
	}
	known := make(map[string]daemon.PinnedTool)
	for _, t := range tools {
		known[t.Tool] = t
		if all && t.State != daemon.ToolUnread {
			accept = append(accept, t.Tool)
		}
	}
	for _, tool := range accept {
		switch t, ok := known[tool]; {
		case !ok:
			return nil, cli.Usagef("--accept: the partner lists no tool %.200q%s", tool, besides(tools))
		case t.State == daemon.ToolUnread:
			return nil, cli.Usagef("--accept: %.200q cannot be read now: %s", tool, t.Why)
		case t.State == daemon.ToolGone:
			delete(next, tool)
		default:
			next[tool] = t.Digest
		}
	}
	if len(next) == 0 {
		return nil, cli.Usagef("this leaves no tool pinned, and then every tool of the partner may be called; if that is meant, remove pinned from its file")
	}
	return next, nil
}

// besides names the servers with unread tools, after a beginning; empty without such servers.
func besides(tools []daemon.PinnedTool) string {
	var names []string
	for _, t := range tools {
		if server, ok := strings.CutSuffix(t.Tool, "/"); ok && t.State == daemon.ToolUnread {
			names = append(names, server)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it cannot read the servers " + strings.Join(names, ", ") + " now"
}

func printTools(out io.Writer, tools []daemon.PinnedTool, asJSON bool) error {
	var wrong error
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range tools {
		if t.State != daemon.ToolPinned && t.State != daemon.ToolUnpinned {
			wrong = errNo
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", cli.Field(t.Tool), t.State, cmp.Or(t.Digest, cli.Field(t.Why)))
	}
	err := w.Flush
	if asJSON {
		err = func() error { return printJSON(out, tools) }
	}
	if err := err(); err != nil {
		return err
	}
	return wrong
}
