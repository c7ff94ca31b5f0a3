package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

func newRelay(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Publish deliveries, and process deliveries of others",
		Long: `Publish deliveries to an endpoint that relays, and process deliveries of others. A
delivery is octets with a topic. It is stored until a consumer of the topic has
processed it; if none does, it is dead in the end. Its id belongs to its publisher:
the same id published again is the same delivery.`,
		Example: `  swp-client relay publish swp+tls://127.0.0.1:7777 builds @report.json
  swp-client relay consume swp+tls://127.0.0.1:7777 builds --exec ./import.sh
  swp-client relay status swp+tls://127.0.0.1:7777 8f14e45fceea167a5a36dedd4bea2543
  swp-client relay dead swp+quic://127.0.0.1:7777 builds`,
	}
	cmd.AddCommand(newRelayPublish(f), newRelayConsume(f), newRelayStatus(f), newRelayDead(f))
	return cmd
}

// relayAdvice says more about what endpoints refuse.
func relayAdvice(err error) error {
	code := answered(err, relay.Name).Code
	failed := (*rpc.Error)(nil)
	switch {
	case code == relay.CodeConflict:
		return advise(err, "This identity has published something else under that id: another topic or another payload.")
	case code == profiles.RateLimitExceeded.Alias():
		return advise(err, "The relay says why it has no room or no time for this now; the same command may work later. A topic that is full\nis emptied by its consumers, a limit is raised by the operator of the endpoint.")
	case errors.As(err, &failed) && failed.Code == rpc.CodeUnknownMethod:
		return advise(err, "That endpoint has no such method; it is no relay.")
	}
	return err
}

// deliveryID reads a delivery_id from the command line.
func deliveryID(what, text string, most int) ([]byte, error) {
	id, err := hex.DecodeString(text)
	if err != nil || len(id) == 0 || len(id) > most {
		return nil, &usageError{fmt.Sprintf("%s %.80q: want an even number of hexadecimal digits, at most %d", what, text, 2*most)}
	}
	return id, nil
}

// checkTopic wants what a topic is on the command line.
func checkTopic(topic string) error {
	if topic == "" || len(topic) > relay.MaxTopic {
		return &usageError{fmt.Sprintf("TOPIC has %d octets, want 1 to %d", len(topic), relay.MaxTopic)}
	}
	return nil
}

// printedDelivery is how a delivery stands, as JSON.
type printedDelivery struct {
	ID        string       `json:"delivery_id"`
	Duplicate *bool        `json:"duplicate,omitempty"`
	State     relay.State  `json:"state,omitempty"`
	Attempts  uint32       `json:"attempt_count,omitempty"`
	Reason    relay.Reason `json:"reason_code,omitempty"`
	Refusal   *refusal     `json:"refusal,omitempty"`
}

// refusal says which endpoint behind this one has refused a delivery, and why, as JSON.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	client.Author
}

// refusalOf returns the refusal of a dead delivery, nil if there is none.
func refusalOf(c *client.Client, d *relay.Dead) *refusal {
	if d.Refusal == nil {
		return nil
	}
	return &refusal{d.Refusal.Code, d.Refusal.Message, c.RefusedBy(d)}
}

// heldUp returns why a delivery waits for a partner, nil if nothing is known.
func heldUp(ctx context.Context, c *client.Client, id []byte) *refusal {
	held, err := c.FindHeld(ctx, id)
	if err != nil || held == nil {
		return nil
	}
	return &refusal{held.Refusal.Code, held.Refusal.Message, c.HeldBy(held)}
}

// text is the refusal for people, after a separator; empty for nil.
func (r *refusal) text(separator string) string {
	if r == nil {
		return ""
	}
	by := "not forwarded"
	if r.Endpoint != "" {
		by = "refused by " + r.Author.String()
	}
	return visible(separator + by + ": " + strings.TrimSuffix(r.Code+": "+r.Message, ": "))
}

// buried adds what is listed of a dead delivery. STATUS counts attempts from 1, also of a
// delivery that was never attempted.
func (p *printedDelivery) buried(c *client.Client, d *relay.Dead) {
	p.Reason, p.Attempts, p.Refusal = d.Reason, uint32(d.Attempts), refusalOf(c, d)
}

func newRelayStatus(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "status ADDR[/PARTNER] DELIVERY_ID",
		Short: "Print the state of a delivery",
		Long: `Print the state of a delivery of this identity: queued, retry, acked or dead-letter;
the number of the attempt that is due, running or was the last; and why it is dead: the
reason, and if a partner has refused it, which one, its code and its message. If it
waits because a partner cannot be reached or accepts none now, that is printed too.`,
		Example: `  swp-client relay status swp+tls://127.0.0.1:7777 8f14e45fceea167a5a36dedd4bea2543
  swp-client relay status swp+quic://127.0.0.1:7777 8f14e45fceea167a5a36dedd4bea2543 --json | jq -r .state`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := deliveryID("DELIVERY_ID", args[1], relay.MaxDeliveryID)
			if err != nil {
				return err
			}
			return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
				p := printedDelivery{ID: hex.EncodeToString(id)}
				if p.State, p.Attempts, err = c.DeliveryStatus(ctx, id); err != nil {
					if answered(err, relay.Name).Code == relay.CodeNotFound {
						return advise(err, "This identity has published no such delivery there, or it is forgotten by now.")
					}
					return relayAdvice(err)
				}
				switch p.State {
				case relay.DeadState:
					if dead := deadOf(ctx, c, id); dead != nil {
						p.buried(c, dead)
					}
				case relay.Queued, relay.Retry:
					p.Refusal = heldUp(ctx, c, id)
				}
				if f.asJSON {
					return f.printJSON(p)
				}
				f.printf("%s\n", p.text())
				return nil
			})
		},
	}
}

// deadOf returns a dead delivery, nil if it is not listed.
func deadOf(ctx context.Context, c *client.Client, id []byte) *relay.Dead {
	dead, err := c.FindDead(ctx, id)
	if err != nil {
		return nil
	}
	return dead
}

func (p *printedDelivery) text() string {
	text := fmt.Sprintf("%s attempt %d", visible(string(p.State)), p.Attempts)
	if p.Reason != "" {
		return text + " " + p.why()
	}
	return text + p.Refusal.text(", waits: ")
}

// why says why a delivery is dead.
func (p *printedDelivery) why() string {
	return visible(string(p.Reason)) + p.Refusal.text(": ")
}

// printedDead is a dead delivery as JSON.
type printedDead struct {
	ID       string       `json:"delivery_id"`
	Topic    string       `json:"topic"`
	Reason   relay.Reason `json:"reason_code"`
	Attempts int          `json:"attempt_count"`
	Taken    int64        `json:"taken_unix_ms"`
	Died     int64        `json:"died_unix_ms"`
	Told     bool         `json:"told"`
	Size     int          `json:"size"`
	Payload  any          `json:"payload,omitempty"`
	Partner  string       `json:"partner,omitempty"`
	Refusal  *refusal     `json:"refusal,omitempty"`
}

func newRelayDead(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead ADDR[/PARTNER] [TOPIC]",
		Short: "List the dead deliveries of this identity",
		Long: `List the stored dead deliveries of this identity: time of death, reason, number of
attempts, size of the payload, topic, id, and the refusal if a partner has refused it.
! marks deliveries whose notice this identity has not confirmed yet. Those come first;
both groups are in the order of death.`,
		Example: `  swp-client relay dead swp+tls://127.0.0.1:7777
  swp-client relay dead swp+tls://127.0.0.1:7777 builds --json | jq -r .reason_code | sort | uniq -c
  swp-client relay dead swp+quic://127.0.0.1:7777 --json --payload --max 1 | jq .payload`,
	}
	var in relay.DeadParams
	most := cmd.Flags().Int("max", 0, "maximum number to list; 0 = all")
	cmd.Flags().StringVar(&in.After, "after", "", "continue after the `cursor` that --max printed")
	cmd.Flags().BoolVar(&in.Payload, "payload", false, "with --json, also list payloads that fit into an answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		topic := ""
		if len(args) == 2 {
			topic = args[1]
			if err := checkTopic(topic); err != nil {
				return err
			}
		}
		switch {
		case *most < 0:
			return &usageError{fmt.Sprintf("--max %d: want 0 or more", *most)}
		case in.Payload && !f.asJSON:
			return &usageError{"--payload goes with --json"}
		}
		return f.listDead(cmd.Context(), args[0], topic, *most, in)
	}
	return cmd
}

// listDead prints dead deliveries. With a bound a page ends where it does, so that
// the next one begins behind what was printed.
func (f *flags) listDead(ctx context.Context, address, topic string, most int, in relay.DeadParams) error {
	c, err := f.dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	printed := 0
	for {
		if in.Limit = 0; most > 0 {
			in.Limit = most - printed
		}
		var failed error
		onPage, cancel := context.WithTimeout(ctx, f.timeout)
		next, err := c.DeadPage(onPage, in, func(d *relay.Dead) {
			if (topic == "" || d.Topic == topic) && failed == nil {
				printed++
				failed = f.printDead(c, d)
			}
		})
		cancel()
		if err = errors.Join(relayAdvice(err), failed); err != nil || next == "" {
			return f.listed(err, printed, "dead delivery")
		}
		in.After = next
		if most > 0 && printed >= most {
			f.warnf("there may be more; go on with --after %s", next)
			return nil
		}
	}
}

func (f *flags) printDead(c *client.Client, d *relay.Dead) error {
	id := hex.EncodeToString(d.DeliveryID)
	if f.asJSON {
		p := printedDead{
			ID: id, Topic: d.Topic, Reason: d.Reason, Attempts: d.Attempts, Taken: d.Taken, Died: d.Died, Told: d.Told, Size: d.Size, Partner: d.Partner, Refusal: refusalOf(c, d),
		}
		if len(d.Payload) > 0 {
			p.Payload = readable(d.Payload)
		}
		return f.printJSON(p)
	}
	mark := "!"
	if d.Told {
		mark = " "
	}
	_, err := fmt.Fprintf(f.out, "%s %s %-14s %-12s %12s %s %s%s\n", mark, time.UnixMilli(d.Died).UTC().Format("2006-01-02T15:04:05.000Z"),
		cli.Field(string(d.Reason)), plain.Count(d.Attempts, "attempt"), plain.Count(d.Size, "octet"), cli.Field(d.Topic), id, refusalOf(c, d).text(" "))
	return err
}
