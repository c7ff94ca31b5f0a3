package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

// alone starts an organisation whose partner b is away, with more in the entry of b.
func alone(t *testing.T, yaml, more string) *organisation {
	t.Helper()
	return open(t, "a", yaml+"partners: {b: {identity: spiffe://b.example/swpd, "+more+"}}\n")
}

// publishing publishes a delivery of so many octets, and returns its error.
func publishing(t *testing.T, s profiles.Session, topic, id string, octets int) error {
	t.Helper()
	_, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte(id), Topic: topic, Payload: bytes.Repeat([]byte("x"), octets)})
	return err
}

func TestWhatWaitsForAPartnerHasABound(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a := alone(t, "relay: {max_payload: 4KiB, waiting: 1}\n", "queue: {messages: 3, size: 9KiB}")
		_, s := relayPeer(t, a.running, a.addrs[transport])
		full := func(what, id string, octets int) {
			t.Helper()
			err := publishing(t, s, "b/t", id, octets)
			refusedBy(t, what, err, profiles.RateLimitExceeded.Alias(), a)
			if err != nil && !strings.Contains(err.Error(), "raise partners.b.queue") {
				t.Errorf("%s: %v does not say what to do", what, err)
			}
			_, _, err = relay.Ask(t.Context(), s, []byte(id))
			refusedBy(t, what+" is kept", err, relay.CodeNotFound, a)
		}
		keep := func(id string, octets int) {
			t.Helper()
			if err := publishing(t, s, "b/t", id, octets); err != nil {
				t.Fatal(err)
			}
		}
		keep("1", 4096)
		keep("2", 4096)
		full("more octets than may wait", "3", 2048)
		keep("3", 512)
		full("a fourth", "4", 0)
		if err := publishing(t, s, "t", "5", 0); err != nil {
			t.Errorf("a delivery that stays here: %v", err)
		}
		a.counts(`swpd_partner_queue_messages{partner="b"}`, "3")
		var status Status
		if _, body := a.get("/status"); json.Unmarshal([]byte(body), &status) != nil || status.Partners[0].Queue.Messages != 3 || status.Partners[0].Queue.Octets < 8704 {
			t.Errorf("status %+v", status.Partners)
		}
		a.counts(`swpd_partner_queue_bytes{partner="b"}`, fmt.Sprint(status.Partners[0].Queue.Octets))
		a.rewrite("messages: 3", "messages: 4")
		a.reloaded()
		keep("4", 0)
		full("a fifth", "6", 0)
		// It is counted again after a restart.
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		a.again()
		_, s = relayPeer(t, a.running, a.addrs[transport])
		full("a fifth after a restart", "6", 0)
	})
}
