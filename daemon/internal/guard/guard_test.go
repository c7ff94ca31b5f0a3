package guard

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

func TestHeldBackEventsAreSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Options{Access: &config.Default().Access, Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		reg.MustRegister(g.denials)
		count := func() int {
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			return int(families[0].GetMetric()[0].GetCounter().GetValue())
		}
		for range 3 {
			g.Allowed("a", "events", "subscribe", "orders.new")
			g.Allowed("b", "events", "subscribe", "orders.new")
			g.Allowed("a", "events", "publish", "orders.new")
		}
		if n := count(); n != 1+1+3 {
			t.Errorf("%d denials, want one of each subscriber and three of the publisher", n)
		}
		time.Sleep(time.Minute) // virtual
		g.Allowed("a", "events", "subscribe", "orders.new")
		if n := count(); n != 6 {
			t.Errorf("%d denials after a minute, want 6", n)
		}
		for i := range 3 * maxHeldBack {
			g.Allowed("a", "events", "subscribe", strconv.Itoa(i))
		}
		if n := len(g.held.last); n > maxHeldBack {
			t.Errorf("%d event_types are remembered, want at most %d", n, maxHeldBack)
		}
	})
}
