package main

import (
	"bytes"
	"encoding/hex"

	"github.com/slimwire/swp/vectors"
)

var (
	tooLong  = repeat(0x80, 11)                      // an eleventh octet
	overflow = append(repeat(0xff, 9), 0x02)         // 2^64 + 2^63 − 1
	largest  = append(repeat(0xff, 9), 0x01)         // 2^64 − 1
	two63    = append(repeat(0x80, 9), 0x01)         // 2^63
	wrap32   = uvarint(1<<32 + uint64(len(usualID))) // 16 in 32 bits
)

var e1 = []vector{
	{
		id: "e1_0001_valid_min_envelope", about: "a minimal envelope decodes, and encodes to the same octets again",
		expect: accept, bin: typical.withTime(0).withID("12345678").withPayload("").frame(),
		transcript: []step{mainStep("what was decoded is all there was", vectors.Expect{Reencode: true})},
		siblings: []sibling{scene("and so does one with every field filled",
			in("flags and an unknown extension beside the rest", typical.withFlags(1<<27).withExtension(4097, "x").frame(), accept, vectors.Expect{Reencode: true}))},
	},
	{
		id: "e1_0002_varint_too_long_invalid", about: "a uvarint of more than 10 octets is refused",
		expect: reject("INVALID_FRAME", "uvarint longer than 10 octets"), bin: with(atVersion, tooLong),
		siblings: []sibling{
			like("in profile_id", with(atProfile, tooLong), reject("INVALID_FRAME", ""), badUvarint),
			like("in ts_unix_ms", with(atTime, tooLong), reject("INVALID_FRAME", ""), badUvarint),
			like("in the length of msg_id", with(atID, tooLong), reject("INVALID_FRAME", ""), badUvarint),
			like("in the length of the payload", with(atPayload, tooLong), reject("INVALID_FRAME", ""), badUvarint),
			like("ten octets that mean 1 are long but legal", with(atType, append([]byte{0x81}, append(repeat(0x80, 8), 0)...)), accept,
				vectors.Expect{Envelope: &vectors.Envelope{MsgType: new(uint64(1))}}),
		},
	},
	{
		id: "e1_0003_varint_overflow_invalid", about: "a uvarint above 2^64-1 is refused",
		expect: reject("INVALID_FRAME", "uvarint overflow"), bin: with(atFlags, overflow),
		siblings: []sibling{
			like("in version, with nothing behind it", frame(overflow), reject("INVALID_FRAME", ""), badUvarint),
			like("2^64-1 itself decodes", with(atFlags, largest), accept, vectors.Expect{Envelope: &vectors.Envelope{Flags: new(uint64(1<<64 - 1))}}),
		},
	},
	{
		id: "e1_0004_invalid_version", about: "an E1 version other than 1 is refused",
		expect: reject("UNSUPPORTED_VERSION", "version 2"), bin: typical.withVersion(2).withPayload("e1").frame(),
	},
	{
		id: "e1_0005_empty_msg_id_invalid", about: "an empty msg_id is refused",
		expect: reject("INVALID_ENVELOPE", "msg_id empty"), bin: typical.withID("").withPayload("e1").frame(),
	},
	{
		id: "e1_0006_unknown_extension_ignored", about: "an unknown extension is skipped",
		expect: accept, bin: typical.withExtension(4097, "nobody knows me").frame(),
		transcript: []step{
			in("the frame without extensions", typical.frame(), accept),
			mainStep("every other field is the same, the payload intact", vectors.Expect{SameAs: &vectors.SameAs{Step: 1, Except: []string{"extensions"}}}),
		},
	},
	{
		id: "e1_0007_extensions_too_large", about: "an extension block above MAX_EXT_BYTES is refused",
		expect: reject("INVALID_ENVELOPE", "extension block of 5003 octets"), bin: typical.withExtensionBlock(5003).frame(),
		siblings: []sibling{
			like("4096 octets are the limit", typical.withExtensionBlock(4096).frame(), accept),
			like("4097 are one too many", typical.withExtensionBlock(4097).frame(), reject("INVALID_ENVELOPE", ""), vectors.Expect{Detail: "ERR_EXT_TOO_LARGE"}),
		},
	},
	{
		id: "e1_0008_truncated_bytes_field", about: "a bytes field that is longer than what is left is refused",
		expect: reject("INVALID_FRAME", "payload of 2 octets, 1 left"), bin: frame(join(before(atPayload), octets("02 61"))),
		siblings: []sibling{
			like("msg_id", frame(join(before(atID), octets("10"), []byte(usualID)[:15])), reject("INVALID_FRAME", "")),
			like("extensions", frame(join(before(atExtensions), octets("02 61"))), reject("INVALID_FRAME", "")),
			like("a length that is negative as int64", frame(join(before(atPayload), two63, octets("61"))), reject("INVALID_FRAME", "")),
			like("a length that fits when cut to 32 bits", frame(join(before(atID), wrap32, typical.body()[len(before(atID))+1:])), reject("INVALID_FRAME", "")),
			like("the field is not there at all", frame(before(atPayload)), reject("INVALID_FRAME", "")),
		},
	},
}

var badUvarint = vectors.Expect{Detail: "ERR_INVALID_UVARINT"}

// Positions of the fields of an envelope.
const (
	atVersion = iota
	atProfile
	atType
	atFlags
	atTime
	atID
	atExtensions
	atPayload
)

// parts are the fields of the typical envelope. A bytes field is two parts in
// one: its length, then its octets.
func parts() [][]byte {
	m := typical
	return [][]byte{uvarint(m.ver), uvarint(m.profile), uvarint(m.typ), uvarint(m.flags), uvarint(m.ts), field(m.id), field(m.ext), field(m.payload)}
}

// before is the typical envelope up to a field.
func before(position int) []byte { return bytes.Join(parts()[:position], nil) }

// with is the typical frame with other octets for the uvarint at a position:
// the field itself, or its length.
func with(position int, number []byte) []byte {
	p := parts()
	p[position] = join(number, p[position][uvarintSize(p[position]):])
	return frame(bytes.Join(p, nil))
}

func uvarintSize(b []byte) int {
	n := 1
	for b[n-1] >= 0x80 {
		n++
	}
	return n
}

func hexOf(s string) *string { return new(hex.EncodeToString([]byte(s))) }
