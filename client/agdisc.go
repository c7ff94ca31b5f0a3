package client

import (
	"context"

	"github.com/slimwire/swp/profiles/agdisc"
)

// Card asks the peer for the card of an agent. It returns nil if the card still has the
// given etag; it may be empty.
func (c *Client) Card(ctx context.Context, agentID, etag string) (*agdisc.Card, error) {
	card, err := agdisc.Ask(ctx, c.Session, agentID, etag)
	return card, c.ExplainAbout(err, agentID)
}

// Beside is what a list of agents says beside the agents.
type Beside struct {
	Unlisted []string // partners of the peer whose agents the peer does not know yet
	Kinds    []string // kinds of tasks that this identity may ask for there
}

// Agents lists the agents of the peer, page by page, and calls yield for each until it
// returns false.
func (c *Client) Agents(ctx context.Context, yield func(agdisc.Entry) bool) (beside Beside, err error) {
	call := func(params, result any) error {
		err := c.there().callJSON(ctx, agdisc.MethodList, params, result)
		if page, ok := result.(*agdisc.ListResult); ok && err == nil {
			beside.Unlisted = append(beside.Unlisted, page.Unlisted...)
			beside.Kinds = append(beside.Kinds, page.Kinds...)
		}
		return err
	}
	for entry, err := range agdisc.Entries(call) {
		if err != nil {
			return beside, c.Explain(err)
		}
		if !yield(entry) {
			break
		}
	}
	return beside, nil
}
