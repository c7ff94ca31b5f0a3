package team

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slimwire/swp/internal/jsonobject"
)

// The other end of the extension: data that an agent reads and writes. Package sdk/clientrouting
// exports it.

// ReadRouting returns the routing data of a message that an agent has received. ok is false if it
// has none.
func ReadRouting(message []byte) (sender string, peers []Peer, ok bool, err error) {
	m, err := parseObject(message)
	if err != nil {
		return "", nil, false, err
	}
	data, err := routingOf(m)
	if err != nil || data == nil {
		return "", nil, false, err
	}
	o, err := parseObject(data)
	if err != nil {
		return "", nil, false, err
	}
	from, err := o.get("sender")
	if err != nil {
		return "", nil, false, err
	}
	sender, agent := participantIn(from)
	if sender == "" || agent && (sender == User || sender == Sender) {
		return "", nil, false, errors.New("team: routing data without a sender")
	}
	list, err := o.get("agentCards")
	if err == nil && list != nil {
		err = json.Unmarshal(list, &peers)
	}
	if err != nil {
		return "", nil, false, fmt.Errorf("team: agentCards: %w", err)
	}
	return sender, peers, true, nil
}

// WriteDecision returns the message of an answer with the choice of the next recipient.
func WriteDecision(message []byte, recipient, reason string, handoffs []string) ([]byte, error) {
	if recipient == "" {
		return nil, errors.New("team: a decision without a recipient")
	}
	m, err := parseObject(message)
	if err == nil {
		m, err = stripped(m)
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(struct {
		Recipient string   `json:"recipient"`
		Reason    string   `json:"reason,omitempty"`
		Handoffs  []string `json:"handoffs,omitempty"`
	}{recipient, reason, handoffs})
	if err == nil {
		m, err = injected(m, data)
	}
	if err != nil {
		return nil, err
	}
	return m.octets(), nil
}

// Declare returns a card with the extension declared.
func Declare(card []byte) ([]byte, error) {
	about, err := readCard(card)
	if err != nil || about.peer.SupportsClientRouting {
		return card, err
	}
	o, err := parseObject(card)
	if err != nil {
		return nil, err
	}
	signed, err := o.get("signatures")
	if err != nil || signed != nil {
		return nil, errors.Join(errors.New("team: the card is signed: its author has to declare the extension"), err)
	}
	capabilities, err := o.inner("capabilities")
	if err != nil {
		return nil, err
	}
	extensions, err := capabilities.list("extensions")
	if err != nil {
		return nil, err
	}
	entry, err := json.Marshal(struct {
		URI         string `json:"uri"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	}{URI, "Chooses the next recipient among the agents of a team", false})
	if err != nil {
		return nil, err
	}
	capabilities = capabilities.with("extensions", array(append(extensions, entry)))
	return o.with("capabilities", capabilities.octets()).octets(), nil
}

// participantIn reads a participant in either form. agent means that it is an agent_id, even if
// it equals a reserved word. id is empty if it is none.
func participantIn(value []byte) (id string, agent bool) {
	if id, ok := jsonobject.String(value); ok {
		return id, false
	}
	who, err := parseObject(value)
	if err != nil {
		return "", false
	}
	kind, _ := who.text("type")
	id, _ = who.text("id")
	switch {
	case kind == User:
		return User, false
	case kind == "agent" && id != "":
		return id, true
	}
	return "", false
}
