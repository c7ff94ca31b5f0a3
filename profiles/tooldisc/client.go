package tooldisc

import (
	"context"
	"iter"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Find asks a peer for one tool; an empty version leaves the choice to the peer.
// The Tool is the caller's own. The error is a *profiles.PeerError if the peer has no such
// tool, an *profiles.Error if either side refused a message, as
// InvalidProfilePayload an answer that is none to this question, or the
// context's.
func Find(ctx context.Context, on profiles.Caller, id, version string) (Tool, error) {
	m := GetReq{ToolID: []byte(id), Version: []byte(version)}
	var tool Tool
	err := ask(ctx, on, TypeGetReq, m.Append(make([]byte, 0, m.Size())), TypeGetResp, func(env *e1.Envelope) error {
		out, err := readGetResp(env.Payload, id, version)
		tool = out.Tool.tool()
		tool.Stale = profiles.StaleOf(env.Extensions, ExtStale)
		return err
	})
	if err != nil {
		return Tool{}, err
	}
	return tool, nil
}

// readGetResp reads the answer to a question for a tool.
func readGetResp(payload []byte, id, version string) (out GetResp, err error) {
	if err := out.Decode(payload); err != nil {
		return out, err
	}
	if string(out.Tool.ToolID) != id || version != "" && string(out.Tool.Version) != version {
		return out, profiles.Errorf(profiles.InvalidProfilePayload, "tooldisc: another tool or version than was asked for")
	}
	return out, nil
}

// Query says which tools are wanted. The zero value is the first page of all.
type Query struct {
	Filter    string // part of the tool_id or the name, in upper or lower case
	PageSize  uint32 // 0 leaves it to the peer
	PageToken string // what Page returned with the page before

	// Unread is called with each server that the peer could not ask for its tools. It may be
	// nil.
	Unread func(Unread)
}

// Page asks a peer for one page of its tools, and returns them with the token of
// the next page, which is empty if this is the last one. The Tools are the
// caller's own. The errors are those of Find.
func Page(ctx context.Context, on profiles.Caller, q Query) (tools []Tool, next string, err error) {
	m := ListReq{PageSize: q.PageSize, PageToken: []byte(q.PageToken), Filter: []byte(q.Filter)}
	err = ask(ctx, on, TypeListReq, m.Append(make([]byte, 0, m.Size())), TypeListResp, func(env *e1.Envelope) error {
		var out ListResp
		if err := out.Decode(env.Payload); err != nil {
			return err
		}
		for i := range out.Tools {
			tools = append(tools, out.Tools[i].tool())
		}
		next = string(out.NextPageToken)
		if q.Unread != nil {
			for _, u := range unreadOf(env.Extensions) {
				q.Unread(u)
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return tools, next, nil
}

// maxPages bounds how often a peer may say that there is more.
const maxPages = 10_000

// List asks a peer for all tools of a Query, page by page on demand. An error is the last
// thing it yields: one of those of Find, or profiles.ErrNext.
func List(ctx context.Context, on profiles.Caller, q Query) iter.Seq2[Tool, error] {
	pages := 0
	return profiles.Pages(func(token string) ([]Tool, string, error) {
		if pages++; pages > maxPages {
			return nil, "", profiles.Errorf(profiles.InvalidProfilePayload, "tooldisc: more than %d pages", maxPages)
		}
		q.PageToken = token
		return Page(ctx, on, q)
	})
}

// ask sends a request and has its answer read, or returns what the peer says in
// its place.
func ask(ctx context.Context, on profiles.Caller, kind uint64, payload []byte, want uint64, read func(env *e1.Envelope) error) error {
	return profiles.Ask(ctx, on, e1.Envelope{ProfileID: ProfileID, MsgType: kind, Payload: payload}, func(answer *e1.Envelope) error {
		if answer.MsgType != want {
			return refusals.Read(answer)
		}
		return read(answer)
	})
}
