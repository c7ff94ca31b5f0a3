package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/proc"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// streamID is the client that moves many messages one way.
const streamID = "swpd-stream"

// streamSize is how many octets the body of a streamed message has.
const streamSize = 256

// streamArgs are the arguments of the commands of a streaming client.
type streamArgs struct {
	Addr     string `json:"addr"`
	ID       string `json:"id"` // unlike that of any other command
	N        uint64 `json:"n"`
	InFlight int    `json:"in_flight,omitempty"`
}

// streamTopic is the topic of the deliveries.
const streamTopic = "bench"

// streamOps are the commands of a client that moves many messages; each returns how long it took.
func streamOps(dir string) proc.Ops {
	op := func(do func(context.Context, swpecho.Streamer, streamArgs) (time.Duration, error)) func(json.RawMessage) (any, error) {
		return func(raw json.RawMessage) (any, error) {
			var args streamArgs
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, err
			}
			return do(context.Background(), swpecho.NewStreamer(args.Addr, cert.Client(dir), streamSize), args)
		}
	}
	return proc.Ops{
		opEvents: op(func(ctx context.Context, s swpecho.Streamer, a streamArgs) (time.Duration, error) {
			return s.PublishEvents(ctx, a.ID, a.N)
		}),
		opReplay: op(func(ctx context.Context, s swpecho.Streamer, a streamArgs) (time.Duration, error) {
			return s.Replay(ctx, a.N)
		}),
		opDeliveries: op(func(ctx context.Context, s swpecho.Streamer, a streamArgs) (time.Duration, error) {
			return s.PublishDeliveries(ctx, a.ID, streamTopic, a.N)
		}),
		opConsume: op(func(ctx context.Context, s swpecho.Streamer, a streamArgs) (time.Duration, error) {
			return s.Consume(ctx, streamTopic, a.InFlight, a.N)
		}),
	}
}

const (
	opEvents     = "publish events"
	opReplay     = "replay events"
	opDeliveries = "publish deliveries"
	opConsume    = "consume deliveries"
)

// streaming is one way to move many messages.
type streaming struct {
	name     string
	op       string
	inFlight int
	n        uint64
	least    float64 // messages a second; zero without a promise
}

// streamings are in the order in which they run: a round publishes before it replays and consumes.
func streamings() []streaming {
	return []streaming{
		{"events, one publisher that does not wait for each", opEvents, 0, 50_000, 60_000},
		{"events, replayed", opReplay, 0, 50_000, 250_000},
		{"relay, one publisher that does not wait for each", opDeliveries, 0, 22_000, 40_000},
		{"relay, consumed, one in flight", opConsume, 1, 2_000, 0},
		{"relay, consumed, 16 in flight", opConsume, 16, 20_000, 20_000},
	}
}

// StreamReport is one way to move many messages.
type StreamReport struct {
	Name      string   `json:"name"`
	Messages  uint64   `json:"messages"`
	Rounds    int      `json:"rounds"`
	PerSecond *Spread  `json:"per_second,omitempty"` // nil if it was not measured
	ClientCPU *Spread  `json:"client_cpu_us,omitempty"`
	ServerCPU *Spread  `json:"server_cpu_us,omitempty"`
	Promise   *Verdict `json:"promise,omitempty"` // on PerSecond
}

// streamed is what it took to move messages once. The zero value is a round that failed.
type streamed struct {
	n                    uint64
	took                 time.Duration
	clientCPU, serverCPU time.Duration
}

func (s streamed) rate() float64 {
	if s.took == 0 {
		return 0
	}
	return float64(s.n) / s.took.Seconds()
}

// stream measures all streamings.
func (r *run) stream() error {
	rounds := max(min(r.opts.Rounds, 3), r.opts.Rounds/3)
	list := streamings()
	results := make([][]streamed, len(list))
	for round := range rounds {
		r.say("streams, round %d of %d", round+1, rounds)
		for i, s := range list {
			m, err := r.fleet.stream(swpdKey, s, fmt.Sprintf("%d-%d", round, i))
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
			if err != nil {
				r.fail(s.name, err)
			}
			results[i] = append(results[i], m)
		}
	}
	for i, s := range list {
		r.report.Streams = append(r.report.Streams, streamReport(s, rounds, results[i]))
	}
	return nil
}

func streamReport(s streaming, rounds int, results []streamed) StreamReport {
	micros := func(cpu func(streamed) time.Duration) func(streamed) float64 {
		return func(m streamed) float64 { return perExchange(cpu(m), int64(m.n)) } //nolint:gosec // a small number
	}
	report := StreamReport{
		Name: s.name, Messages: s.n, Rounds: rounds,
		PerSecond: figures(results, streamed.rate),
		ClientCPU: figures(results, micros(func(m streamed) time.Duration { return m.clientCPU })),
		ServerCPU: figures(results, micros(func(m streamed) time.Duration { return m.serverCPU })),
	}
	if report.PerSecond != nil && s.least > 0 {
		report.Promise = atLeast(report.PerSecond.Median, s.least)
	}
	return report
}

// stream moves messages through the server of a key once.
func (f *fleet) stream(key string, s streaming, id string) (m streamed, err error) {
	addr, pids, err := f.reach(key)
	if err != nil {
		return m, err
	}
	client, err := f.client(streamID)
	if err != nil {
		return m, err
	}
	pids = append([]int{client.PID()}, pids...)
	before, err := cpus(pids...)
	if err != nil {
		return m, err
	}
	var took time.Duration
	if err := client.Do(s.op, streamArgs{Addr: addr, ID: id, N: s.n, InFlight: s.inFlight}, &took); err != nil {
		return m, err
	}
	after, err := cpus(pids...)
	if err != nil {
		return m, err
	}
	return streamed{n: s.n, took: took, clientCPU: after[0] - before[0], serverCPU: after[1] - before[1]}, nil
}

func (r *Report) writeStreams(w io.Writer) {
	for i, s := range r.Streams {
		if i == 0 {
			section(w, fmt.Sprintf("many messages of %s, TLS, 1 connection (%d rounds)", sizeName(streamSize), s.Rounds),
				"", "messages", "messages/s", "min–max", "client CPU", "server CPU", "promise", "")
		}
		if s.PerSecond == nil {
			row(w, s.Name, append([]string{"not measured"}, make([]string, 6)...)...)
			continue
		}
		row(w, s.Name, fmt.Sprint(s.Messages), fmt.Sprintf("%.0f", s.PerSecond.Median), fmt.Sprintf("%.0f–%.0f", s.PerSecond.Min, s.PerSecond.Max),
			micros(s.ClientCPU), micros(s.ServerCPU), s.Promise.text("/s"), s.Promise.mark())
	}
}
