package team

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/jsonobject"
)

// URI names the extension. A version of it is another extension.
const URI = "https://ranch.woi.dev/extensions/client-routing/v1"

// Names of participants that no agent of a team can have.
const (
	User   = "user"   // the caller, as sender and recipient
	Sender = "sender" // as recipient: whoever sent the message that is answered
)

// Bounds of the description of one agent for another, in octets. Longer text is
// cut: it comes from other parties, and may reach a model.
const (
	maxName         = 128
	maxDescription  = 512
	maxCapabilities = 16 // of them
	maxCapability   = 64
	maxReason       = 256
)

// peerCard is what an agent is told of another one of its team.
type peerCard struct {
	ID                    string   `json:"id"`
	Name                  string   `json:"name"`
	Description           string   `json:"description"`
	Capabilities          []string `json:"capabilities"`
	SupportsClientRouting bool     `json:"supportsClientRouting"`
}

// Form is how senders are written. Both forms are read.
type Form string

// The forms in use under the one URI.
const (
	FormString Form = "string" // "user"
	FormObject Form = "object" // {"type":"user"}
)

// routingData writes what an agent is told: who its peers are, and who sent the
// message. Above the bound descriptions are left out, then capabilities.
func routingData(peers []peerCard, sender string, form Form, limit int) []byte {
	var from any = sender
	if form == FormObject {
		type participant struct {
			Type string `json:"type"`
			ID   string `json:"id,omitempty"`
		}
		if from = (participant{Type: "agent", ID: sender}); sender == User {
			from = participant{Type: User}
		}
	}
	write := func() []byte {
		octets, err := json.Marshal(struct {
			AgentCards []peerCard `json:"agentCards"`
			Sender     any        `json:"sender"`
		}{peers, from})
		if err != nil { // strings and lists of them can always be written
			return []byte("{}")
		}
		return octets
	}
	octets := write()
	for _, shorten := range []func(*peerCard){
		func(c *peerCard) { c.Description = "" },
		func(c *peerCard) { c.Capabilities = []string{} },
	} {
		if len(octets) <= limit {
			break
		}
		for i := range peers {
			shorten(&peers[i])
		}
		octets = write()
	}
	return octets
}

// decision is an agent's choice of the next recipient. The zero value is none.
type decision struct {
	recipient string
	agent     bool // recipient is an agent_id, even if it is written like another word
	handoffs  []string
	reason    string // for logs
}

// readDecision reads the routing data of an answer, in either form. Data that
// cannot be understood is no decision.
func readDecision(data []byte) (d decision) {
	o, err := parseObject(data)
	if err != nil {
		return decision{}
	}
	if value, err := o.get("reason"); err == nil {
		why, _ := jsonobject.String(value)
		d.reason = clip(why, maxReason)
	}
	value, err := o.get("recipient")
	if err != nil || value == nil {
		return d
	}
	if to, ok := jsonobject.String(value); ok {
		d.recipient = to
	} else if who, err := parseObject(value); err == nil {
		kind, _ := who.text("type")
		id, _ := who.text("id")
		switch {
		case kind == User:
			d.recipient = User
		case kind == "agent" && id != "":
			d.recipient, d.agent = id, true
		}
	}
	if list, err := o.get("handoffs"); err == nil && json.Unmarshal(list, &d.handoffs) != nil {
		d.handoffs = nil
	}
	return d
}

// clip cuts a text to a number of octets, between characters.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// stripped returns a message without what it says under the extension.
func stripped(message object) (object, error) {
	listed, err := message.list("extensions")
	if err != nil {
		return nil, err
	}
	kept := make([]json.RawMessage, 0, len(listed))
	for _, value := range listed {
		if uri, _ := jsonobject.String(value); uri != URI {
			kept = append(kept, value)
		}
	}
	if len(kept) < len(listed) {
		if message = message.with("extensions", array(kept)); len(kept) == 0 {
			message = message.without("extensions")
		}
	}
	metadata, err := message.inner("metadata")
	if err != nil || metadata == nil {
		return message, err
	}
	if rest := metadata.without(URI); len(rest) < len(metadata) {
		if message = message.with("metadata", rest.octets()); len(rest) == 0 {
			message = message.without("metadata")
		}
	}
	return message, nil
}

// injected returns a stripped message with routing data.
func injected(message object, data []byte) (object, error) {
	listed, err := message.list("extensions")
	if err != nil {
		return nil, err
	}
	metadata, err := message.inner("metadata")
	if err != nil {
		return nil, err
	}
	message = message.with("extensions", array(append(listed, quote(URI))))
	return message.with("metadata", metadata.with(URI, data).octets()), nil
}

// routingOf returns the routing data of a message, nil if it has none. An agent need
// not list the extension in its answer.
func routingOf(message object) ([]byte, error) {
	metadata, err := message.inner("metadata")
	if err != nil || metadata == nil {
		return nil, err
	}
	m, err := jsonobject.Object(metadata).Find(URI)
	if err != nil || m == nil {
		return nil, err
	}
	return m.Value, nil
}
