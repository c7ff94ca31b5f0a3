package events_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

// link is the way to a partner. The first session to it is there at once, the second one
// after back was closed.
type link struct {
	first, second *peer
	back          chan struct{}
	asked         bool
}

func (l *link) session(ctx context.Context) (profiles.Session, error) {
	if !l.asked {
		l.asked = true
		return l.first, nil
	}
	select {
	case <-l.back:
		return l.second, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// passedOn subscribes at an endpoint that has all of its events from a partner.
func passedOn(t *testing.T, there *server, shared bool) (*events.Subscription, *link) {
	t.Helper()
	return passedOnWith(t, there, shared, events.SubscribeOptions{})
}

func passedOnWith(t *testing.T, there *server, shared bool, o events.SubscribeOptions) (*events.Subscription, *link) {
	t.Helper()
	here, l := passing(t, there, shared)
	return here.dial("spiffe://test.invalid/here").subscribe(t, o), l
}

// passing is an endpoint that has all of its events from a partner, and its link.
func passing(t *testing.T, there *server, shared bool) (*server, *link) {
	t.Helper()
	l := &link{first: there.dial(subscriber), second: there.dial(subscriber), back: make(chan struct{})}
	way := &profiles.Way{Prefix: "b/", Shared: shared, Session: l.session, Sync: endpointtest.CallSync}
	bus := newBus(t, events.Options{})
	p := *bus.Profile()
	p.Handler = profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		if req.MsgType != events.TypeSubscribe {
			return bus.Profile().Handler.Serve(t.Context(), req, nil)
		}
		held, w, err := req.HoldLong()
		if err != nil {
			return err
		}
		run, err := p.Crossing.Pass(way, held, w)
		if err != nil {
			return err
		}
		go func() { w.Fail(run(w.Context())) }()
		return nil
	})
	registry, err := profiles.NewRegistry(&p, endpointtest.Sync)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return &server{t: t, kind: "pipe", bus: bus, ep: ep, reach: endpointtest.Serve(t, "pipe", ep)}, l
}

// aloneAndShared runs a test for a subscription with a session to the partner of its own,
// and for one that shares it.
func aloneAndShared(t *testing.T, test func(t *testing.T, shared bool)) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) { test(t, shared) })
	}
}

func TestEventsWhileTheLinkIsLostBeforeTheFirstAreNotMissed(t *testing.T) {
	aloneAndShared(t, func(t *testing.T, shared bool) {
		there := serve(t, "pipe", events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		sub, l := passedOn(t, there, shared)
		l.first.leave()
		there.dial(producer).publish(t, "a", "b")
		close(l.back)
		receive(t, sub, "a", "b")
	})
}

// One that joins while the link is lost is told that it starts before what the partner has
// accepted since then.
func TestASubscriberOfASharedSubscriptionStartsWhereTheOthersAre(t *testing.T) {
	there := serve(t, "pipe", events.Options{Store: newMemory(t)}, endpoint.Bounds{})
	here, l := passing(t, there, true)
	first := here.dial("spiffe://test.invalid/here").subscribe(t, events.SubscribeOptions{})
	publisher := there.dial(producer)
	publisher.publish(t, "e0")
	receive(t, first, "e0")
	l.first.leave()
	publisher.publish(t, "e1", "e2")
	second := here.dial("spiffe://test.invalid/here").subscribe(t, events.SubscribeOptions{})
	if got := second.Start(); got != 1 {
		t.Errorf("it starts after %d, want 1", got)
	}
	close(l.back)
	receive(t, first, "e1", "e2")
	receive(t, second, "e1", "e2")
}

func TestEventsThatThePartnerNoLongerHasEndTheSubscription(t *testing.T) {
	aloneAndShared(t, func(t *testing.T, shared bool) {
		store := newMemory(t)
		there := serve(t, "pipe", events.Options{Store: store}, endpoint.Bounds{})
		sub, l := passedOn(t, there, shared)
		there.dial(producer).publish(t, "before")
		receive(t, sub, "before")
		l.first.leave()
		there.dial(producer).publish(t, ids(5)...)
		store.forget(4)
		close(l.back)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			d, err := sub.Recv(ctx)
			if err != nil {
				wantPeerError(t, err, events.CodeGap)
				return
			}
			if len(d.Events) > 0 {
				t.Fatalf("event %s behind a gap", d.Events[0].EventID)
			}
		}
	})
}

// An earlier subscription of the same name may reach the partner late. It is the newest one
// there, and not here.
func TestALateSubscriptionOfTheSameNameDoesNotEndTheNewest(t *testing.T) {
	there := serve(t, "pipe", events.Options{Store: newMemory(t)}, endpoint.Bounds{})
	newest, l := passedOnWith(t, there, false, events.SubscribeOptions{Name: "mine"})
	late, other := passedOnWith(t, there, false, events.SubscribeOptions{Name: "mine"})
	late.Close()
	close(other.back)
	other.first.leave()
	close(l.back)
	there.dial(producer).publish(t, "a", "b")
	receive(t, newest, "a", "b")
}
