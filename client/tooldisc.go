package client

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// DiscoverTool asks the peer for one tool; an empty version means the highest.
func (c *Client) DiscoverTool(ctx context.Context, id, version string) (tooldisc.Tool, error) {
	tool, err := tooldisc.Find(ctx, c.Session, id, version)
	return tool, c.Explain(err)
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

// decodeTOOLDISC returns a message of TOOLDISC by the names of its schema.
func decodeTOOLDISC(env *e1.Envelope) (map[string]any, error) {
	descriptor := func(d *tooldisc.Descriptor) map[string]any {
		return map[string]any{
			"tool_id": string(d.ToolID), "name": string(d.Name), "version": string(d.Version), "schema_ref": string(d.SchemaRef),
			"descriptor_payload": octets(d.DescriptorPayload),
		}
	}
	switch env.MsgType {
	case tooldisc.TypeListReq:
		var m tooldisc.ListReq
		err := m.Decode(env.Payload)
		return map[string]any{"page_size": m.PageSize, "page_token": string(m.PageToken), "filter": string(m.Filter)}, err
	case tooldisc.TypeListResp:
		var m tooldisc.ListResp
		err := m.Decode(env.Payload)
		tools := make([]any, len(m.Tools))
		for i := range m.Tools {
			tools[i] = descriptor(&m.Tools[i])
		}
		return map[string]any{"tools": tools, "next_page_token": string(m.NextPageToken)}, err
	case tooldisc.TypeGetReq:
		var m tooldisc.GetReq
		err := m.Decode(env.Payload)
		return map[string]any{"tool_id": string(m.ToolID), "version": string(m.Version)}, err
	case tooldisc.TypeGetResp:
		var m tooldisc.GetResp
		err := m.Decode(env.Payload)
		return map[string]any{"tool": descriptor(&m.Tool)}, err
	case tooldisc.TypeErr:
		var m tooldisc.Err
		err := m.Decode(env.Payload)
		return map[string]any{"code": string(m.Code), "message": string(m.Message)}, err
	}
	return nil, nil
}
