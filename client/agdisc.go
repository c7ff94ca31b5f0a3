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

// Agents lists the agents of the peer, page by page, and calls yield for each until it
// returns false. unlisted are the partners of the peer whose agents the peer does not know
// yet.
func (c *Client) Agents(ctx context.Context, yield func(agdisc.Entry) bool) (unlisted []string, err error) {
	call := func(params, result any) error {
		err := c.there().callJSON(ctx, agdisc.MethodList, params, result)
		if page, ok := result.(*agdisc.ListResult); ok && err == nil {
			unlisted = append(unlisted, page.Unlisted...)
		}
		return err
	}
	for entry, err := range agdisc.Entries(call) {
		if err != nil {
			return unlisted, c.Explain(err)
		}
		if !yield(entry) {
			break
		}
	}
	return unlisted, nil
}
