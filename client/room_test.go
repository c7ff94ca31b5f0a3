package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// A connection that is watched stays while its server reads nothing because it has no room.
func TestRS36AKeptConnectionStaysWhileItsPeerWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := all.New(all.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		budget := memory.New(8 << 20)
		var other memory.Room
		if err := other.Take(t.Context(), budget.Share("other"), 6<<20, 0, memory.Wait{}); err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Observer: endpoint.Discard, Memory: budget})
		if err != nil {
			t.Fatal(err)
		}
		defer ep.Close()
		dials := 0
		kept := client.Keep(client.KeepOptions{
			Dial: func(context.Context) (*client.Client, error) {
				dials++
				here, there := transport.Pipe()
				ep.Attach(here)
				return client.Attach(there, client.Options{})
			},
		})
		defer kept.Close()
		defer kept.Watch()()
		c, err := kept.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Second, other.Give)
		if err := c.Session.Send(t.Context(), e1.Envelope{ProfileID: 15, MsgType: 1, Payload: make([]byte, 2<<20)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if again, err := kept.Get(t.Context()); err != nil || again != c || dials != 1 {
			t.Errorf("%d connections: %v", dials, err)
		}
		if _, err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A server that has no room for a large frame does not read it for as long. Its clients wait.
func TestALargeRequestWaitsForRoomAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := all.New(all.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		budget := memory.New(8 << 20)
		var other memory.Room
		if err := other.Take(t.Context(), budget.Share("other"), 6<<20, 0, memory.Wait{}); err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Observer: endpoint.Discard, Memory: budget})
		if err != nil {
			t.Fatal(err)
		}
		defer ep.Close()
		here, there := transport.Pipe()
		ep.Attach(here)
		c, err := client.Attach(there, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.AfterFunc(100*time.Second, other.Give)
		// A message without an answer, and then a short one.
		if err := c.Session.Send(t.Context(), e1.Envelope{ProfileID: 15, MsgType: 1, Payload: make([]byte, 2<<20)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(110 * time.Second)
		if _, err := c.Ping(t.Context()); err != nil {
			t.Errorf("after the wait: %v", err)
		}
	})
}
