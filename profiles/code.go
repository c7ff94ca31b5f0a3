package profiles

import "strconv"

// Code is a canonical conformance code. Its number is its position in the
// table of SWP Core §12; QUIC carries it as application error code.
type Code uint8

// The error taxonomy of SWP Core §12.
const (
	OK                    Code = iota
	InvalidFrame               // bad or truncated prefix or body, envelope undecodable
	FrameTooLarge              // detail of InvalidFrame: N above the limit
	InvalidUvarint             // detail of InvalidFrame: malformed, truncated, overflowing
	UnsupportedVersion         // Core version is not 1
	InvalidEnvelope            // an envelope invariant is broken
	MsgIDInvalid               // detail of InvalidEnvelope: msg_id absent or of bad length
	PayloadTooLarge            // detail of InvalidEnvelope
	ExtTooLarge                // detail of InvalidEnvelope
	UnknownProfile             // profile_id is not handled here
	SecurityPolicy             // the channel or a policy gate refused
	RateLimitExceeded          // rate, quota or capacity
	UnsupportedMsgType         // msg_type is not in the profile's table
	InvalidMCPPayload          // MCP shape or encoding
	InvalidProfilePayload      // profile payload semantics or encoding
	DuplicateMsgID             // msg_id is in flight already
	NotFound                   // the addressed object does not exist
	CompatibilityPolicy        // process or compatibility check

	// Internal is a failure of this endpoint. It is outside the taxonomy; on
	// QUIC it is application error code 255.
	Internal Code = 255
)

// ErrorProfile is the id of the private profile of the error path (docs/profile-error-path.md). Endpoints serve
// it, and no Registry has it.
const ErrorProfile = 4096

var aliases = [...]string{
	"OK", "INVALID_FRAME", "FRAME_TOO_LARGE", "INVALID_UVARINT", "UNSUPPORTED_VERSION", "INVALID_ENVELOPE",
	"MSG_ID_INVALID", "PAYLOAD_TOO_LARGE", "EXT_TOO_LARGE", "UNKNOWN_PROFILE", "SECURITY_POLICY",
	"RATE_LIMIT_EXCEEDED", "UNSUPPORTED_MSG_TYPE", "INVALID_MCP_PAYLOAD", "INVALID_PROFILE_PAYLOAD",
	"DUPLICATE_MSG_ID", "NOT_FOUND", "COMPATIBILITY_POLICY",
}

// Codes returns all codes except OK.
func Codes() []Code {
	codes := []Code{Internal}
	for c := range aliases[1:] {
		codes = append(codes, Code(c+1))
	}
	return codes
}

// Alias returns the short name, such as INVALID_FRAME; OK for no error and
// INTERNAL_ERROR for Internal.
func (c Code) Alias() string {
	switch {
	case int(c) < len(aliases):
		return aliases[c]
	case c == Internal:
		return "INTERNAL_ERROR"
	}
	return "UNKNOWN_" + strconv.Itoa(int(c))
}

// String returns the canonical name, such as ERR_INVALID_FRAME; OK for no error.
func (c Code) String() string {
	if c == OK {
		return "OK"
	}
	return "ERR_" + c.Alias()
}

// ParseCode returns the code of a canonical name or an alias.
func ParseCode(name string) (Code, bool) {
	if len(name) > 4 && name[:4] == "ERR_" {
		name = name[4:]
	}
	for i, a := range aliases {
		if a == name {
			return Code(i), true
		}
	}
	return Internal, name == "INTERNAL_ERROR"
}
