package endpoint_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestEN10Freshness(t *testing.T) {
	const skew = 300_000
	now := time.UnixMilli(1_700_000_000_000)
	ms := uint64(now.UnixMilli())
	stale := []struct {
		name string
		ts   uint64
	}{
		{"1 ms too old", ms - skew - 1},
		{"1 ms too far ahead", ms + skew + 1},
		{"1", 1},
		{"2^50, which wraps as nanoseconds", 1 << 50},
		{"2^63", 1 << 63},
		{"2^64-1", math.MaxUint64},
	}
	fresh := []struct {
		name string
		ts   uint64
	}{
		{"now", ms},
		{"as old as allowed", ms - skew},
		{"as far ahead as allowed", ms + skew},
	}
	type policy struct {
		endpoint.Freshness
		stale, zero profiles.Code
	}
	policies := []policy{
		{endpoint.Freshness{}, profiles.OK, profiles.OK},
		{endpoint.Freshness{Required: true}, profiles.OK, profiles.InvalidEnvelope},
		{endpoint.Freshness{Owner: endpoint.FreshnessCore}, profiles.InvalidEnvelope, profiles.OK},
		{endpoint.Freshness{Owner: endpoint.FreshnessCore, Required: true}, profiles.InvalidEnvelope, profiles.InvalidEnvelope},
		{endpoint.Freshness{Owner: endpoint.FreshnessS1}, profiles.SecurityPolicy, profiles.OK},
		{endpoint.Freshness{Owner: endpoint.FreshnessS1, Required: true}, profiles.SecurityPolicy, profiles.InvalidEnvelope},
	}
	for _, p := range policies {
		t.Run(fmt.Sprintf("owner %d required %v", p.Owner, p.Required), func(t *testing.T) {
			opts := endpoint.Options{Freshness: p.Freshness, Now: func() time.Time { return now }}
			opts.Bounds.ErrorBudget = 100
			r := newRig(t, opts, profile(echo))
			n, events := 0, 0
			try := func(name string, ts uint64, want profiles.Code) {
				t.Helper()
				id := fmt.Sprintf("msg-id-%09d", n)
				env := request(id, "x")
				env.Timestamp = ts
				r.send(t, env)
				n++
				detail := ""
				if want != profiles.OK && ts != 0 {
					detail = "stale"
				}
				if want == profiles.OK {
					r.wantEcho(t, id, "x")
				}
				r.wantVerdict(t, n, want, detail, endpoint.Kept)
				if t.Failed() {
					t.Fatalf("with ts_unix_ms %s", name)
				}
				if want == profiles.SecurityPolicy {
					events++
				}
			}
			for _, c := range fresh {
				try(c.name, c.ts, profiles.OK)
			}
			for _, c := range stale {
				try(c.name, c.ts, p.stale)
			}
			try("0", 0, p.zero)
			r.rec.mu.Lock()
			defer r.rec.mu.Unlock()
			if len(r.rec.security) != events {
				t.Errorf("%d security events, want %d", len(r.rec.security), events)
			}
			for _, ev := range r.rec.security {
				if ev.Reason != transport.ReasonStale || ev.Identity != r.sess.Peer().Identity {
					t.Errorf("security event %+v", ev)
				}
			}
		})
	}
}

func TestEN10SkewIsConfigurable(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r := newRig(t, endpoint.Options{
		Freshness: endpoint.Freshness{Owner: endpoint.FreshnessCore, Skew: time.Second},
		Now:       func() time.Time { return now },
	}, profile(echo))
	for i, d := range []time.Duration{-time.Second, time.Second} {
		env := request(fmt.Sprintf("msg-id-%09d", i), "x")
		env.Timestamp = uint64(now.Add(d).UnixMilli())
		r.send(t, env)
		r.wantEcho(t, string(env.MsgID), "x")
	}
	for i, d := range []time.Duration{-1001 * time.Millisecond, 1001 * time.Millisecond} {
		env := request("0123456789abcdef", "x")
		env.Timestamp = uint64(now.Add(d).UnixMilli())
		r.send(t, env)
		r.wantVerdict(t, 3+i, profiles.InvalidEnvelope, "stale", endpoint.Kept)
	}
}
