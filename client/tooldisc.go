package client

import (
	"context"
	"strings"

	"github.com/slimwire/swp/profiles/tooldisc"
)

// DiscoverTool asks the peer for one tool; an empty version means the highest.
func (c *Client) DiscoverTool(ctx context.Context, id, version string) (tooldisc.Tool, error) {
	tool, err := tooldisc.Find(ctx, c.Session, id, version)
	server := id[:max(strings.LastIndexByte(id, '/'), 0)] // a tool_id is server/tool
	return tool, c.ExplainAbout(err, server)
}

// DiscoverTools lists the tools of the peer that match a filter, page by page,
// and calls yield for each until it returns false. unread are the servers and partners that
// the peer could not ask for their tools.
func (c *Client) DiscoverTools(ctx context.Context, filter string, yield func(tooldisc.Tool) bool) (unread []tooldisc.Unread, err error) {
	wanted := tooldisc.Query{Filter: filter, Unread: func(u tooldisc.Unread) { unread = append(unread, u) }}
	for tool, err := range tooldisc.List(ctx, c.Session, wanted) {
		if err != nil {
			return unread, c.Explain(err)
		}
		if !yield(tool) {
			break
		}
	}
	return unread, nil
}
