package endpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// limited is an endpoint that echoes payloads, and what connects to it.
func limited(t *testing.T, o endpoint.Options) (ep *endpoint.Endpoint, dial func() *endpoint.Session) {
	t.Helper()
	end := func(o endpoint.Options) *endpoint.Endpoint {
		registry, err := profiles.NewRegistry(profile(echo))
		if err != nil {
			t.Fatal(err)
		}
		o.Registry, o.Observer = registry, endpoint.Discard
		ep, err := endpoint.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ep.Close() })
		return ep
	}
	ep, near := end(o), end(endpoint.Options{})
	return ep, func() *endpoint.Session {
		a, b := transport.Pipe()
		ep.Attach(b)
		return near.Attach(a)
	}
}

// served reports whether a payload of a size comes back.
func served(t *testing.T, s *endpoint.Session, size int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := s.Call(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: make([]byte, size)})
	if err != nil {
		return false
	}
	defer c.Close()
	env, err := c.Recv(ctx)
	return err == nil && len(env.Payload) == size
}

func TestLimitsHoldForConnectionsThatComeLater(t *testing.T) {
	ep, dial := limited(t, endpoint.Options{Envelope: e1.Limits{MaxPayload: 100}})
	early := dial()
	if !served(t, early, 100) {
		t.Error("a payload at the limit is not served")
	}
	if err := ep.SetLimits(endpoint.Options{Envelope: e1.Limits{MaxPayload: 10}}); err != nil {
		t.Fatal(err)
	}
	if !served(t, dial(), 10) {
		t.Error("a payload at the new limit is not served")
	}
	if served(t, dial(), 11) {
		t.Error("a payload above the new limit is served")
	}
	if !served(t, early, 100) {
		t.Error("a connection that was open is not bound as it was")
	}
}

func TestBoundsOfAllConnectionsHoldAtOnce(t *testing.T) {
	ep, dial := limited(t, endpoint.Options{})
	early := dial()
	if err := ep.SetLimits(endpoint.Options{Bounds: endpoint.Bounds{Connections: 1}}); err != nil {
		t.Fatal(err)
	}
	if served(t, dial(), 1) {
		t.Error("one connection more than there may be is served")
	}
	if !served(t, early, 1) {
		t.Error("a connection that was open is not served")
	}
	if err := ep.SetLimits(endpoint.Options{Bounds: endpoint.Bounds{Connections: 2}}); err != nil {
		t.Fatal(err)
	}
	if !served(t, dial(), 1) {
		t.Error("as many connections as there may be are not served")
	}
}

func TestLimitsThatCannotBeUsedChangeNothing(t *testing.T) {
	ep, dial := limited(t, endpoint.Options{})
	if err := ep.SetLimits(endpoint.Options{Bounds: endpoint.Bounds{Connections: -1}}); err == nil {
		t.Error("a bound below 0 is taken")
	}
	if !served(t, dial(), 1) {
		t.Error("nobody is served")
	}
}
