package profiles

// Extension types of any profile that this implementation assigns (mcp-a2a mapping
// §2). A profile assigns its own from 16 on; types 0 to 15 belong to Core and stay
// unassigned.
const (
	ExtHops     = 48 // uvarint, at most MaxHops
	ExtDeadline = 49 // uvarint, milliseconds left
	ExtChain    = 50 // chain_id of the credentials of the exchange
	ExtCaller   = 51 // assertion of the caller: a JWT of at most 1,024 octets
	ExtTarget   = 52 // destination: names of partners joined by slashes; each endpoint removes the first
	ExtEndpoint = 53 // on an error, identity of the endpoint that wrote it
	ExtDraining = 54 // on an error, empty: the connection of its author drains, and takes no further request
)

// MaxHops is how many endpoints a forwarded message may pass.
const MaxHops = 8
