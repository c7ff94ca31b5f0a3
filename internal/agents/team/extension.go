package team

import (
	"encoding/json"
	"strings"

	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/profiles/p1"
)

// URI identifies the extension. Another version has another URI.
const URI = "https://ranch.woi.dev/extensions/client-routing/v1"

// Reserved names of participants, which no agent of a team may have.
const (
	User   = "user"   // the caller, as sender and recipient
	Sender = "sender" // as recipient: the sender of the message that is answered
)

// Limits of descriptions of agents for other agents, in octets. Longer text is truncated:
// it comes from other parties and may be given to a model.
const (
	maxName         = 128
	maxDescription  = 512
	maxCapabilities = 16 // of them
	maxCapability   = 64
	maxReason       = 256
)

// Peer describes one agent to another agent of its team.
type Peer struct {
	ID                    string   `json:"id"`
	Name                  string   `json:"name"`
	Description           string   `json:"description"`
	Capabilities          []string `json:"capabilities"` // names of skills
	SupportsClientRouting bool     `json:"supportsClientRouting"`
}

// Form is the form of senders in routing data. Both forms are read.
type Form string

// Forms in use under the same URI.
const (
	FormString Form = "string" // "user"
	FormObject Form = "object" // {"type":"user"}
)

// routingData returns the routing data for an agent: its peers and the sender of the
// message. Above the limit it omits descriptions first, then capabilities.
func routingData(peers []Peer, sender string, form Form, limit int) []byte {
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
			AgentCards []Peer `json:"agentCards"`
			Sender     any    `json:"sender"`
		}{peers, from})
		if err != nil { // marshalling strings and lists of strings does not fail
			return []byte("{}")
		}
		return octets
	}
	octets := write()
	for _, shorten := range []func(*Peer){
		func(c *Peer) { c.Description = "" },
		func(c *Peer) { c.Capabilities = []string{} },
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

// decision is the choice of the next recipient by an agent. The zero value means no choice.
type decision struct {
	recipient string
	agent     bool // recipient is an agent_id, even if it equals a reserved word
	handoffs  []string
	reason    string // for logs
}

// readDecision reads the routing data of an answer, in either form. Invalid data means no
// decision.
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
	d.recipient, d.agent = participantIn(value)
	if list, err := o.get("handoffs"); err == nil && json.Unmarshal(list, &d.handoffs) != nil {
		d.handoffs = nil
	}
	return d
}

// clip makes text valid and truncates it to a number of octets, at a character boundary.
func clip(s string, limit int) string {
	return p1.Clip(strings.ToValidUTF8(s, "\uFFFD"), limit)
}

// stripped returns a message without data of the extension.
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

// injected returns a stripped message with routing data added.
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

// routingOf returns the routing data of a message; nil if there is none. An answer need not
// list the extension.
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
