package command

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/tooldisc"
)

func newTools(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List tools and read their descriptors",
		Long: `List the tools behind an endpoint: tools of its MCP servers that this identity may
call, named server/tool, and configured tools. A tool that this identity may not use
looks as if it did not exist.

To list the tools of one MCP server directly, use swp-client mcp list.`,
		Example: `  swp-client tools ls swp+tls://127.0.0.1:7777
  swp-client tools ls swp+tls://127.0.0.1:7777 read
  swp-client tools get swp+tls://127.0.0.1:7777 files/read_file`,
	}
	cmd.AddCommand(newToolsLs(f), newToolsGet(f))
	return cmd
}

// discovered is a tool as JSON.
type discovered struct {
	ToolID     string `json:"tool_id"`
	Name       string `json:"name"`
	Version    string `json:"version"`
	SchemaRef  string `json:"schema_ref"`
	Stale      int64  `json:"stale_ms,omitempty"`
	Descriptor any    `json:"descriptor,omitempty"`
}

func asDiscovered(t *tooldisc.Tool) discovered {
	d := discovered{ToolID: t.ID, Name: t.Name, Version: t.Version, SchemaRef: t.SchemaRef, Stale: t.Stale.Milliseconds()}
	if len(t.Payload) > 0 {
		d.Descriptor = readable(t.Payload)
	}
	return d
}

func newToolsLs(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls ADDR[/PARTNER] [FILTER]",
		Short: "List tools",
		Long: `List the tools whose tool_id or name contains the filter, ignoring case, or all of them,
with their version and description. With --json one object a line.

An MCP server or a partner that the endpoint could not ask for its tools is named on
standard error with the reason; with --json it is an object {"server", "error"} after the
tools.`,
		Example: `  swp-client tools ls swp+tls://127.0.0.1:7777
  swp-client tools ls --json swp+quic://127.0.0.1:7777 read`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			filter := strings.Join(args[1:], "")
			w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
			n := 0
			var err error
			unread, listed := c.DiscoverTools(ctx, filter, func(t tooldisc.Tool) bool {
				n++
				if f.asJSON {
					err = f.printJSON(asDiscovered(&t))
				} else {
					err = row(w, t.ID, t.Version, inShort(&t))
				}
				return err == nil
			})
			err = errors.Join(err, listed, w.Flush())
			for _, u := range unread {
				err = errors.Join(err, f.tellUnread(u))
			}
			return f.listed(err, n+len(unread), "tool")
		})
	}
	return cmd
}

// unreadServer is a server whose tools are not listed, as JSON.
type unreadServer struct {
	Server string `json:"server,omitempty"`
	Error  string `json:"error"`
}

// tellUnread says that the tools of a server are not listed, or may be outdated.
func (f *flags) tellUnread(u tooldisc.Unread) error {
	reason := plain.Text(u.Reason)
	switch {
	case f.asJSON:
		return f.printJSON(unreadServer{u.Name, reason})
	case u.Name == "":
		f.warnf("tools of other servers are missing or outdated: %s", reason)
	default:
		f.warnf("tools of %s are missing or outdated: %s", u.Name, reason)
	}
	return nil
}

// inShort is the description of a tool in a line, if its descriptor is like
// that of an MCP server; else its name.
func inShort(t *tooldisc.Tool) string {
	var d struct {
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	if json.Unmarshal(t.Payload, &d) != nil || d.Title == "" && d.Description == "" {
		return t.Name
	}
	if d.Description == "" {
		return d.Title
	}
	line, _, _ := strings.Cut(strings.TrimSpace(d.Description), "\n")
	return line
}

func newToolsGet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ADDR[/PARTNER] TOOL_ID",
		Short: "Print the descriptor of a tool",
		Long: `Print the descriptor of a tool, by default of its highest version. With --raw only the
descriptor_payload is printed, octet for octet: for a tool of an MCP server the
description by the server. While a partner cannot be reached, the descriptors of its
tools are those that the endpoint received last (stale_ms with --json).`,
		Example: `  swp-client tools get swp+tls://127.0.0.1:7777 files/read_file
  swp-client tools get --raw swp+tls://127.0.0.1:7777 files/read_file >tool.json
  swp-client tools get --json --version 1.2.0 swp+quic://127.0.0.1:7777 search`,
	}
	version := cmd.Flags().String("version", "", "`version` of the tool")
	raw := cmd.Flags().Bool("raw", false, "print the descriptor_payload alone")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *raw && f.asJSON {
			return &usageError{"--raw and --json contradict each other; keep one"}
		}
		return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			tool, err := c.DiscoverTool(ctx, args[1], *version)
			switch {
			case slices.Contains(absents, answered(err, tooldisc.Name).Code):
				var known []string
				_, _ = c.DiscoverTools(ctx, "", func(t tooldisc.Tool) bool {
					known = append(known, t.ID)
					return len(known) < maxKnown
				})
				if !slices.Contains(known, args[1]) {
					f.advice = unknown("tool", "", args[1], known)
				}
				return err
			case err != nil:
				return err
			case f.asJSON:
				return f.printJSON(asDiscovered(&tool))
			}
			f.tellStale("descriptor", tool.Stale)
			if *raw {
				f.printOctets(tool.Payload)
				return nil
			}
			for _, line := range [][2]string{{"tool_id", tool.ID}, {"name", tool.Name}, {"version", tool.Version}, {"schema_ref", tool.SchemaRef}} {
				f.printf("%s: %s\n", line[0], visible(line[1]))
			}
			if len(tool.Payload) > 0 {
				f.printf("descriptor:\n")
				f.printOctets(tool.Payload)
			}
			return nil
		})
	}
	return cmd
}
