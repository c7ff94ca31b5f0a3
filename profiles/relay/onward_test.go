package relay_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

// gateway is the identity of a relay that passes deliveries on to another one.
const gateway = "spiffe://test.invalid/gateway"

// behind says that topics b/… are those of the partner b.
func behind(topic string) (partner, rest string, ok bool) {
	rest, ok = strings.CutPrefix(topic, "b/")
	return "b", rest, ok
}

// partners says that the gateway is a partner.
func partners(identity string) (string, bool) { return "a", identity == gateway }

// deaf is a session that loses each answer.
type deaf struct {
	profiles.Session
	sent *atomic.Int32
}

func (d deaf) Open(ctx context.Context) (profiles.Lane, error) {
	lane, err := d.Session.Open(ctx)
	return deafLane{lane, d}, err
}

type deafLane struct {
	profiles.Lane
	d deaf
}

func (l deafLane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	l.d.sent.Add(1)
	call, err := l.Lane.Call(ctx, env)
	return deafCall{call, l.d.Context()}, err
}

type deafCall struct {
	profiles.Call
	gone context.Context
}

func (c deafCall) Recv(ctx context.Context) (*e1.Envelope, error) {
	select {
	case <-c.gone.Done():
		return nil, context.Cause(c.gone)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestALostACKAndDaysWithoutALinkMakeNoSecondDelivery(t *testing.T) {
	for name, test := range map[string]struct {
		away  time.Duration
		sent  int32 // over the second link
		state relay.State
	}{
		"three days":             {3 * 24 * time.Hour, 1, relay.Acked},
		"up to the retention":    {7*24*time.Hour - time.Minute, 1, relay.Acked},
		"longer than that":       {7*24*time.Hour + time.Minute, 0, relay.DeadState},
		"longer than it is kept": {15 * 24 * time.Hour, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, kind string) {
				a, b := serve(t, kind, relay.Options{Behind: behind}), serve(t, kind, relay.Options{Partner: partners})
				c := b.dial(consumer).consume("orders", 4)
				p := a.dial(publisher)
				p.publish("b/orders", "id")
				link := b.dial(gateway)
				var sent atomic.Int32
				a.set.Relay.Reached("b", deaf{link.Session, &sent}, relay.Knows{})
				d := receiveAny(t, c)
				if string(d.Payload) != "payload of id" || d.Topic != "orders" || d.Hops != 2 || d.Publisher != gateway {
					t.Errorf("delivery %+v", d)
				}
				ack(t, d)
				link.leave()
				synctest.Wait()
				if sent.Load() != 1 {
					t.Errorf("sent %d times", sent.Load())
				}
				time.Sleep(test.away)
				again := b.dial(gateway)
				var second atomic.Int32
				a.set.Relay.Reached("b", counted{again.Session, &second}, relay.Knows{})
				time.Sleep(30 * time.Second)
				nothing(t, c)
				if second.Load() != test.sent {
					t.Errorf("sent %d times over the second link, want %d", second.Load(), test.sent)
				}
				if test.state == "" {
					_, _, err := relay.Ask(t.Context(), p, []byte("id"))
					wantPeerError(t, err, relay.CodeNotFound)
					return
				}
				p.wantStatus("id", test.state, 1)
			})
		})
	}
}

// counted is a session that counts what it sends on lanes.
type counted struct {
	profiles.Session
	sent *atomic.Int32
}

func (d counted) Open(ctx context.Context) (profiles.Lane, error) {
	lane, err := d.Session.Open(ctx)
	return countedLane{lane, d.sent}, err
}

type countedLane struct {
	profiles.Lane
	sent *atomic.Int32
}

func (l countedLane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	l.sent.Add(1)
	return l.Lane.Call(ctx, env)
}

// The id of a delivery is one's own at the partner, too, and says nothing of whose it is.
func TestIDsAtAPartnerAreApartAndSealed(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		a, b := serve(t, kind, relay.Options{Behind: behind, Key: []byte("secret")}), serve(t, kind, relay.Options{})
		c := b.dial(consumer).consume("orders", 4)
		a.set.Relay.Reached("b", b.dial(gateway).Session, relay.Knows{})
		ids := make(map[string]bool)
		for _, identity := range []string{publisher, other} {
			a.dial(identity).publish("b/orders", "id")
			d := receiveAny(t, c)
			if id := string(d.ID); !strings.HasSuffix(id, "id") || len(id) != 18 || strings.Contains(id, "test.invalid") || ids[id] {
				t.Errorf("id %q, want another one of 16 octets and the own", id)
			}
			ids[string(d.ID)] = true
			ack(t, d)
		}
	})
}

func TestAnIDOfAPartnersDeliveryHasRoomForWhoseItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		a := serve(t, kind, relay.Options{Behind: behind})
		p := a.dial(publisher)
		p.publish("b/orders", strings.Repeat("i", relay.MaxDeliveryID-16))
		p.publish("orders", strings.Repeat("i", relay.MaxDeliveryID))
		_, err := p.send(relay.Publication{ID: []byte(strings.Repeat("i", relay.MaxDeliveryID-15)), Topic: "b/orders"})
		wantPeerError(t, err, profiles.InvalidProfilePayload.Alias())
	})
}
