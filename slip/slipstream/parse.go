package slipstream

import (
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/slip/ucr"
)

// Parse reads a line. Its errors are *Error.
func (c Codec) Parse(line string) (*Message, error) {
	if len(line) > c.maxText() {
		return nil, fault(TooLong, "%d octets, want at most %d", len(line), c.maxText())
	}
	line = strings.Trim(line, " \t\r\n")
	if !utf8.ValidString(line) {
		return nil, fault(BadDelimiter, "octets that are no UTF-8")
	}
	if i := strings.IndexFunc(line, isControl); i >= 0 {
		return nil, fault(BadDelimiter, "control character %q", line[i])
	}
	tokens, err := c.split(line)
	if err != nil {
		return nil, err
	}
	if len(tokens) < heads {
		return nil, fault(TooFewTokens, "%d, want at least %d", len(tokens), heads)
	}
	marker, version, src, dst, name := tokens[0], tokens[1], tokens[2], tokens[3], tokens[4]
	switch {
	case marker != Token{Text: "SLIP"}:
		return nil, fault(BadMarker, "%.40q, want SLIP", marker.Text)
	case version != Token{Text: "v1"}:
		return nil, fault(BadVersion, "%.40q, want v1", version.Text)
	}
	for _, agent := range []Token{src, dst} {
		if agent.Quoted || !isAgent(agent.Text) {
			return nil, fault(BadAgentID, "%.40q", agent.Text)
		}
	}
	m := &Message{Src: src.Text, Dst: dst.Text}
	if m.Anchor, err = c.look(name); err != nil {
		return nil, err
	}
	m.Payload = tokens[heads:len(tokens):len(tokens)]
	if len(m.Payload) > 0 {
		if digits, ok := thread(m.Payload[0]); ok {
			m.Thread, m.Payload = digits, m.Payload[1:]
		}
	}
	if len(m.Payload) > c.maxTokens() {
		return nil, fault(TooLong, "%d tokens, want at most %d", len(m.Payload), c.maxTokens())
	}
	return m, nil
}

// heads is how many tokens stand before the payload.
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
	if !ok {
		return a, fault(UnknownAnchor, "%.40q", name.Text)
	}
	return a, nil
}

// split splits a line at its blanks. A quoted token is one.
func (c Codec) split(line string) ([]Token, error) {
	var tokens []Token
	for {
		line = strings.TrimLeft(line, " ")
		if line == "" {
			return tokens, nil
		}
		if len(tokens) == heads+1+c.maxTokens() { // with a thread
			return nil, fault(TooLong, "more than %d tokens", c.maxTokens())
		}
		inner, quoted := strings.CutPrefix(line, `"`)
		if !quoted {
			text, rest, _ := strings.Cut(line, " ")
			if strings.Contains(text, `"`) {
				return nil, fault(BadQuote, "a quote inside a token")
			}
			tokens, line = append(tokens, Token{Text: text}), rest
			continue
		}
		text, rest, closed := strings.Cut(inner, `"`)
		switch {
		case !closed:
			return nil, fault(BadQuote, "it is not closed")
		case strings.Contains(text, `\`):
			return nil, fault(BadQuote, "a backslash; there are no escapes")
		case rest != "" && rest[0] != ' ':
			return nil, fault(BadQuote, "text right after a quoted token")
		}
		tokens, line = append(tokens, Token{text, true}), rest
	}
}
