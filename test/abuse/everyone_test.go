//go:build abuse

package abuse

import (
	"context"
	"os"
	"testing"
	"time"
)

// lasting returns the time that ABUSE_TIME sets for a test, or the usual one.
func lasting(t *testing.T, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("ABUSE_TIME")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ABUSE_TIME: %v", err)
	}
	return d
}

// TestAbuseRS17 attacks every entrance at once. make abuse-memory does so for ten minutes.
func TestAbuseRS17EveryEntranceAtOnceStaysWithinMemory(t *testing.T) {
	const most = 320 << 20 // of resident memory: a quarter above the limit of the heap
	s := newStage(t, []string{"GOMEMLIMIT=256MiB"}, "quota: {total: 512MiB, per_identity: 128MiB}\n",
		"in_flight_bytes: 64MiB", "connections_per_identity: 1024")
	begin := s.memory()
	lasts := lasting(t, 30*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(lasts, cancel).Stop()
	peers := []*tally{
		s.behave(ctx, "good peer over TLS", 20*time.Millisecond, s.echoes(honest, "tls")),
		s.behave(ctx, "good peer over QUIC", 20*time.Millisecond, s.echoes(honest, "quic")),
		s.behave(ctx, "good caller over HTTP", 50*time.Millisecond, s.asks("honest")),
	}
	s.strangers(ctx)
	s.overHTTP(ctx)
	s.deafAndLoud(ctx)
	for _, over := range []string{"tls", "quic"} {
		s.unprivileged(ctx, over)
		s.partner(ctx, over)
		s.privileged(ctx, over)
	}
	peak, used, told := 0, 0.0, time.Now()
	for ctx.Err() == nil {
		peak = max(peak, s.memory())
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			n, err := s.gauge("swpd_in_flight_bytes")
			if used = max(used, n); err != nil {
				t.Logf("metrics: %v", err)
			}
			t.Logf("resident %d MiB, in flight %d MiB", s.memory()>>20, int(n)>>20)
		}
		rest(ctx, nil, 100*time.Millisecond)
	}
	s.work.Wait()
	t.Logf("%v: resident %d MiB at the start, %d MiB at the peak; in flight %d MiB at the peak", lasts, begin>>20, peak>>20, int(used)>>20)
	if peak > most {
		t.Errorf("I4: %d MiB at the peak, want %d at most", peak>>20, most>>20)
	}
	for _, p := range peers {
		t.Log(p)
		if all, failed, _, _ := p.result(); all < int(lasts/time.Second) || failed*100 > all {
			t.Errorf("I1: %v", p)
		}
	}
}

// TestAbuseRS18 has five parties abuse swpd at once: an identity without rights, a stranger,
// callers over HTTP, MCP servers that are loud or deaf, and a partner.
func TestAbuseRS18FivePartiesAtOnceHarmNobodyElse(t *testing.T) {
	const budget, quota = 256 << 20, 256 << 20
	lasts := lasting(t, 2*time.Minute)
	tries(t, func(t *testing.T, o *outcome) {
		s := newStage(t, nil, "quota: {total: 256MiB, per_identity: 64MiB}\n", "in_flight_bytes: 256MiB", "connections_per_identity: 1024")
		begin := s.memory()
		if _, err := s.gauge("swpd_store_used_bytes"); err != nil { // an address that is not known may be refused in a burst
			t.Fatal(err)
		}
		quiet := s.meanwhile(10 * time.Second).report()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		storing := s.behave(ctx, "a good peer that stores", time.Second, s.stores(honest, 64<<10))
		asking := s.behave(ctx, "a good caller over HTTP", 50*time.Millisecond, s.asks("honest"))
		s.strangers(ctx)
		s.overHTTP(ctx)
		s.deafAndLoud(ctx)
		s.unprivileged(ctx, "tls")
		s.partner(ctx, "tls")
		g := s.meanwhile(lasts)
		peak, used := 0, 0.0
		for end := time.Now().Add(lasts); time.Now().Before(end); rest(ctx, nil, 100*time.Millisecond) {
			peak = max(peak, s.memory()-begin)
			n, err := s.gauge("swpd_store_used_bytes")
			if used = max(used, n); err != nil {
				o.must(false, "admin: %v", err)
			}
		}
		r := g.report()
		cancel()
		s.work.Wait()
		o.say("quiet p50 %v p99 %v, then p50 %v p99 %v", quiet.Latency.P50, quiet.Latency.P99, r.Latency.P50, r.Latency.P99)
		o.must(r.Latency.P99-quiet.Latency.P99 <= goodP99, "I2: p99 of the good peer %v more, want %v at most", r.Latency.P99-quiet.Latency.P99, goodP99)
		o.say("memory %+d MiB at the peak", peak>>20)
		o.must(peak <= budget*3/2, "I4: %d MiB more, want %d at most", peak>>20, budget*3/2>>20)
		o.say("store %d MiB", int(used)>>20)
		o.must(used <= quota, "the store holds %d MiB, want %d at most", int(used)>>20, quota>>20)
		for _, p := range []*tally{storing, asking} {
			all, failed, _, _ := p.result()
			o.say("%v", p)
			o.must(all >= int(lasts/time.Second)/4 && failed*100 <= all, "I1: %v", p)
		}
		// The log has what was merged within a minute, and the trail ten seconds later.
		logged, recorded, err := s.denied()
		counted, failed := s.gauge("swpd_denials_total")
		whole := func() bool { return total(logged) == int(counted) && total(recorded) >= int(counted) }
		for ends := time.Now().Add(90 * time.Second); err == nil && failed == nil && !whole() && time.Now().Before(ends); {
			rest(t.Context(), nil, time.Second)
			logged, recorded, err = s.denied()
			counted, failed = s.gauge("swpd_denials_total")
		}
		o.say("denials in the log %v, in the trail %v", logged, recorded)
		sum := total(logged)
		for operation, n := range logged {
			o.must(recorded[operation] >= n, "%d denials of %s are in the log, and %d in the trail", n, operation, recorded[operation])
		}
		o.must(err == nil && failed == nil && sum > 100 && sum == int(counted), "%v denials are counted, and %d in the log: %v, %v", counted, sum, err, failed)
	})
}

// total is the sum of counts.
func total(of map[string]int) (sum int) {
	for _, n := range of {
		sum += n
	}
	return sum
}
