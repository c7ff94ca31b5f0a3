package daemon

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// relayPeer connects a peer that publishes and consumes.
func relayPeer(t *testing.T, r *running, address string) (*relay.Service, *endpoint.Session) {
	t.Helper()
	return relayPeerWith(t, r, address, relay.Options{})
}

func relayPeerWith(t *testing.T, r *running, address string, o relay.Options) (*relay.Service, *endpoint.Session) {
	t.Helper()
	set, err := all.New(all.Options{Relay: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	conn, err := connect(t, address, devpki.Client(filepath.Join(r.dir, "pki")))
	if err != nil {
		t.Fatal(err)
	}
	return set.Relay, ep.Attach(conn)
}

func TestDeliveriesAreKeptOverARestartAndCounted(t *testing.T) {
	t.Parallel()
	r := start(t, "relay: {max_payload: 4}\n")
	ctx := t.Context()
	_, publisher := relayPeer(t, r, r.addrs[0])
	if _, err := relay.Send(ctx, publisher, &relay.Publication{ID: []byte("1"), Topic: "t", Payload: []byte("four")}); err != nil {
		t.Fatal(err)
	}
	refused := (*profiles.PeerError)(nil)
	if _, err := relay.Send(ctx, publisher, &relay.Publication{ID: []byte("2"), Topic: "t", Payload: []byte("fives")}); !errors.As(err, &refused) || refused.Retryable() {
		t.Errorf("a payload above max_payload: %v", err)
	}
	r.counts("swpd_relay_taken_total", "1")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	r = startIn(t, r.dir, "")
	s, session := relayPeer(t, r, r.addrs[1])
	c, err := s.Consume(ctx, session, "t", 1)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Recv(ctx)
	if err != nil || string(d.Payload) != "four" {
		t.Fatalf("delivery %+v, error %v", d, err)
	}
	r.counts("swpd_relay_consumers", "1")
	r.counts("swpd_relay_in_flight", "1")
	// A stop lets consumers go; what they have they may answer.
	r.stop()
	if _, err := c.Recv(ctx); err == nil {
		t.Error("a consumer is kept by a stop")
	}
	if err := d.Nack(false, "no use"); err != nil {
		t.Error(err)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	r = startIn(t, r.dir, "")
	_, publisher = relayPeer(t, r, r.addrs[0])
	if state, _, err := relay.Ask(ctx, publisher, []byte("1")); err != nil || state != relay.DeadState {
		t.Errorf("the delivery is %q, error %v", state, err)
	}
}

func TestRulesSayWhoPublishesAndWhoConsumes(t *testing.T) {
	r := start(t, "access: {rules: [{identity: 'spiffe://localhost/**', profile: relay, operation: publish, name: 'to/*'},"+
		"{identity: loopback, profile: relay, operation: consume, name: 'to/*'}]}\n")
	ctx := t.Context()
	publishes, publisher := relayPeer(t, r, r.addrs[0])
	consumes, consumer := relayPeer(t, r, r.addrs[2])
	send := func(on *endpoint.Session, topic string) error {
		_, err := relay.Send(ctx, on, &relay.Publication{ID: []byte(topic), Topic: topic})
		return err
	}
	for _, err := range []error{send(publisher, "at/a"), send(consumer, "to/a")} {
		denied := (*profiles.PeerError)(nil)
		if !errors.As(err, &denied) || denied.Code != profiles.SecurityPolicy.Alias() {
			t.Errorf("publishing: %v", err)
		}
	}
	if err := send(publisher, "to/a"); err != nil {
		t.Error(err)
	}
	for _, attach := range []func() (*relay.Consumer, error){
		func() (*relay.Consumer, error) { return publishes.Consume(ctx, publisher, "to/a", 1) },
		func() (*relay.Consumer, error) { return consumes.Consume(ctx, consumer, "at/a", 1) },
	} {
		if _, err := attach(); !errors.As(err, new(*rpc.Error)) && !errors.As(err, new(*profiles.Error)) {
			t.Errorf("attaching: %v", err)
		}
	}
	c, err := consumes.Consume(ctx, consumer, "to/a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := c.Recv(ctx); err != nil || d.Ack() != nil {
		t.Errorf("delivery %v, error %v", d, err)
	}
	r.counts(`swpd_denials_total{profile="relay"}`, "4")
}
