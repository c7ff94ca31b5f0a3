package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles/rpc"
)

// Ping asks the peer whether it is alive and returns how long the answer took: any answer,
// such as the refusal by a peer without swp.ping. An error in place of the answer of a
// partner may be from an endpoint on the way, unless it is that one.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	_, err := c.there().call(ctx, rpc.MethodPing, nil)
	took := time.Since(start)
	if failed, ok := errors.AsType[*rpc.Error](err); ok && (c.Target == "" || failed.Code == rpc.CodeUnknownMethod) {
		return took, nil
	}
	if err != nil {
		return 0, c.Explain(err)
	}
	return took, nil
}

// Times are statistics of durations.
type Times struct {
	Min  time.Duration `json:"min_ns"`
	Mean time.Duration `json:"mean_ns"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	Max  time.Duration `json:"max_ns"`
}

// Summarize sorts all and computes the statistics; zero Times if it is empty.
func Summarize(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	at := func(share float64) time.Duration { return all[min(len(all)-1, int(share*float64(len(all))))] }
	return Times{Min: all[0], Mean: sum / time.Duration(len(all)), P50: at(0.5), P99: at(0.99), Max: all[len(all)-1]}
}
