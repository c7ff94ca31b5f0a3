package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestCallIsCancelledUnlessItHasAKey(t *testing.T) {
	for _, key := range []string{"", "key"} {
		t.Run("key "+key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, cancelled, release := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
				set, err := all.New(all.Options{RPC: rpc.Options{Outcomes: memory(t), Methods: map[string]rpc.Method{"slow": {
					Detached: func(ctx context.Context, _ *profiles.Request, _ []byte, _ func([]byte) error) ([]byte, error) {
						started <- struct{}{}
						select {
						case <-ctx.Done():
							cancelled <- struct{}{}
							return nil, ctx.Err()
						case <-release:
							return nil, nil
						}
					},
				}}}})
				if err != nil {
					t.Fatal(err)
				}
				ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
				if err != nil {
					t.Fatal(err)
				}
				s := &site{t: t, set: set, ep: ep}
				defer set.Close()
				defer func() { _ = ep.Close() }()
				c, err := s.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				out, err := c.CallRPC(t.Context(), RPC{Method: "slow", Key: key, Silence: time.Second})
				if err == nil || len(out.RPCID) == 0 || out.Err != nil {
					t.Errorf("outcome %+v, error %v", out, err)
				}
				<-started
				synctest.Wait()
				if got, want := len(cancelled) == 1, key == ""; got != want {
					t.Errorf("cancelled: %v, want %v", got, want)
				}
				close(release)
			})
		})
	}
}
