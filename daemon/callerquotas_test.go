package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// asserts has a session assert the callers of its calls, as an ordinary client with its key can.
func (s *session) asserts(t *testing.T, audience string) {
	t.Helper()
	leaves, ok := s.Leaves()
	if !ok {
		t.Fatal("no certificates")
	}
	own := leaves.Own
	s.Assert(func(identity string) ([]byte, error) {
		return caller.Sign(&caller.Claim{Caller: identity, Chain: []string{clientID}}, own, audience, time.Now())
	})
}

// An ordinary client asserts a new caller for each thing that it stores.
func TestRS35AClientGainsNoQuotaByTheCallersThatItAsserts(t *testing.T) {
	r := start(t, "store: memory\nquota: {total: 1GiB, per_identity: 1MiB}\naccess:\n  asserts: []\n  rules: [{identity: '**'}]\n")
	s := r.mustDial(r.addrs[0])
	s.asserts(t, s.Peer().Identity)
	octets := []byte(strings.Repeat("x", 300<<10))
	callers := 0
	store := func() error {
		callers++
		call := rpc.Invocation{Method: rpc.MethodEcho, Params: octets, IdempotencyKey: "key"}
		_, err := call.Call(profiles.WithCaller(t.Context(), fmt.Sprint("http:", callers)), s.Session)
		return err
	}
	for i := range 3 {
		if err := store(); err != nil {
			t.Fatalf("caller %d: %v", i, err)
		}
	}
	if err := store(); err == nil {
		t.Error("4 callers of a client have stored 1.2 MiB, and per_identity is 1 MiB")
	}
	r.rewrite("asserts: []", "asserts: "+clientID)
	r.reloaded()
	for i := range 3 {
		if err := store(); err != nil {
			t.Errorf("caller %d of a peer that may assert callers: %v", i, err)
		}
	}
}
