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
// and calls yield for each until it returns false.
func (c *Client) DiscoverTools(ctx context.Context, filter string, yield func(tooldisc.Tool) bool) error {
	for tool, err := range tooldisc.List(ctx, c.Session, filter) {
		if err != nil {
			return c.Explain(err)
		}
		if !yield(tool) {
			return nil
		}
	}
	return nil
}
