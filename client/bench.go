package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// BenchOptions configure Bench.
type BenchOptions struct {
	Conns    int           // connections
	InFlight int           // calls at a time on each
	Size     int           // octets of each payload, 0 is allowed
	Duration time.Duration // how long new calls are started
	Timeout  time.Duration // for the answers to the last calls, default 10 s

	// KeepStream makes all calls of a connection share one stream on QUIC. By default each
	// has its own. Other transports have one stream.
	KeepStream bool
}

// BenchResult is what Bench measured.
type BenchResult struct {
	Address  string        `json:"address"`
	Conns    int           `json:"conns"`
	InFlight int           `json:"inflight"`
	Size     int           `json:"size"`
	Duration time.Duration `json:"duration_ns"` // from the first call to the last answer

	Calls  uint64  `json:"calls"`
	Errors uint64  `json:"errors"`
	Rate   float64 `json:"calls_per_second"`
	Octets float64 `json:"payload_bytes_per_second"` // in each direction
	Times  Times   `json:"latency"`                  // of a sample if there were very many calls
}

// maxSample bounds how many latencies each caller keeps.
const maxSample = 1 << 16

// Bench calls swp.echo in a closed loop: each caller sends its next request after the
// answer to the previous one. It stops at the first error, and returns it with the results
// until then.
func Bench(ctx context.Context, address string, opts Options, o BenchOptions) (*BenchResult, error) {
	if o.Conns < 1 || o.InFlight < 1 || o.Size < 0 || o.Duration <= 0 {
		return nil, errors.New("client: bench: conns and inflight are at least 1, size is not negative, duration is above 0")
	}
	clients, err := dialAll(ctx, address, opts, o.Conns)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	b := &bench{payload: make([]byte, o.Size), times: make([][]time.Duration, o.Conns*o.InFlight)}
	for i := range b.payload {
		b.payload[i] = byte(i)
	}
	on := make([]profiles.Caller, len(clients))
	for i, c := range clients {
		on[i] = c.Session
		if o.KeepStream {
			lane, err := c.Open(ctx)
			if err != nil {
				return nil, c.Explain(err)
			}
			defer func() { _ = lane.Close() }()
			on[i] = lane
		}
	}
	start := time.Now()
	b.deadline = start.Add(o.Duration)
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	bounded, cancel := context.WithDeadlineCause(ctx, b.deadline.Add(o.Timeout), errUnanswered)
	defer cancel()
	var callers sync.WaitGroup
	for i, c := range clients {
		for j := range o.InFlight {
			slot := &b.times[i*o.InFlight+j]
			callers.Go(func() { *slot = b.run(bounded, c, on[i]) })
		}
	}
	callers.Wait()
	took := time.Since(start)
	r := &BenchResult{
		Address: clients[0].Address(), Conns: o.Conns, InFlight: o.InFlight, Size: o.Size, Duration: took,
		Calls: b.calls.Load(), Errors: b.errors.Load(),
	}
	r.Rate = math.Round(float64(r.Calls)/took.Seconds()*10) / 10
	r.Octets = math.Round(r.Rate * float64(o.Size))
	var all []time.Duration
	for _, t := range b.times {
		all = append(all, t...)
	}
	r.Times = Summarize(all)
	if err := b.first.Load(); err != nil {
		return r, *err
	}
	if bounded.Err() != nil {
		return r, context.Cause(bounded)
	}
	return r, nil
}

var errUnanswered = errors.New("client: bench: calls were not answered in time; the server may be down or overloaded (--timeout waits longer)")

func dialAll(ctx context.Context, address string, opts Options, n int) ([]*Client, error) {
	list := make([]*Client, 0, n)
	for range n {
		c, err := Dial(ctx, address, opts)
		if err != nil {
			return list, err
		}
		list = append(list, c)
		if _, err := c.Ping(ctx); err != nil { // refused clients learn it here
			return list, err
		}
	}
	return list, nil
}

type bench struct {
	payload       []byte
	deadline      time.Time
	calls, errors atomic.Uint64
	first         atomic.Pointer[error]
	times         [][]time.Duration
}

// run is one caller. It returns all latencies, or an evenly spaced sample.
func (b *bench) run(ctx context.Context, c *Client, on profiles.Caller) []time.Duration {
	var sample []time.Duration
	every, n := 1, 0
	for now := time.Now(); now.Before(b.deadline) && ctx.Err() == nil && b.first.Load() == nil; n++ {
		result, err := rpc.Call(ctx, on, rpc.MethodEcho, b.payload)
		if err == nil && !bytes.Equal(result, b.payload) {
			err = fmt.Errorf("client: bench: the echo of %d octets came back different", len(b.payload))
		}
		if err != nil {
			if ctx.Err() == nil {
				b.errors.Add(1)
				err = c.Explain(err)
				b.first.CompareAndSwap(nil, &err)
			}
			break
		}
		end := time.Now()
		if n%every == 0 {
			sample = append(sample, end.Sub(now))
		}
		if len(sample) == maxSample {
			for i := range maxSample / 2 {
				sample[i] = sample[2*i]
			}
			sample, every = sample[:maxSample/2], 2*every
		}
		now = end
		b.calls.Add(1)
	}
	return sample
}
