package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
)

// Card asks the peer for the card of an agent: nil if it is still the one with
// this etag, which may be empty.
func (c *Client) Card(ctx context.Context, agentID, etag string) (*agdisc.Card, error) {
	card, err := agdisc.Ask(ctx, c.Session, agentID, etag)
	return card, c.Explain(err)
}

// Agents lists the agents of which the peer may be asked for the card, page by
// page, and calls yield for each until it returns false.
func (c *Client) Agents(ctx context.Context, yield func(agdisc.Entry) bool) error {
	var params agdisc.ListParams
	for {
		octets, err := json.Marshal(params)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		octets, err = rpc.Call(ctx, c.Session, agdisc.MethodList, octets)
		if err != nil {
			return c.Explain(err)
		}
		var page agdisc.ListResult
		if err := json.Unmarshal(octets, &page); err != nil {
			return fmt.Errorf("client: %s: %w", agdisc.MethodList, err)
		}
		for _, entry := range page.Agents {
			if !yield(entry) {
				return nil
			}
		}
		switch {
		case page.Next == "":
			return nil
		case page.Next <= params.After:
			return fmt.Errorf("client: %s: the next page is none of those to come", agdisc.MethodList)
		}
		params.After = page.Next
	}
}
