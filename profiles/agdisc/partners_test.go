package agdisc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

// keeping returns how cards of partners are kept and told.
func keeping(p *agdisc.Partners) *profiles.Crossing {
	return agdisc.New(agdisc.Options{Partners: p}).Profile().Crossing
}

func docOf(agentID, etag string, payload []byte) *e1.Envelope {
	m := agdisc.Doc{AgentID: []byte(agentID), SchemaRevision: []byte("v1"), CardPayload: payload, ETag: []byte(etag), MaxAgeMs: 60_000}
	return &e1.Envelope{ProfileID: agdisc.ProfileID, MsgType: agdisc.TypeDoc, Payload: m.Append(nil)}
}

func errOf(code string) *e1.Envelope {
	m := agdisc.Err{Code: []byte(code)}
	return &e1.Envelope{ProfileID: agdisc.ProfileID, MsgType: agdisc.TypeErr, Payload: m.Append(nil)}
}

func keep(c *profiles.Crossing, agentID string, answer *e1.Envelope) {
	c.Keep(agentID, "", &e1.Envelope{MsgType: agdisc.TypeGet, Payload: get(agentID, "")}, answer)
}

func has(c *profiles.Crossing, agentID string) bool {
	_, ok := c.Kept(agentID, "", &e1.Envelope{MsgType: agdisc.TypeGet, Payload: get(agentID, "")}, time.Second)
	return ok
}

func TestCardsOfPartnersAreToldAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agdisc.NewPartners()
		c := keeping(p)
		keep(c, "b/far", docOf("far", "etag", card.Payload))
		time.Sleep(20 * time.Second)
		answer, ok := c.Kept("b/far", "", &e1.Envelope{MsgType: agdisc.TypeGet, Payload: get("as it was asked", "")}, 1500*time.Millisecond)
		var doc agdisc.Doc
		if !ok || doc.Decode(answer.Payload) != nil {
			t.Fatalf("%+v, %v", answer, ok)
		}
		if string(doc.AgentID) != "as it was asked" || !bytes.Equal(doc.CardPayload, card.Payload) || doc.MaxAgeMs != 40_000 || string(doc.SchemaRevision) != "v1" {
			t.Errorf("%+v", doc)
		}
		if stale := profiles.StaleOf(answer.Extensions, agdisc.ExtStale); stale != 1500*time.Millisecond {
			t.Errorf("away for %v", stale)
		}
		already := docOf("c/far", "", card.Payload)
		already.Extensions = e1.AppendExtensionUvarint(nil, agdisc.ExtStale, 500)
		keep(c, "b/c/far", already)
		answer, _ = c.Kept("b/c/far", "", &e1.Envelope{MsgType: agdisc.TypeGet, Payload: get("c/far", "")}, time.Second)
		if stale := profiles.StaleOf(answer.Extensions, agdisc.ExtStale); stale != 1500*time.Millisecond {
			t.Errorf("of a partner's partner that was away: %v", stale)
		}
		answer, ok = c.Kept("b/far", "", &e1.Envelope{MsgType: agdisc.TypeGet, Payload: get("far", "etag")}, time.Second)
		if !ok || answer.MsgType != agdisc.TypeNotModified {
			t.Errorf("with the same etag: %+v, %v", answer, ok)
		}
		for code, kept := range map[string]bool{agdisc.CodeInternal: true, "RATE_LIMIT_EXCEEDED": true, agdisc.CodeNotFound: false, "SECURITY_POLICY": false} {
			keep(c, "b/far", docOf("far", "etag", card.Payload))
			keep(c, "b/far", errOf(code))
			if has(c, "b/far") != kept {
				t.Errorf("after %s it is kept: %v", code, !kept)
			}
		}
	})
}

func TestWhatAPartnerDoesNotListAnyMoreIsDropped(t *testing.T) {
	p := agdisc.NewPartners()
	c := keeping(p)
	for _, id := range []string{"b/one", "b/two", "b/c/three", "d/one"} {
		keep(c, id, docOf("x", "", card.Payload))
	}
	p.Set("b", []agdisc.Entry{{AgentID: "one"}})
	for id, want := range map[string]bool{"b/one": true, "b/two": false, "b/c/three": false, "d/one": true} {
		if has(c, id) != want {
			t.Errorf("%s is kept: %v, want %v", id, !want, want)
		}
	}
	p.Forget("b")
	if has(c, "b/one") || len(p.Agents()) > 0 || !has(c, "d/one") {
		t.Error("what was forgotten is there, or more is gone")
	}
}

func TestCardsAndAgentsOfAPartnerAreBounded(t *testing.T) {
	p := agdisc.NewPartners()
	c := keeping(p)
	id := func(i int) string { return fmt.Sprintf("b/%04d", i) }
	for i := range agdisc.MaxPartnerAgents + 1 {
		keep(c, id(i), docOf("x", "", []byte("x")))
	}
	if !has(c, id(agdisc.MaxPartnerAgents-1)) || has(c, id(agdisc.MaxPartnerAgents)) {
		t.Error("the bound on cards does not hold, or holds too soon")
	}
	keep(c, id(0), errOf(agdisc.CodeNotFound))
	keep(c, id(agdisc.MaxPartnerAgents), docOf("x", "", []byte("x")))
	if !has(c, id(agdisc.MaxPartnerAgents)) {
		t.Error("there is no room for one in place of another")
	}

	p = agdisc.NewPartners()
	c = keeping(p)
	const mega = 1 << 20
	rest := agdisc.MaxPartnerOctets
	for i := range agdisc.MaxPartnerOctets/mega - 1 {
		keep(c, id(i), docOf("x", "", make([]byte, mega)))
		rest -= len(id(i)) + len("v1") + mega
	}
	keep(c, id(9999), docOf("x", "", make([]byte, rest-len(id(9999))-len("v1")+1)))
	if has(c, id(9999)) {
		t.Error("an octet more than the bound is kept")
	}
	keep(c, id(9999), docOf("x", "", make([]byte, rest-len(id(9999))-len("v1"))))
	if !has(c, id(9999)) {
		t.Error("what reaches the bound is not kept")
	}

	entries := make([]agdisc.Entry, agdisc.MaxPartnerAgents+1)
	for i := range entries {
		entries[i].AgentID = fmt.Sprint(i)
	}
	p.Set("b", entries)
	if n := len(p.Agents()); n != agdisc.MaxPartnerAgents {
		t.Errorf("%d agents are listed, want %d", n, agdisc.MaxPartnerAgents)
	}
	long := strings.Repeat("x", agdisc.MaxText-len("b/1"))
	p.Set("b", []agdisc.Entry{{AgentID: "1" + long}, {AgentID: "2" + long + "x"}, {AgentID: "3"}, {AgentID: "4", Revision: long + "xxxx"}})
	if list := p.Agents(); len(list) != 2 {
		t.Errorf("%d agents with long names are listed, want 2", len(list))
	}
}

func TestAPartnersAgentWithoutACardIsListedAsSuch(t *testing.T) {
	p := agdisc.NewPartners()
	p.Set("b", []agdisc.Entry{{AgentID: "bare", Card: new(false)}})
	s := agdisc.New(agdisc.Options{Partners: p})
	if got := list(t, s, agdisc.ListParams{}).Agents; len(got) != 1 || got[0].Card == nil || *got[0].Card {
		t.Errorf("%+v, want b/bare without a card", got)
	}
}
