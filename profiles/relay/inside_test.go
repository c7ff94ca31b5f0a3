package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

func TestWhatIsKeptFromInsideIsDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{MaxPayload: 16})
		p := &relay.Publication{ID: []byte("one"), Topic: "orders", Payload: []byte("payload of one"), TTL: time.Hour}
		for range 2 { // the second time it is known
			if err := s.set.Relay.Keep(t.Context(), publisher, p); err != nil {
				t.Fatal(err)
			}
		}
		c := s.dial(consumer).consume("orders", 0)
		ack(t, receive(t, c, "one"))
		if err := s.set.Relay.Keep(t.Context(), publisher, &relay.Publication{ID: []byte("two"), Topic: "orders", Payload: []byte("payload of two")}); err != nil {
			t.Fatal(err)
		}
		ack(t, receive(t, c, "two"))
		time.Sleep(time.Hour)
		nothing(t, c)
		s.dial(publisher).wantStatus("one", relay.Acked, 1)
	})
}

func TestKeepRefuses(t *testing.T) {
	s := serve(t, "pipe", relay.Options{MaxPayload: 16})
	keep := func(change func(*relay.Publication)) error {
		p := &relay.Publication{ID: []byte("one"), Topic: "orders", Payload: []byte("1234567812345678")}
		change(p)
		return s.set.Relay.Keep(t.Context(), publisher, p)
	}
	if err := keep(func(p *relay.Publication) { p.Hops = profiles.MaxHops - 1 }); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*relay.Publication){
		"no id":             func(p *relay.Publication) { p.ID = nil },
		"no topic":          func(p *relay.Publication) { p.Topic = "" },
		"another payload":   func(p *relay.Publication) { p.Payload = []byte("x") },
		"too many octets":   func(p *relay.Publication) { p.ID, p.Payload = []byte("two"), []byte("12345678123456789") },
		"too many hops":     func(p *relay.Publication) { p.ID, p.Hops = []byte("two"), profiles.MaxHops },
		"an id with 1 KiB+": func(p *relay.Publication) { p.ID = make([]byte, 1024) },
	} {
		if fault, ok := errors.AsType[*profiles.Error](keep(change)); !ok || fault.Code != profiles.InvalidProfilePayload {
			t.Errorf("%s: %v", name, fault)
		}
	}
	none, err := relay.New(relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if err := none.Keep(t.Context(), publisher, &relay.Publication{ID: []byte("one"), Topic: "orders"}); err == nil {
		t.Error("without a Store")
	}
}
