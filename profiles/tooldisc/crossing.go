package tooldisc

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// crossing says how requests for tools of partners are forwarded. This endpoint does not
// know whether a tool belongs to an MCP server of the partner: a peer sees it if it may
// call or get it.
func (s *Service) crossing() *profiles.Crossing {
	names := p1.Names{Messages: Messages, Field: "tool_id"}
	c := names.Crossing(&refusals, map[uint64]profiles.Errand{
		TypeGetReq:  {Operation: "get", By: []uint64{TypeGetResp}},
		TypeListReq: {Operation: "list", Free: true, By: []uint64{TypeListResp}},
	})
	c.Fits = fits
	c.May = func(a profiles.Access, identity, _, name string) bool {
		if server, ok := strings.CutSuffix(name, "/"); ok {
			return s.reaches(identity, server)
		}
		return profiles.Would(a, identity, "mcp", "tools/call", name) || a.Allowed(identity, Name, "get", name)
	}
	c.Visible = func(env *e1.Envelope, may func(name string) bool) error {
		if env.MsgType != TypeListResp {
			return nil
		}
		var m ListResp
		if err := m.Decode(env.Payload); err != nil {
			return err
		}
		m.Tools = slices.DeleteFunc(m.Tools, func(d Descriptor) bool { return !may(string(d.ToolID)) })
		env.Payload = m.Append(make([]byte, 0, m.Size()))
		env.Extensions = withoutUnread(env.Extensions, func(server string) bool { return !may(server + "/") })
		return nil
	}
	c.Keep, c.Kept = s.keep, s.kept
	return c
}

// fits is that of profiles.Crossing.
func fits(asked, answer *e1.Envelope) error {
	if answer.MsgType != TypeGetResp {
		return nil
	}
	var m GetReq
	if err := m.Decode(asked.Payload); err != nil {
		return err
	}
	_, err := readGetResp(answer.Payload, string(m.ToolID), string(m.Version))
	return err
}
