package slipstream

import (
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/slip/ucr"
)

// Parse reads a line. Its errors are *Error.
func (c Codec) Parse(line string) (*Message, error) {
	m := new(Message)
	if err := c.ParseInto(m, line); err != nil {
		return nil, err
	}
	return m, nil
}

// ParseInto is Parse into a reused Message, replacing its contents. It allocates nothing
// after the Payload has grown. After an error the content of m is undefined.
func (c Codec) ParseInto(m *Message, line string) error {
	if len(line) > c.maxText() {
		return fault(TooLong, "%d octets, want at most %d", len(line), c.maxText())
	}
	line = strings.Trim(line, " \t\r\n")
	if !utf8.ValidString(line) {
		return fault(BadDelimiter, "octets that are no UTF-8")
	}
	if i := strings.IndexFunc(line, isControl); i >= 0 {
		return fault(BadDelimiter, "control character %q", line[i])
	}
	// Quotes anywhere in the line are checked before the meaning of tokens, so the line is
	// split twice.
	n, err := c.count(line)
	if err != nil {
		return err
	}
	if n < heads {
		return fault(TooFewTokens, "%d, want at least %d", n, heads)
	}
	var head [heads]Token
	for i := range head {
		head[i], line, _ = next(line)
	}
	marker, version, src, dst, name := head[0], head[1], head[2], head[3], head[4]
	switch {
	case marker != Token{Text: "SLIP"}:
		return fault(BadMarker, "%.40q, want SLIP", marker.Text)
	case version != Token{Text: "v1"}:
		return fault(BadVersion, "%.40q, want v1", version.Text)
	}
	for _, agent := range head[2:4] {
		if agent.Quoted || !IsAgent(agent.Text) {
			return fault(BadAgentID, "%.40q", agent.Text)
		}
	}
	*m = Message{Src: src.Text, Dst: dst.Text, Payload: m.Payload[:0]}
	if m.Anchor, err = c.look(name); err != nil {
		return err
	}
	for i := range n - heads {
		var t Token
		t, line, _ = next(line)
		if digits, ok := thread(t); ok && i == 0 {
			m.Thread = digits
			continue
		}
		m.Payload = append(m.Payload, t)
	}
	if len(m.Payload) > c.maxTokens() {
		return fault(TooLong, "%d tokens, want at most %d", len(m.Payload), c.maxTokens())
	}
	return nil
}

// heads is how many tokens precede the payload.
const heads = 5

// look finds the anchor that a token names.
func (c Codec) look(name Token) (a ucr.Anchor, err error) {
	switch {
	case name.Quoted:
		return a, fault(BadAnchor, "it is quoted")
	case ucr.IsHex(name.Text):
		return a, fault(HexAnchor, "%.40q, want a mnemonic", name.Text)
	case !ucr.IsMnemonic(name.Text):
		return a, fault(BadAnchor, "%.40q, want letters and digits", name.Text)
	}
	a, ok := c.anchor(name.Text)
	switch {
	case ok:
		return a, nil
	case c.Transit:
		return ucr.Anchor{Mnemonic: name.Text}, nil
	}
	return a, unknown(name.Text)
}

// Known returns an *Error of UnknownAnchor if Table lacks the anchor of a message.
func (c Codec) Known(m *Message) error {
	if _, ok := c.anchor(m.Anchor.Mnemonic); !ok {
		return unknown(m.Anchor.Mnemonic)
	}
	return nil
}

func unknown(mnemonic string) error { return fault(UnknownAnchor, "%.40q", mnemonic) }

// count returns the number of tokens in a line after checking their quotes.
func (c Codec) count(line string) (n int, err error) {
	for line = strings.TrimLeft(line, " "); line != ""; n++ {
		if n == heads+1+c.maxTokens() { // with a thread
			return n, fault(TooLong, "more than %d tokens", c.maxTokens())
		}
		if _, line, err = next(line); err != nil {
			return n, err
		}
	}
	return n, nil
}

// next splits the first token, and the blanks after it, off a trimmed line. A quoted token
// counts as one.
func next(line string) (t Token, rest string, err error) {
	inner, quoted := strings.CutPrefix(line, `"`)
	if !quoted {
		text, rest, _ := strings.Cut(line, " ")
		if strings.Contains(text, `"`) {
			return t, "", fault(BadQuote, "a quote inside a token")
		}
		return Token{Text: text}, strings.TrimLeft(rest, " "), nil
	}
	text, rest, closed := strings.Cut(inner, `"`)
	switch {
	case !closed:
		return t, "", fault(BadQuote, "it is not closed")
	case strings.Contains(text, `\`):
		return t, "", fault(BadQuote, "a backslash; there are no escapes")
	case rest != "" && rest[0] != ' ':
		return t, "", fault(BadQuote, "text right after a quoted token")
	}
	return Token{text, true}, strings.TrimLeft(rest, " "), nil
}
