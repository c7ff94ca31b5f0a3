package profiles

// Extension types that this implementation assigns (mcp-a2a mapping §2). Types
// 0 to 15 belong to Core and stay unassigned.
const (
	ExtTarget     = 16 // profile 1: name of the MCP server
	ExtSession    = 17 // profile 1: legacy MCP session
	ExtRelated    = 18 // profile 1: msg_id of the request a notification belongs to
	ExtMCPParam   = 19 // profile 1: "name:value", repeatable
	ExtHTTPStatus = 20 // profile 1: uvarint, on a response

	ExtAgent     = 16 // profile 2: agent_id that a Task is meant for
	ExtParam     = 18 // profile 2: "name=value" service parameter, repeatable
	ExtSequence  = 19 // profile 2: uvarint, number of an Event, from 1; on a Result that of the last Event
	ExtResume    = 20 // profile 2: uvarint, replay the Events after this number
	ExtFirstHeld = 21 // profile 2: uvarint, on the first replayed Event the first number that is still held

	ExtSubscription = 16 // profile 13: name of a durable subscription
	ExtCursor       = 17 // profile 13: uvarint; on SUBSCRIBE start after it, on EVT_BATCH that of its last record

	ExtPublisher = 16 // profile 19: identity of the publisher, on a delivery

	ExtDurable = 16 // profile 14: uvarint, on ART_ACK how many octets of the artifact are durable

	ExtUCRHash = 16 // profile 1025: ucrHash of the anchors that the sender knows
	ExtHandle  = 17 // profile 1025: what a handle stands for, "k=task:id"; repeatable

	ExtHops     = 48 // any profile: uvarint, at most MaxHops
	ExtDeadline = 49 // any profile: uvarint, milliseconds left
	ExtChain    = 50 // any profile: chain_id of the credentials that it is done under
	ExtEndpoint = 53 // any profile: on an error, identity of the endpoint that wrote it
)

// MaxHops is how many endpoints a forwarded message may pass.
const MaxHops = 8
