package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

// TestWhatFitsNoDeliveryIsRefused has payloads that fit a frame of their publisher,
// where the relay adds to them what makes them too long. The largest that is taken
// arrives.
func TestWhatFitsNoDeliveryIsRefused(t *testing.T) {
	effort.Unwatched(t)
	id, topic := []byte("id"), "orders"
	// What a delivery has beside the payload: with a ttl_ms of the relay's, which its
	// publisher did not send, and without.
	beside := func(ttl uint64) int {
		m := relay.Publish{DeliveryID: id, Topic: []byte(topic), Payload: make([]byte, 8_380_000), TTL: ttl}
		return m.Size() - len(m.Payload)
	}
	hour := uint64(time.Hour / time.Millisecond)
	for name, test := range map[string]struct {
		opts relay.Options
		most int  // payload
		sent bool // the publisher can send one octet more
	}{
		"the relay's ttl":      {relay.Options{TTL: time.Hour}, e1.DefaultMaxPayload - beside(hour), true},
		"no ttl":               {relay.Options{}, e1.DefaultMaxPayload - beside(0), false},
		"a ttl that is longer": {relay.Options{TTL: time.Hour, Retention: time.Minute}, e1.DefaultMaxPayload - beside(0), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, "pipe", test.opts)
				p := s.dial(publisher)
				c := s.dial(consumer).consume(topic, 0)
				large := relay.Publication{ID: id, Topic: topic, Payload: []byte(strings.Repeat("x", test.most+1))}
				if test.sent {
					_, err := p.send(large)
					wantPeerError(t, err, profiles.InvalidProfilePayload.Alias())
					s.wantDetail(t, relay.DetailSize, 1)
				}
				large.Payload = large.Payload[:test.most]
				if _, err := p.send(large); err != nil {
					t.Fatalf("%d octets: %v", test.most, err)
				}
				d := receiveAny(t, c)
				if len(d.Payload) != test.most {
					t.Errorf("%d octets arrive, want %d", len(d.Payload), test.most)
				}
				ack(t, d)
			})
		})
	}
}

// TestFramesAndExtensionsOfConsumersAreReckonedWith: the relay adds who has
// published, and over how many hops it came.
func TestFramesAndExtensionsOfConsumersAreReckonedWith(t *testing.T) {
	extensions := len(e1.AppendExtensionUvarint(e1.AppendExtension(nil, relay.ExtPublisher, []byte(publisher)), profiles.ExtHops, 1))
	for name, test := range map[string]struct {
		fits, exceeds relay.Options
	}{
		"extensions": {
			relay.Options{Envelope: e1.Limits{MaxExtensions: extensions}},
			relay.Options{Envelope: e1.Limits{MaxExtensions: extensions - 1}},
		},
		// A msg_id of 64 octets, flags and timestamp of 10, a payload of 20.
		"frame": {
			relay.Options{FrameLimit: 3 + 20 + 65 + 1 + extensions + 1 + 20},
			relay.Options{FrameLimit: 3 + 20 + 65 + 1 + extensions + 1 + 20 - 1},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := relay.Publish{DeliveryID: []byte("id"), Topic: []byte("orders")}
			m.Payload = make([]byte, 20-m.Size()-2)
			if m.Size() != 20 {
				t.Fatalf("the message has %d octets", m.Size())
			}
			pub := relay.Publication{ID: m.DeliveryID, Topic: "orders", Payload: m.Payload}
			if _, err := serve(t, "pipe", test.fits).dial(publisher).send(pub); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_, err := serve(t, "pipe", test.exceeds).dial(publisher).send(pub)
			wantPeerError(t, err, profiles.InvalidProfilePayload.Alias())
		})
	}
}

// TestST07WhatIsLeftIsNeverMoreThanTheTTL has the clock go back during the ttl.
func TestST07WhatIsLeftIsNeverMoreThanTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump time.Duration
		now := func() time.Time { return time.Now().Add(jump) }
		s := serve(t, "pipe", relay.Options{Now: now})
		p := s.dial(publisher)
		if _, err := p.send(relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("payload of id"), TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		jump = -time.Hour
		d := receive(t, s.dial(consumer).consume("orders", 0), "id")
		if d.TTL != time.Minute {
			t.Errorf("%v are left of a minute", d.TTL)
		}
		ack(t, d)
	})
}

func TestHopsThatSayNothingAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", relay.Options{})
		p := s.dial(publisher)
		for i, value := range []string{"", "\x80", "\x01\x01"} {
			m := relay.Publish{DeliveryID: fmt.Append(nil, i), Topic: []byte("orders")}
			answer := p.raw(relay.TypePublish, m.Append(nil), e1.AppendExtension(nil, profiles.ExtHops, []byte(value)))
			var fault relay.Err
			if err := fault.Decode(answer.Payload); err != nil || string(fault.Code) != profiles.InvalidProfilePayload.Alias() {
				t.Errorf("hops %x: answer of type %d, code %s, %v", value, answer.MsgType, fault.Code, err)
			}
		}
		s.wantDetail(t, profiles.DetailExtension, 3)
	})
}
