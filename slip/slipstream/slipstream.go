// Package slipstream is Slipstream text, SLIP v1: one line of words with a message from one
// agent to another, such as
//
//	SLIP v1 planner reviewer RequestReview auth_module
//
// Append is strict: it writes safe and quoted tokens only. Parse also accepts runs of
// blanks, blanks and line breaks around the line, and payload tokens with other characters,
// which are literal.
//
// Specification: Slipstream B1 and B2.
package slipstream

import (
	"strings"

	"github.com/slimwire/swp/slip/ucr"
)

// Fallback is the anchor for a meaning without an anchor; its payload is text.
const Fallback = "Fallback"

// Message is one line.
type Message struct {
	Src, Dst string     // agent_ids
	Anchor   ucr.Anchor // Append looks at the Mnemonic only

	// Thread is the digits of the thread, unchanged; empty without one.
	Thread string

	Payload []Token
}

// Token is a word of the payload.
type Token struct {
	Text   string // without the quotes
	Quoted bool
}

// Text returns the text of a Fallback: its token or tokens, joined by one blank.
// It is empty without one.
func (m *Message) Text() string {
	texts := make([]string, len(m.Payload))
	for i, t := range m.Payload {
		texts[i] = t.Text
	}
	return strings.Join(texts, " ")
}

// Codec reads and writes lines. The zero value knows the core anchors. It is immutable and
// safe for concurrent use.
type Codec struct {
	// Table has the anchors, default the core of UCR 1.0.0.
	Table *ucr.Table

	// Transit makes Parse accept anchors that Table lacks, by their mnemonics alone: for
	// messages that are only forwarded. Known finds them.
	Transit bool

	MaxText   int // octets of a line that is read or written, default 16,384
	MaxTokens int // of the payload, default 1,024
}

func (c Codec) maxText() int {
	if c.MaxText == 0 {
		return 16 << 10
	}
	return c.MaxText
}

func (c Codec) maxTokens() int {
	if c.MaxTokens == 0 {
		return 1 << 10
	}
	return c.MaxTokens
}

// anchor finds an anchor in the table.
func (c Codec) anchor(mnemonic string) (ucr.Anchor, bool) {
	if c.Table == nil {
		return ucr.CoreNamed(mnemonic)
	}
	return c.Table.Named(mnemonic)
}

// IsAgent reports whether s can be an agent_id here.
func IsAgent(s string) bool { return isSafe(s) }

// isSafe reports whether s needs no quotes. An agent_id has the same alphabet.
func isSafe(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '.' && r != '_' && r != '-'
	})
}

// thread returns the digits of a token that names a thread.
func thread(t Token) (digits string, ok bool) {
	digits, ok = strings.CutPrefix(t.Text, "thread")
	return digits, ok && !t.Quoted && isDigits(digits)
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
