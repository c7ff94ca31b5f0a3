package daemon

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// withCard configures the card of an agent and a tool.
func withCard(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, []byte(`{ "name" : "demo",  "version":"1.0" }`), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("agdisc: {cards: {demo: {file: %q}}}\ntooldisc:\n  tools:\n    - {tool_id: adder, name: Adder, version: '1', schema_ref: 'https://example.org/s'}\n", file)
}

func TestCardsAndToolsAreToldWhileTheirPartnerIsAway(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		t.Parallel()
		row := inARow(t, transport, "", withCard(t), withCard(t))
		a, b, c := row[0], row[1], row[2]
		s := a.mustDial(a.addrs[transport])
		far := profiles.Toward(s.Session, "b")
		etag := ""
		look := func(on profiles.Session, prefix string, away bool) {
			t.Helper()
			card, err := agdisc.Ask(t.Context(), on, prefix+"demo", "")
			if err != nil || !strings.Contains(string(card.Payload), `"demo",  "v`) || card.Stale > 0 != away {
				t.Errorf("card %sdemo: %+v, %v", prefix, card, err)
				return
			}
			if etag = card.ETag; away {
				if card, err := agdisc.Ask(t.Context(), on, prefix+"demo", etag); card != nil || err != nil {
					t.Errorf("card %sdemo with its etag: %+v, %v", prefix, card, err)
				}
			}
			for _, version := range []string{"", "1"} {
				tool, err := tooldisc.Find(t.Context(), on, prefix+"adder", version)
				if err != nil || tool.Name != "Adder" || tool.Stale > 0 != away {
					t.Errorf("tool %sadder: %+v, %v", prefix, tool, err)
				}
			}
		}
		look(s.Session, "b/", false)
		look(far, "", false)
		look(profiles.Toward(s.Session, "b/c"), "", false)
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		b.until("the loss of c", func() bool { return !b.up("c") })
		look(s.Session, "b/c/", true) // b tells, and says so
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		a.until("the loss of b", func() bool { return !a.up("b") })
		look(s.Session, "b/", true)
		look(far, "", true)
		look(s.Session, "b/c/", true)
		for _, id := range []string{"b/other", "b/c/other"} {
			_, err := agdisc.Ask(t.Context(), s.Session, id, "")
			refusedBy(t, id, err, "RATE_LIMIT_EXCEEDED", a)
		}
		_, err := tooldisc.Find(t.Context(), s.Session, "b/adder", "2")
		refusedBy(t, "another version", err, "RATE_LIMIT_EXCEEDED", a)

		// What a caller may see is asked anew.
		a.edit("access: {rules: [{identity: '**'}]", "access: {rules: [{identity: '**', profile: rpc}]")
		_, err = agdisc.Ask(t.Context(), s.Session, "b/demo", "")
		refusedBy(t, "a card that is denied by now", err, "SECURITY_POLICY", a)
		_, err = tooldisc.Find(t.Context(), s.Session, "b/adder", "")
		refusedBy(t, "a tool that is denied by now", err, "SECURITY_POLICY", a)
		a.edit("access: {rules: [{identity: '**', profile: rpc}]", "access: {rules: [{identity: '**'}]")
		look(s.Session, "b/", true)

		// An entry that has changed is another partner's.
		a.edit("  b: {", "  b: {in_flight: 77, ")
		if _, err := agdisc.Ask(t.Context(), s.Session, "b/demo", ""); err == nil {
			t.Error("the card of a partner whose entry has changed is told")
		}
		if _, err := tooldisc.Find(t.Context(), s.Session, "b/adder", ""); err == nil {
			t.Error("the tool of a partner whose entry has changed is told")
		}
	})
}

// A partner that has refused a card since is not away, and its card is not told when it is.
func TestWhatAPartnerRefusesIsNotToldWhileItIsAway(t *testing.T) {
	t.Parallel()
	b := open(t, "b", withCard(t))
	a := open(t, "a", "")
	b.trusting("a", a)
	link, address := newTunnel(t, b.addrs[0])
	a.trusting("b", b, address)
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	if _, err := agdisc.Ask(t.Context(), s.Session, "b/demo", ""); err != nil {
		t.Fatal(err)
	}
	b.edit("access: {rules: [{identity: '**'}]", "access: {rules: [{identity: '**', profile: rpc}]")
	_, err := agdisc.Ask(t.Context(), s.Session, "b/demo", "")
	refusedBy(t, "denied there", err, agdisc.CodeNotFound, b)
	_ = link.Close()
	link.cut()
	a.until("the loss of b", func() bool { return !a.up("b") })
	if card, err := agdisc.Ask(t.Context(), s.Session, "b/demo", ""); err == nil {
		t.Errorf("what was denied is told: %+v", card)
	}
}

// The schema of a tool of a partner is a state of the partner's endpoint.
func TestTheSchemaOfAToolOfAPartnerIsAState(t *testing.T) {
	t.Parallel()
	const schema = `{ "type": "object" }`
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	yaml := fmt.Sprintf("tooldisc: {tools: [{tool_id: adder, name: Adder, version: '1', schema: %q}]}\n", file)
	everywhere(t, yaml, func(t *testing.T, a, b *organisation, s *session) {
		tool, err := tooldisc.Find(t.Context(), s.Session, "b/adder", "")
		if err != nil {
			t.Fatal(err)
		}
		id := state.IDOf([]byte(schema))
		if want := "sha256:" + hex.EncodeToString(id[:]); tool.SchemaRef != want {
			t.Fatalf("schema_ref %q, want %q", tool.SchemaRef, want)
		}
		got, err := state.Fetch(t.Context(), profiles.Toward(s.Session, "b"), id)
		if err != nil || string(got.Blob) != schema {
			t.Errorf("%q, %v", got.Blob, err)
		}
		_, err = state.Fetch(t.Context(), s.Session, id)
		refusedBy(t, "the schema here", err, state.CodeNotFound, a)
	})
}
