package main

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// The encoder of the fixtures. It is written from the specification a second
// time, on purpose: a fault in package e1 must not find its way into the
// octets that e1 is tested with. And it can write what e1 never would.

// message is an envelope. The methods return a changed copy, so that a fixture
// reads as a good message with one fault.
type message struct {
	ver, profile, typ, flags, ts uint64
	id, ext, payload             []byte
}

const (
	// now is the moment at which most fixtures were sent: 2026-02-19 14:55:16 UTC.
	now = 1771512916261

	usualID = "12345678abcdefgh"
)

// typical is an ordinary MCP request frame as far as Core can tell.
var typical = message{ver: 1, profile: 1, typ: 1, ts: now, id: []byte(usualID), payload: []byte(`{"k":"v"}`)}

func (m message) withVersion(v uint64) message { m.ver = v; return m }
func (m message) withProfile(v uint64) message { m.profile = v; return m }
func (m message) withType(v uint64) message    { m.typ = v; return m }
func (m message) withFlags(v uint64) message   { m.flags = v; return m }
func (m message) withTime(ms uint64) message   { m.ts = ms; return m }
func (m message) withID(id string) message     { m.id = []byte(id); return m }
func (m message) withPayload(p string) message { m.payload = []byte(p); return m }

// withExtension adds one TLV entry.
func (m message) withExtension(typ uint64, value string) message {
	m.ext = append(append(slices.Clip(m.ext), uvarint(typ)...), field([]byte(value))...)
	return m
}

// withExtensionBlock makes the block one unknown entry, n octets in all.
func (m message) withExtensionBlock(n int) message {
	const head = 4 // two octets of type 4097, two of length
	m.ext = nil
	return m.withExtension(4097, strings.Repeat("x", n-head))
}

func (m message) body() []byte {
	return join(uvarint(m.ver), uvarint(m.profile), uvarint(m.typ), uvarint(m.flags), uvarint(m.ts),
		field(m.id), field(m.ext), field(m.payload))
}

func (m message) frame() []byte { return frame(m.body()) }

// frame puts the true length before a body.
func frame(body []byte) []byte { return announce(len(body), body) }

// announce puts any length before what need not be a body.
func announce(n int, octets []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), octets...)
}

func uvarint(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func field(b []byte) []byte { return append(uvarint(uint64(len(b))), b...) }

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func repeat(octet byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = octet
	}
	return b
}

// octets reads hexadecimal with blanks.
func octets(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}
