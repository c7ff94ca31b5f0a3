// Package p1 reads and writes the payload encoding that profile 2 and profiles 10 to 19
// share: Protocol Buffers proto3, with one additional rule.
//
//	payload := message Payload { oneof body { … } }
//
// The number of the member that is set equals the msg_type of the envelope.
//
// Messages are read in place. Body returns the member as a window into the payload, Fields
// walks over its fields. Only errors are allocated, and in one rare case (see Body) a
// merged body. Lengths are checked before use, groups are skipped to a fixed depth, and
// repeated fields are counted before they are decoded (Check).
//
// The semantics are those of proto3, with three stricter rules: a known field of another
// wire type is refused instead of being ignored, groups nest at most MaxDepth deep, and a
// message has at most MaxFields fields. Errors are *profiles.Error of InvalidProfilePayload
// with one of the Detail values of this package.
//
// Specification: SWP profiles §0.1.
package p1

import (
	"fmt"

	"github.com/slimwire/swp/profiles"
)

// The details of the errors of this package.
const (
	DetailTruncated   = "p1_truncated"    // a key, value or group ends early
	DetailOverflow    = "p1_overflow"     // a varint of more than 64 bits or 10 octets
	DetailFieldNumber = "p1_field_number" // 0 or above 2^29-1
	DetailWireType    = "p1_wire_type"    // not the type of the field, or an invalid type
	DetailGroup       = "p1_group"        // unbalanced, or nested deeper than MaxDepth
	DetailUTF8        = "P1_UTF8"         // a string that is not UTF-8
	DetailBody        = "p1_body"         // no member, or not the member of the msg_type
	DetailCount       = "p1_count"        // too many fields, or too many of one
	DetailRequired    = "p1_required"     // a required field is absent or empty
)

func refuse(detail, format string, args ...any) error {
	return &profiles.Error{
		Code:   profiles.InvalidProfilePayload,
		Detail: detail,
		Text:   fmt.Sprintf("p1: "+format, args...),
	}
}

// Missing returns the error for a required field that is absent or empty; proto3 does not
// distinguish the two.
func Missing(field string) error {
	return refuse(DetailRequired, "%s: required", field)
}

// TooLong returns the error for a field of n octets, more than its bound. The
// detail belongs to the profile and may be empty. Inlined, it would make the
// functions that decode half as long again.
//
//go:noinline
func TooLong(detail, field string, n, bound int) error {
	return &profiles.Error{
		Code:   profiles.InvalidProfilePayload,
		Detail: detail,
		Text:   fmt.Sprintf("%s: %d octets, want at most %d", field, n, bound),
	}
}
