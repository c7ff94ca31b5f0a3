package main

// The encoder of P1 payloads, written from the specification (SWP profiles
// §0.1) a second time, as octets.go is for envelopes. It writes what it is
// given: fields out of order, twice, empty or of the wrong type.

// Wire types of proto3.
const (
	varint    = 0
	delimited = 2
)

// wrapped is the payload of a message: one member of the wrapper, whose number
// is the msg_type, with fields in it.
func wrapped(msgType uint64, fields ...[]byte) []byte { return nested(msgType, fields...) }

// nested is a message as a field.
func nested(number uint64, fields ...[]byte) []byte { return opaque(number, string(join(fields...))) }

// opaque is a field of type bytes or string. It is written even where it is
// empty; leave it out for the default.
func opaque(number uint64, octets string) []byte {
	return join(uvarint(number<<3|delimited), field([]byte(octets)))
}

// number is a field of an integer type or bool, also written where it is 0.
func number(field, value uint64) []byte { return join(uvarint(field<<3|varint), uvarint(value)) }

const yes = 1 // of type bool

// unlisted is a field that no schema has, of each wire type that a receiver
// has to skip: varint, 64 bits, delimited, a group, 32 bits.
var unlisted = join(
	number(1000, 7),
	uvarint(1001<<3|1), []byte("8 octets"),
	opaque(1002, "any"),
	uvarint(1003<<3|3), number(1, 1), uvarint(1003<<3|4),
	uvarint(1004<<3|5), []byte("four"),
)

// of is a frame of a profile, under a msg_id that is not the fault of it.
func of(profile, msgType uint64, id string, fields ...[]byte) message {
	if len(id) < 8 {
		panic("gen: msg_id " + id + " is too short")
	}
	return typical.withProfile(profile).withType(msgType).withID(id).withPayload(string(wrapped(msgType, fields...)))
}

// withoutType is what the official vectors for an unlisted msg_type hold: a
// good frame of type 99 whose payload names the vector.
func withoutType(profile uint64, label, id string) message {
	m := typical.withProfile(profile).withType(99)
	m.payload = join(opaque(1, label), opaque(2, id))
	return m
}
