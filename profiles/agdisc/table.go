package agdisc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Table is a Source of cards that never change.
type Table struct {
	cards   map[string]*Card
	entries []Entry
}

// NewTable returns a Source of the given cards. An empty Revision becomes RevisionOf, an
// empty ETag becomes HashOf. It fails on a duplicate agent_id, and on values that do not
// fit into a Doc.
func NewTable(cards ...Card) (*Table, error) {
	t := &Table{cards: make(map[string]*Card, len(cards))}
	for _, card := range cards {
		if card.ETag == "" {
			card.ETag = HashOf(card.Payload)
		}
		if card.Revision == "" {
			card.Revision = RevisionOf(card.Payload)
		}
		if _, twice := t.cards[card.AgentID]; twice {
			return nil, fmt.Errorf("agdisc: agent_id %q: there twice", card.AgentID)
		}
		if err := card.validate(); err != nil {
			return nil, fmt.Errorf("agdisc: card of %.80q: %w", card.AgentID, err)
		}
		t.cards[card.AgentID] = &card
		t.entries = append(t.entries, Entry{AgentID: card.AgentID, Revision: card.Revision})
	}
	return t, nil
}

// validate returns an error if a peer would refuse the card.
func (c *Card) validate() error {
	for _, text := range []string{c.AgentID, c.Revision, c.ETag} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q is not UTF-8", text)
		}
	}
	if c.MaxAge < 0 {
		return fmt.Errorf("max_age of %v is negative", c.MaxAge)
	}
	return new(Doc).Decode(c.doc().Append(nil))
}

// RevisionOf returns the schema_revision of a card without one: its member "version", as in
// A2A, if it is a JSON object with that member, else its etag, HashOf.
func RevisionOf(payload []byte) string {
	var members map[string]json.RawMessage // case-sensitive names
	var version string
	if json.Unmarshal(payload, &members) == nil && json.Unmarshal(members["version"], &version) == nil && version != "" {
		return version
	}
	return HashOf(payload)
}

// required are the members of a card that A2A 1.0 requires, except supportedInterfaces: an
// endpoint of SWP has other ways to the agent.
var required = []string{"name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"}

// CheckA2A returns an error if a card is not a JSON object, or lacks members that A2A 1.0
// requires. The profile carries any card.
func CheckA2A(payload []byte) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil || members == nil {
		return errors.New("not a JSON object")
	}
	missing := slices.DeleteFunc(slices.Clone(required), func(name string) bool {
		value, there := members[name]
		return there && string(value) != "null"
	})
	if len(missing) > 0 {
		return fmt.Errorf("without %s", strings.Join(missing, ", "))
	}
	return nil
}

// Agents implements Source.
func (t *Table) Agents() []Entry { return slices.Clone(t.entries) }

// Card implements Source. It calls found at once.
func (t *Table) Card(agentID string, found func(Card, error)) bool {
	card, ok := t.cards[agentID]
	if ok {
		found(*card, nil)
	}
	return ok
}

// maxAge is the maximum time that a card is fresh, regardless of its max_age_ms.
const maxAge = 7 * 24 * time.Hour
