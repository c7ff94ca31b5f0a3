package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

func newAgents(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List agents and get their cards",
		Long: `List the agents behind an endpoint and read their cards: configured agents, and agents
that are connected to it. An agent whose card this identity may not get looks as if it
did not exist.`,
		Example: `  swp-client agents ls swp+tls://127.0.0.1:7777
  swp-client agents get swp+tls://127.0.0.1:7777 agent.demo >card.json`,
	}
	cmd.AddCommand(newAgentsLs(f), newAgentsGet(f))
	return cmd
}

func newAgentsLs(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls ADDR[/PARTNER]",
		Short: "List agents",
		Long: `List the agents whose cards this identity may get, with the revision of the card, or "no
card". Agents of partners are PARTNER/AGENT; while a partner cannot be reached, its last
list is shown. Kinds of tasks that this identity may ask for, and partners that have not
listed their agents yet, are named on standard error. With --json one object a line.`,
		Example: `  swp-client agents ls swp+tls://127.0.0.1:7777
  swp-client agents ls --json swp+quic://127.0.0.1:7777`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
			n := 0
			var err error
			find := cardFinder(ctx, c)
			beside, listed := c.Agents(ctx, func(e agdisc.Entry) bool {
				n++
				find(&e)
				if f.asJSON {
					err = f.printJSON(e)
				} else {
					err = row(w, e.AgentID, revision(&e), staleFor(e.StaleMillis))
				}
				return err == nil
			})
			err = errors.Join(err, listed, w.Flush())
			if len(beside.Kinds) > 0 {
				f.warnf("kinds of tasks that this identity may ask for there: %s", strings.Join(beside.Kinds, ", "))
			}
			if len(beside.Unlisted) == 0 {
				return f.listed(err, n, "agent")
			}
			f.warnf("partners whose agents the endpoint does not know yet: %s. swpd status there shows the links", strings.Join(beside.Unlisted, ", "))
			return err
		})
	}
	return cmd
}

// Bounds on the requests for cards of which the list says nothing.
const (
	maxCardsAsked = 100
	cardsAskedFor = 3 * time.Second
)

// cardFinder returns a function that completes an entry of the list: it asks for the card if
// the entry says nothing of one, and sets Revision, or Card to false.
func cardFinder(ctx context.Context, c *client.Client) func(*agdisc.Entry) {
	asked, left := 0, cardsAskedFor
	return func(e *agdisc.Entry) {
		if e.Revision != "" || e.Card != nil || asked == maxCardsAsked || left <= 0 {
			return
		}
		asked++
		begin := time.Now()
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		card, err := c.Card(ctx, e.AgentID, "")
		left -= time.Since(begin)
		refused, ok := errors.AsType[*profiles.PeerError](err)
		switch {
		case err == nil:
			e.Revision = card.Revision
		case ok && refused.Code == agdisc.CodeNotFound:
			e.Card = new(false)
		}
	}
}

// revision returns the column of a table about the card.
func revision(e *agdisc.Entry) string {
	if e.Revision == "" && e.Card != nil && !*e.Card {
		return "no card"
	}
	return e.Revision
}

func newAgentsGet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ADDR[/PARTNER] AGENT_ID",
		Short: "Print the card of an agent",
		Long: `Print the card of an agent, octet for octet. With --json it is in an object with its
revision, its etag and the time for which it is fresh; a card that is not JSON is a
string, or {"base64": …} if it is not text. While a partner cannot be reached, the cards
of its agents are those that the endpoint received last (stale_ms with --json).

With --etag the card is printed only if its etag differs.`,
		Example: `  swp-client agents get swp+tls://127.0.0.1:7777 agent.demo >card.json
  swp-client agents get --json swp+tls://127.0.0.1:7777 agent.demo
  swp-client agents get --etag sha256:… swp+quic://127.0.0.1:7777 agent.demo`,
	}
	etag := cmd.Flags().String("etag", "", "`etag` of the known card")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			card, err := c.Card(ctx, args[1], *etag)
			switch {
			case slices.Contains(absents, answered(err, agdisc.Name).Code):
				var known []string
				_, _ = c.Agents(ctx, func(e agdisc.Entry) bool {
					known = append(known, e.AgentID)
					return len(known) < maxKnown
				})
				if !slices.Contains(known, args[1]) {
					f.advice = unknown("agent", "", args[1], known)
				} else {
					f.advice = "The agent " + visible(args[1]) + " is known there and has no card"
				}
				return err
			case err != nil:
				return err
			case card == nil && f.asJSON:
				return f.printJSON(map[string]any{"agent_id": args[1], "etag": *etag, "not_modified": true})
			case card == nil:
				f.warnf("the card is still the one with etag %s", *etag)
				return nil
			case f.asJSON:
				return f.printJSON(struct {
					AgentID  string `json:"agent_id"`
					Revision string `json:"schema_revision"`
					ETag     string `json:"etag,omitempty"`
					MaxAge   int64  `json:"max_age_ms"`
					Stale    int64  `json:"stale_ms,omitempty"`
					Card     any    `json:"card"`
				}{card.AgentID, card.Revision, card.ETag, card.MaxAge.Milliseconds(), card.Stale.Milliseconds(), readable(card.Payload)})
			}
			f.tellStale("card", card.Stale)
			f.printOctets(card.Payload)
			return nil
		})
	}
	return cmd
}

// row prints one line of a table. Text of a peer is made visible, without line
// breaks and tabs.
func row(w io.Writer, columns ...string) error {
	for i, text := range columns {
		columns[i] = strings.Join(strings.Fields(visible(text)), " ")
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(columns, "\t"), "\t"))
	return err
}

// tellStale says that something may be out of date, because its partner is away.
func (f *flags) tellStale(what string, stale time.Duration) {
	if stale > 0 {
		_, _ = fmt.Fprintf(f.errOut, "swp-client: the %s is as it was: %s\n", what, staleFor(stale.Milliseconds()))
	}
}

// staleFor says that a partner is away, empty if it is not.
func staleFor(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return "its partner is away for " + (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
