package all_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// An agent that has declared itself waits for work: it may have nothing to say for a day.
func TestASeatedAgentIsNotIdle(t *testing.T) {
	for name, declares := range map[string]bool{"an agent": true, "any other peer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine, err := sqlstore.Open(t.Context(), sqlstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = engine.Close() }()
				set, err := all.New(all.Options{A2A: a2a.Options{Store: engine}})
				if err != nil {
					t.Fatal(err)
				}
				defer set.Close()
				here, err := endpoint.New(endpoint.Options{Registry: set.Registry})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = here.Close() }()
				other, err := all.New(all.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				peer, err := endpoint.New(endpoint.Options{Registry: other.Registry, Bounds: endpoint.Bounds{Idle: 1000 * time.Hour}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = peer.Close() }()
				ours, theirs := transport.Pipe()
				s := here.Attach(ours)
				agent := peer.Attach(theirs)
				if declares {
					m := a2a.HandshakeBody{AgentID: []byte("waiter"), Capabilities: [][]byte{[]byte("k")}}
					if err := agent.Send(t.Context(), e1.Envelope{ProfileID: a2a.ProfileID, MsgType: a2a.TypeHandshake, Payload: m.Append(nil)}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(24 * time.Hour)
				if err := context.Cause(s.Context()); (err == nil) != declares {
					t.Errorf("after a day the session is %v", err)
				}
			})
		})
	}
}
