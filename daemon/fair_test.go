package daemon

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/slimwire/swp/daemon/internal/part"
)

func TestRS29StatusShowsWhoUsesWhat(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, "")
		relays, s := relayPeer(t, r, r.addrs[transport])
		if err := publishing(t, s, "jobs", "1", 1000); err != nil {
			t.Fatal(err)
		}
		c, err := relays.Consume(t.Context(), s, "jobs", 7)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, body := r.get("/status")
		var status Status
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatal(err)
		}
		named := func(name string) part.Pool {
			i := slices.IndexFunc(status.Shares, func(p part.Pool) bool { return p.Name == name })
			if i < 0 {
				t.Fatalf("/status has no %q: %+v", name, status.Shares)
			}
			return status.Shares[i]
		}
		const me = "spiffe://localhost/swp-client"
		if p := named("relay consumers"); p.Used != 7 || p.Capacity != 16_384 || len(p.Most) != 1 || p.Most[0].Identity != me || p.Most[0].Used != 7 {
			t.Errorf("places of consumers: %+v", p)
		}
		p := named("store octets")
		if i := slices.IndexFunc(p.Most, func(u part.Use) bool { return u.Identity == me }); i < 0 || p.Most[i].Used < 1000 || p.Used < p.Most[i].Used {
			t.Errorf("octets of the store: %+v", p)
		}
		for _, name := range []string{
			"tasks", "mcp sessions", "event reads", "large events", "artifact downloads", "artifact reads", "artifact listings", "state checks",
			"large deliveries", "sdl messages", "sdl computing", "store writes", "artifact octets", "artifacts", "artifact writes", "handlers",
		} {
			if p := named(name); p.Capacity < 1 {
				t.Errorf("%+v has no capacity", p)
			}
		}
	})
}
