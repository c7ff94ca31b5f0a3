package mcpmap

// Extension types of this profile.
const (
	ExtTarget     = 16 // name of the MCP server
	ExtSession    = 17 // legacy MCP session
	ExtRelated    = 18 // msg_id of the request that a notification belongs to
	ExtMCPParam   = 19 // "name:value", repeatable
	ExtHTTPStatus = 20 // uvarint, on a response
)
