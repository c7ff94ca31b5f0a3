// Package clientrouting is the client-routing extension for agents written in Go: an agent of a
// team reads who sent a message and which agents it may choose from, and says in its answer who
// gets the answer next. Messages and cards are JSON, so it works with every A2A library. All but
// the data of the extension stays unchanged.
//
// A Recipient that is not in the team, or to which the agent may not send, fails the request of
// the caller: choose from Data.Agents.
//
// Specification: A2A client-routing extension v1, docs/teams.md.
package clientrouting

import "github.com/slimwire/swp/internal/agents/team"

// URI identifies the extension: in cards, in message.extensions, and in the service parameter
// a2a-extensions.
const URI = team.URI

// User is the caller, as Data.Sender and as Decision.Recipient. Sender, as Decision.Recipient,
// is who gave the agent the message, or in a later turn the task, that it answers.
const (
	User   = team.User
	Sender = team.Sender
)

// Agent describes another agent of the team. The text comes from its card, truncated: give it to
// a model as data, not as instructions.
type Agent = team.Peer

// Data is what the router says with a message.
type Data struct {
	Sender string  // User, or the id of the agent whose message it is
	Agents []Agent // the others, as far as they can be described
}

// Read returns the data of an A2A message, in JSON. ok is false if the message has none: it does
// not come from a router, or the router does not know that the agent supports the extension. It
// fails if message is no JSON object, or decoders would read it differently. It is safe for
// concurrent use.
func Read(message []byte) (d Data, ok bool, err error) {
	d.Sender, d.Agents, ok, err = team.ReadRouting(message)
	return d, ok, err
}

// Decision names the next recipient of an answer.
type Decision struct {
	Recipient string   // User, Sender or the id of an agent; required
	Reason    string   // for logs, may be empty
	Handoffs  []string // ids: the next agent is told of these only; nil means of all
}

// Decide returns the message of an answer, in JSON, with a decision: it lists the extension once
// and replaces an earlier decision. For a task it is the message of the status. It fails if
// message is no JSON object or the decision has no recipient. It is safe for concurrent use.
func Decide(message []byte, d Decision) ([]byte, error) {
	return team.WriteDecision(message, d.Recipient, d.Reason, d.Handoffs)
}

// Declare returns an agent card with the extension declared, which tells routers that the agent
// supports it. A card that declares it already is returned unchanged. It fails if card is no JSON
// object, and for a signed card, whose author has to declare it.
func Declare(card []byte) ([]byte, error) { return team.Declare(card) }
