// Package a2abinding is the custom protocol binding of A2A 1.0: each operation is
// one lifecycle of profile 2. It has the names, the service parameters and the
// errors; whoever speaks HTTP, or the SDK, builds on it. Octets of messages are never
// decoded here.
//
// Specification: mcp-a2a mapping §4, docs/a2a-binding-swp.md.
package a2abinding

import "strings"

// URI names the binding, as protocolBinding of an AgentInterface.
const URI = "https://github.com/slimwire/swp/a2a-binding/v1"

// Version is the protocol version of A2A that is carried.
const Version = "1.0"

// Names of service parameters that have a meaning here. They are sent in lower case.
const (
	ParamVersion    = "a2a-version"
	ParamExtensions = "a2a-extensions"
)

// Names of the operations, which are also the methods of JSON-RPC.
const (
	SendMessage          = "SendMessage"
	SendStreamingMessage = "SendStreamingMessage"
	GetTask              = "GetTask"
	ListTasks            = "ListTasks"
	CancelTask           = "CancelTask"
	SubscribeToTask      = "SubscribeToTask"
	CreatePushConfig     = "CreateTaskPushNotificationConfig"
	GetPushConfig        = "GetTaskPushNotificationConfig"
	ListPushConfigs      = "ListTaskPushNotificationConfigs"
	DeletePushConfig     = "DeleteTaskPushNotificationConfig"
	GetExtendedAgentCard = "GetExtendedAgentCard"
)

// Operation is what an A2A agent can be asked.
type Operation struct {
	Name string

	// Streams says that the answer is StreamResponses, one in each Event, and that
	// the Result has no output.
	Streams bool

	// Reads says that it changes nothing: after a lost connection it is done again
	// instead of being resumed.
	Reads bool

	// Empty says that there is nothing in an answer.
	Empty bool

	// Needs names the member of the capabilities in a card without which the agent does not
	// offer the operation; empty if every agent offers it. See Unoffered.
	Needs string
}

// Members of the capabilities in a card.
const (
	needsStreaming = "streaming"
	needsPush      = "pushNotifications"
)

// Unoffered is the failure of an operation that an agent without its Needs does not offer.
func (o Operation) Unoffered() *Failure {
	if o.Needs == needsPush {
		return Fail(CodeNoPush, "push notifications are not supported")
	}
	return Fail(CodeUnsupported, "the agent does not offer this operation")
}

var operations = [...]Operation{
	{Name: SendMessage},
	{Name: SendStreamingMessage, Streams: true, Empty: true, Needs: needsStreaming},
	{Name: GetTask, Reads: true},
	{Name: ListTasks, Reads: true},
	{Name: CancelTask},
	{Name: SubscribeToTask, Streams: true, Empty: true, Needs: needsStreaming},
	{Name: CreatePushConfig, Needs: needsPush},
	{Name: GetPushConfig, Reads: true, Needs: needsPush},
	{Name: ListPushConfigs, Reads: true, Needs: needsPush},
	{Name: DeletePushConfig, Empty: true, Needs: needsPush},
	{Name: GetExtendedAgentCard, Reads: true},
}

const kindPrefix = "a2a/" + Version + "/"

// Operations returns all eleven.
func Operations() []Operation { return append([]Operation(nil), operations[:]...) }

// Kinds returns the kinds of all operations, for a Registration or a Handshake.
func Kinds() []string {
	var kinds []string
	for _, o := range operations {
		kinds = append(kinds, o.Kind())
	}
	return kinds
}

// Kind is the kind of a Task of this operation.
func (o Operation) Kind() string { return kindPrefix + o.Name }

// Named returns the operation with a name, which must match exactly.
func Named(name string) (Operation, bool) {
	for _, o := range operations {
		if o.Name == name {
			return o, true
		}
	}
	return Operation{}, false
}

// OfKind returns the operation that a Task of a kind asks for.
func OfKind(kind string) (Operation, bool) {
	name, ok := strings.CutPrefix(kind, kindPrefix)
	if !ok {
		return Operation{}, false
	}
	return Named(name)
}

// Capabilities is the member of a card that declares extensions, for a reader who wants
// nothing else of it.
type Capabilities struct {
	Extensions []struct {
		URI      string `json:"uri"`
		Required bool   `json:"required"`
	} `json:"extensions"`
}
