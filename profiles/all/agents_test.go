package all_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSet(t *testing.T, opts all.Options) *all.Set {
	t.Helper()
	set, err := all.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// connect connects two sets, and returns the session that the first one has.
func connect(t *testing.T, a, b *all.Set) *profiletest.Session {
	x, y := profiletest.Pair("spiffe://test/a", a.Registry, "spiffe://test/b", b.Registry, profiletest.SessionOptions{})
	t.Cleanup(func() {
		x.Close()
		x.Wait()
		y.Wait()
	})
	return x
}

func TestCardsOfAgentsPassThroughTheEndpointTheyAreOn(t *testing.T) {
	synctest.Test(t, cardsOfAgents)
}

func cardsOfAgents(t *testing.T) {
	octets := []byte("{\"version\":\"7\",\n  \"name\" : \"far\\u0020away\"}\r\n")
	table, err := agdisc.NewTable(agdisc.Card{AgentID: "far", Payload: octets, MaxAge: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	agent := newSet(t, all.Options{AGDISC: agdisc.Options{Sources: []agdisc.Source{table}}})
	middle, asker := newSet(t, all.Options{}), newSet(t, all.Options{})
	fromAgent := connect(t, agent, middle)
	fromAsker := connect(t, asker, middle)

	if err := agent.A2A.Declare(t.Context(), fromAgent, "far", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Call(t.Context(), fromAgent, rpc.MethodSync, nil); err != nil {
		t.Fatal(err)
	}
	card, err := agdisc.Ask(t.Context(), fromAsker, "far", "")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(card.Payload, octets) || card.Revision != "7" || card.ETag != agdisc.HashOf(octets) || card.MaxAge > time.Minute || card.MaxAge <= 0 {
		t.Errorf("card %+v", card)
	}
	if same, err := agdisc.Ask(t.Context(), fromAsker, "far", card.ETag); same != nil || err != nil {
		t.Errorf("with the etag of it: card %v, error %v", same, err)
	}

	result, err := rpc.Call(t.Context(), fromAsker, agdisc.MethodList, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list agdisc.ListResult
	if err := json.Unmarshal(result, &list); err != nil || len(list.Agents) != 1 || list.Agents[0].AgentID != "far" {
		t.Errorf("agents %s, error %v", result, err)
	}

	fromAgent.Close()
	synctest.Wait() // until that is known
	var none *profiles.PeerError
	if _, err := agdisc.Ask(t.Context(), fromAsker, "far", ""); !errors.As(err, &none) || none.Code != agdisc.CodeNotFound {
		t.Errorf("after it left: %v, want NOT_FOUND", err)
	}
}
