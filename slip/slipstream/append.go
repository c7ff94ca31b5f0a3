package slipstream

import (
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/slip/ucr"
)

// Append appends m as a line: words separated by one blank, every token safe or quoted, the
// text of a Fallback as one quoted token. It refuses messages that others could misread.
// Its errors are *Error; then dst is returned unchanged.
func (c Codec) Append(dst []byte, m *Message) ([]byte, error) {
	if err := c.check(m); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, "SLIP v1 "...)
	dst = append(append(dst, m.Src...), ' ')
	dst = append(append(dst, m.Dst...), ' ')
	dst = append(dst, m.Anchor.Mnemonic...)
	if m.Thread != "" {
		dst = append(append(dst, " thread"...), m.Thread...)
	}
	for _, t := range m.Payload {
		if t.Quoted {
			dst = append(append(append(dst, ` "`...), t.Text...), '"')
		} else {
			dst = append(append(dst, ' '), t.Text...)
		}
	}
	if n := len(dst) - start; n > c.maxText() {
		return dst[:start], fault(TooLong, "%d octets, want at most %d", n, c.maxText())
	}
	return dst, nil
}

// check says why a Message cannot be written.
func (c Codec) check(m *Message) error {
	for _, agent := range []string{m.Src, m.Dst} {
		if !IsAgent(agent) {
			return fault(BadAgentID, "%.40q", agent)
		}
	}
	if _, err := c.look(Token{Text: m.Anchor.Mnemonic}); err != nil {
		return err
	}
	if len(m.Payload) > c.maxTokens() {
		return fault(TooLong, "%d tokens, want at most %d", len(m.Payload), c.maxTokens())
	}
	if m.Thread != "" && !isDigits(m.Thread) {
		return fault(BadToken, "thread %.40q, want digits", m.Thread)
	}
	if m.Anchor.Mnemonic == Fallback && (len(m.Payload) != 1 || !m.Payload[0].Quoted) {
		return fault(BadToken, "a Fallback has one quoted token")
	}
	for i, t := range m.Payload {
		if t.Quoted {
			if !isQuotable(t.Text) {
				return fault(BadToken, "%.40q cannot be quoted", t.Text)
			}
			continue
		}
		if !isSafe(t.Text) {
			return fault(BadToken, "%.40q has to be quoted", t.Text)
		}
		if _, ok := thread(t); ok && i == 0 && m.Thread == "" {
			return fault(BadToken, "%.40q would be read as the thread", t.Text)
		}
	}
	return nil
}

func isQuotable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return isControl(r) || r == '"' || r == '\\' })
}

// Words returns tokens for words. Words that are not safe, or look like a thread, are
// quoted.
func Words(words ...string) []Token {
	tokens := make([]Token, len(words))
	for i, w := range words {
		t := Token{Text: w}
		_, isThread := thread(t)
		tokens[i] = Token{w, isThread || !isSafe(w)}
	}
	return tokens
}

// Plain returns a Message with a plain text.
func Plain(src, dst, text string) *Message {
	return &Message{Src: src, Dst: dst, Anchor: ucr.Anchor{Mnemonic: Fallback}, Payload: []Token{{text, true}}}
}

// Say returns a Message with an anchor, by its mnemonic.
func Say(src, dst, mnemonic string, words ...string) *Message {
	return &Message{Src: src, Dst: dst, Anchor: ucr.Anchor{Mnemonic: mnemonic}, Payload: Words(words...)}
}
