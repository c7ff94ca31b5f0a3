package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/backoff"
)

func newPing(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ping ADDR[/PARTNER]",
		Short: "Measure round trips to an endpoint",
		Example: `  swp-client ping swp+tls://127.0.0.1:7777
  swp-client ping --count 100 --interval 0 swp+quic://127.0.0.1:7777 --json`,
	}
	count := cmd.Flags().IntP("count", "c", 4, "number of round trips")
	interval := cmd.Flags().DurationP("interval", "i", 200*time.Millisecond, "pause between two round trips")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *count < 1 {
			return &usageError{fmt.Sprintf("--count %d, want at least 1", *count)}
		}
		start := time.Now()
		c, err := f.dial(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		return f.ping(cmd.Context(), c, time.Since(start), *count, *interval)
	}
	return cmd
}

// pinged is the result of ping as JSON.
type pinged struct {
	Address   string        `json:"address"`
	Peer      string        `json:"peer"`
	Target    string        `json:"target,omitempty"` // the partner that answers
	Transport string        `json:"transport"`
	Connect   time.Duration `json:"connect_ns"`
	Count     int           `json:"count"`
	Times     client.Times  `json:"round_trip"`
}

func (f *flags) ping(ctx context.Context, c *client.Client, connect time.Duration, count int, interval time.Duration) error {
	peer := c.Peer()
	var all []time.Duration
	for i := range count {
		if i > 0 {
			if err := backoff.Wait(ctx, interval); err != nil {
				return err
			}
		}
		answered, cancel := context.WithTimeout(ctx, f.timeout)
		d, err := c.Ping(answered)
		cancel()
		if err != nil {
			return err
		}
		if i == 0 && !f.asJSON {
			behind := ""
			if c.Target != "" {
				behind = "; the answers are those of " + c.Target + " behind it"
			}
			f.printf("connected to %s at %s over %s in %v%s\n", peer.Identity, peer.Addr, peer.Transport, connect.Round(time.Microsecond), behind)
		}
		if !f.asJSON {
			f.printf("answer %d: %v\n", i+1, d.Round(time.Microsecond))
		}
		all = append(all, d)
	}
	t := client.Summarize(all)
	if f.asJSON {
		return f.printJSON(pinged{c.Address(), peer.Identity, c.Target, peer.Transport, connect, count, t})
	}
	us := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
	f.printf("%d round trips: min %v, mean %v, p50 %v, p99 %v, max %v\n", count, us(t.Min), us(t.Mean), us(t.P50), us(t.P99), us(t.Max))
	return nil
}
