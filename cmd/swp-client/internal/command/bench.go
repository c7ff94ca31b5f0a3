package command

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
)

func newBench(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench ADDR",
		Short: "Measure calls a second in a closed loop",
		Long: `Call swp.echo in a closed loop: --conns connections with --inflight callers each; each
caller sends its next request after the answer to the previous one. By default an
endpoint limits each connection to 20,000 frames a second (limits.frame_rate); to
measure its maximum, turn that off at the endpoint.`,
		Example: `  swp-client bench swp+tls://127.0.0.1:7777
  swp-client bench --conns 8 --inflight 64 --size 4096 --duration 10s --json swp+quic://127.0.0.1:7777`,
	}
	o := client.BenchOptions{}
	cmd.Flags().IntVar(&o.Conns, "conns", 1, "connections")
	cmd.Flags().IntVar(&o.InFlight, "inflight", 1, "concurrent calls on each connection")
	cmd.Flags().IntVar(&o.Size, "size", 64, "octets of each payload")
	cmd.Flags().DurationVar(&o.Duration, "duration", 5*time.Second, "duration of the measurement")
	cmd.Flags().BoolVar(&o.KeepStream, "keep-stream", false, "on QUIC, use one stream for all calls of a connection")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Timeout = f.timeout
		opts, err := f.options(args[0])
		if err != nil {
			return err
		}
		if o.KeepStream && !strings.HasPrefix(args[0], "swp+quic:") {
			return &usageError{"--keep-stream has no effect but over swp+quic, which alone has streams; leave it out"}
		}
		r, err := client.Bench(cmd.Context(), args[0], opts, o)
		if r == nil {
			return err
		}
		if f.asJSON {
			if printErr := f.printJSON(r); printErr != nil {
				return printErr
			}
			return err
		}
		us := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
		f.printf("%d calls in %v: %.0f a second, %.1f MiB a second each way, %d errors\n",
			r.Calls, r.Duration.Round(time.Millisecond), r.Rate, r.Octets/(1<<20), r.Errors)
		f.printf("latency: min %v, mean %v, p50 %v, p99 %v, max %v\n", us(r.Times.Min), us(r.Times.Mean), us(r.Times.P50), us(r.Times.P99), us(r.Times.Max))
		return err
	}
	return takes(cmd, connects)
}
