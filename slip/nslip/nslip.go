// Package nslip is nSLIP v0.1: messages of a few numbers and short strings by which agents
// coordinate, such as
//
//	@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#
//
// A message has the same meaning as text (Parse, Append) and as binary (ParseBinary,
// AppendBinary). Writing is strict and has one form for each message. Parse also accepts
// fields in any order, leading zeros, empty fields, and blanks around the line; nothing
// else.
//
// Parse and ParseBinary read into a reused Message, and allocate nothing after its slots
// have grown.
//
// Specification: Slipstream A1 to A6, and part D.
package nslip

import (
	"bytes"
	"slices"
)

// Message is one message.
type Message struct {
	ConvID uint64 // conversation
	Turn   uint64
	Src    uint64 // who speaks
	Dst    uint64 // to whom
	Act    Act
	Frame  Frame
	Slots  []Slot // in the order of the wire, each code at most once

	text []byte // strings that had escapes
}

// Slot is one value.
type Slot struct {
	Code Code
	Int  uint64 // of a slot that has an integer, else 0
	Text []byte // of a slot that has a string, else nil
}

// Slot returns the slot of a code.
func (m *Message) Slot(code Code) (Slot, bool) {
	for _, s := range m.Slots {
		if s.Code == code {
			return s, true
		}
	}
	return Slot{}, false
}

// Clone returns an independent copy.
func (m *Message) Clone() *Message {
	c := *m
	c.text = nil
	c.Slots = slices.Clone(m.Slots)
	for i := range c.Slots {
		c.Slots[i].Text = bytes.Clone(c.Slots[i].Text)
	}
	return &c
}

// reset empties m and keeps its memory.
func (m *Message) reset() { *m = Message{Slots: m.Slots[:0], text: m.text[:0]} }

// Codec reads and writes messages. It is immutable and safe for concurrent use.
type Codec struct {
	MaxMessage int // octets of a message that is read or written, default 4,096
	MaxString  int // octets of a string that is written, default 256

	// NoBars refuses to write "|" in strings of the text form, for peers that split
	// messages at bars (Slipstream, open point 4).
	NoBars bool
}

func (c Codec) maxMessage() int {
	if c.MaxMessage == 0 {
		return 4 << 10
	}
	return c.MaxMessage
}

func (c Codec) maxString() int {
	if c.MaxString == 0 {
		return 256
	}
	return c.MaxString
}

// full refuses a message with too many octets.
func (c Codec) full(n int) error {
	if n > c.maxMessage() {
		return fault(TooLong, "%d octets, want at most %d", n, c.maxMessage())
	}
	return nil
}
