package mcpmap

// Extension types of this profile.
const (
	ExtTarget     = 16 // name of the MCP server
	ExtSession    = 17 // legacy MCP session
	ExtRelated    = 18 // msg_id of the request that a notification belongs to
	ExtMCPParam   = 19 // "name:value", repeatable
	ExtHTTPStatus = 20 // uvarint, on a response
	ExtWindow     = 21 // uvarint: on a request, see Exchange.Pace; on a notification, the number to confirm
	ExtTaken      = 22 // uvarint, on a notification of the caller: the number of an ExtWindow that was confirmed
)
