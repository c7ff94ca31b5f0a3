package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// attaches has a partner accept those who attach, and then do something on their stream.
func (h *hostile) attaches(then func(m *told, id []byte)) (asked *atomic.Int32) {
	asked = new(atomic.Int32)
	h.with(func(m *told) bool {
		var req rpc.Req
		if m.method() != relay.MethodAttach || req.Decode(m.Payload) != nil {
			return false
		}
		asked.Add(1)
		m.answer(rpc.TypeStreamItem, encode(&rpc.StreamItem{RPCID: req.RPCID, SeqNo: 1, Item: []byte(`{"topic":"t","max_in_flight":2}`)}))
		if then != nil {
			then(m, req.RPCID)
		}
		return true
	})
	return asked
}

// delivers sends a delivery.
func (m *told) delivers(msgID, id, topic, payload string) {
	m.to.say(e1.Envelope{
		Version: e1.Version, ProfileID: relay.ProfileID, MsgType: relay.TypePublish, MsgID: []byte(msgID),
		Extensions: e1.AppendExtension(nil, relay.ExtPublisher, []byte("spiffe://b.example/publisher")),
		Payload:    encode(&relay.Publish{DeliveryID: []byte(id), Topic: []byte(topic), Payload: []byte(payload)}),
	})
}

func TestPR19AnAttachmentThatEndsAtOnceIsRepeatedAfterPauses(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		asked := h.attaches(func(m *told, id []byte) {
			m.answer(rpc.TypeResp, encode(&rpc.Resp{RPCID: id, Result: []byte("{}")}))
		})
		s := a.mustDial(a.addrs[transport])
		consumes(t, a, s, s.relays, "b/t", 2)
		a.until("that it is repeated", func() bool { return asked.Load() > 1 })
		began := time.Now()
		for asked.Load() < 8 && time.Since(began) < 5*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		// Six pauses of 100 ms would be over after 0.6 s.
		if took := time.Since(began); took < time.Second {
			t.Errorf("repeated six times within %v", took)
		}
		s.pings(t, "meanwhile")
	})
}

// A consumer gets what it has asked for. More is refused, and costs the partner its
// connection in the end.
func TestPR19DeliveriesThatNobodyAskedForAreRefused(t *testing.T) {
	t.Parallel()
	for name, deliver := range map[string]func(m *told, i int){
		"more than may be unanswered": func(m *told, i int) {
			m.delivers(fmt.Sprint("delivery ", i), fmt.Sprint(i), "t", strings.Repeat("x", 10_000))
		},
		"one, again and again": func(m *told, i int) {
			m.delivers(fmt.Sprint("delivery ", i), "the same", "t", strings.Repeat("x", 10_000))
		},
		"of other topics": func(m *told, i int) { m.delivers(fmt.Sprint("delivery ", i), fmt.Sprint(i), fmt.Sprint("b/t", i), "x") },
	} {
		t.Run(name, func(t *testing.T) {
			overTLSAndQUIC(t, func(t *testing.T, transport int) {
				a, h := atHostile(t, transport, "access: {rules: [{identity: 'spiffe://a.example/**'}]}\n")
				s, other := a.mustDial(a.addrs[transport]), a.mustDial(a.addrs[transport])
				stop := make(chan struct{})
				var sending sync.WaitGroup
				t.Cleanup(func() { close(stop); h.hangUp(); sending.Wait() })
				var sent atomic.Int32
				h.attaches(func(m *told, _ []byte) {
					sending.Go(func() {
						for i := range 5000 {
							select {
							case <-stop:
								return
							default:
								deliver(m, i)
								sent.Add(1)
							}
						}
					})
				})
				c := consumes(t, a, s, s.relays, "b/t", 2) // and reads nothing of it
				a.until("that it is sent more", func() bool { return sent.Load() > 500 })
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for range 10 {
					if _, err := rpc.Call(ctx, other.Session, rpc.MethodPing, nil); err != nil {
						t.Errorf("others meanwhile: %v", err)
					}
				}
				h.with(nil)
				a.until("that the partner serves others", func() bool {
					_, err := rpc.Call(ctx, other.Session, "b/"+rpc.MethodPing, nil)
					return err == nil
				})
				got := 0
				for {
					short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					d, err := c.Recv(short)
					cancel()
					if err != nil {
						break
					}
					if got++; d.Topic != "b/t" {
						t.Errorf("delivered of %s", d.Topic)
					}
				}
				if got > 4 {
					t.Errorf("%d unanswered deliveries of a consumer that takes 2", got)
				}
			})
		})
	}
}

// A partner that does not say whether one is attached is given up, and holds up nobody.
func TestPR19ASilentPartnerIsToldToWhoAttaches(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		t.Parallel()
		a, h := atHostile(t, transport, "")
		h.with(func(m *told) bool { return m.method() == relay.MethodAttach })
		s := a.mustDial(a.addrs[transport])
		told := make(chan error, 1)
		go func() {
			_, err := s.relays.Consume(t.Context(), s.Session, "b/t", 1)
			told <- err
		}()
		s.pings(t, "meanwhile")
		fault := (*rpc.Error)(nil)
		if err := <-told; !errors.As(err, &fault) || !fault.Retryable || !strings.Contains(fault.Message, "partner b") {
			t.Errorf("told %v, want a retryable error that names the partner", err)
		}
	})
}

// What a partner says of deliveries is believed of those that it was given, and else told.
func TestPR19AWrongStatusOfADeliveryIsToldAsOne(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(m *told, id []byte){
		"of another": func(m *told, _ []byte) {
			m.answer(relay.TypeStatus, encode(&relay.Status{DeliveryID: []byte("another"), State: []byte(relay.Acked), Attempts: 1}))
		},
		"a state of none": func(m *told, id []byte) {
			m.answer(relay.TypeStatus, encode(&relay.Status{DeliveryID: id, State: []byte("on its way"), Attempts: 1}))
		},
		"an ACK":     func(m *told, id []byte) { m.answer(relay.TypeAck, encode(&relay.Ack{DeliveryID: id})) },
		"no message": func(m *told, _ []byte) { m.answer(relay.TypeStatus, []byte{0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			overTLSAndQUIC(t, func(t *testing.T, transport int) {
				a, h := atHostile(t, transport, "")
				h.with(func(m *told) bool {
					var p relay.Publish
					var q relay.Status
					switch {
					case m.ProfileID == relay.ProfileID && m.MsgType == relay.TypePublish && p.Decode(m.Payload) == nil:
						m.answer(relay.TypeAck, encode(&relay.Ack{DeliveryID: p.DeliveryID}))
					case m.ProfileID == relay.ProfileID && m.MsgType == relay.TypeStatus && q.Decode(m.Payload) == nil:
						answer(m, q.DeliveryID)
					default:
						return false
					}
					return true
				})
				s := a.mustDial(a.addrs[transport])
				if err := publishing(t, s.Session, "b/t", "1", 1); err != nil {
					t.Fatal(err)
				}
				var err error
				a.until("that the partner has it", func() bool {
					var state relay.State
					state, _, err = relay.Ask(t.Context(), s.Session, []byte("1"))
					return err != nil || state != relay.Queued && state != relay.Retry
				})
				refused := (*profiles.PeerError)(nil)
				if !errors.As(err, &refused) || !strings.Contains(refused.Message, "partner b broke the protocol with its answer: ") {
					t.Errorf("told %v, want that partner b broke the protocol", err)
				}
				a.until("that it is counted", func() bool {
					return a.metric(`swpd_partner_wrong_answers_total{partner="b",profile="relay"}`) > "0"
				})
				s.pings(t, "afterwards")
			})
		})
	}
}
