package client

import (
	"context"
	"errors"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/state"
)

// A state that the peer cannot confirm is read back over a new connection; a delta, which no
// message reads, stays unconfirmed.
func TestWhatAPeerWithoutRPCTookIsReadBackOrUnconfirmed(t *testing.T) {
	for _, kind := range both {
		t.Run(kind, func(t *testing.T) {
			s := newStage(t, kind)
			address := s.serveWithoutRPC()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			blob := []byte("a state")
			s.with(ctx, address, func(c *Client) {
				if n, err := c.PutStates(ctx, state.State{Blob: blob}); n != 1 || err != nil {
					t.Errorf("PutStates: %d, %v", n, err)
				}
			})
			s.with(ctx, address, func(c *Client) {
				if n, err := c.PutStates(ctx, state.State{Blob: blob, Metadata: []byte("other")}); n != 0 || err == nil {
					t.Errorf("PutStates of a state that is stored with other metadata: %d, %v", n, err)
				}
			})
			s.with(ctx, address, func(c *Client) {
				err := c.AddStateDelta(ctx, state.IDOf(blob), []byte("delta"))
				if unsure, ok := errors.AsType[*profiles.UnconfirmedError](err); !ok || !unsure.Lost {
					t.Errorf("AddStateDelta: %v, want it unconfirmed and perhaps lost", err)
				}
			})
		})
	}
}

// with calls do with a connection.
func (s *stage) with(ctx context.Context, address string, do func(c *Client)) {
	s.t.Helper()
	c, err := Dial(ctx, address, s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	do(c)
}
