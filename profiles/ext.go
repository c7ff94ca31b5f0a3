package profiles

// Extension types that this implementation assigns (mcp-a2a mapping §2). Types
// 0 to 15 belong to Core and stay unassigned.
const (
	ExtTarget     = 16 // profile 1: name of the MCP server
	ExtSession    = 17 // profile 1: legacy MCP session
	ExtRelated    = 18 // profile 1: msg_id of the request a notification belongs to
	ExtMCPParam   = 19 // profile 1: "name:value", repeatable
	ExtHTTPStatus = 20 // profile 1: uvarint, on a response

	ExtHops     = 48 // any profile: uvarint, at most MaxHops
	ExtDeadline = 49 // any profile: uvarint, milliseconds left
)

// MaxHops is how many endpoints a forwarded message may pass.
const MaxHops = 8
