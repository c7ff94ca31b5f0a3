package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// AppendJSON appends v as canonical JSON (A2A-SDL §3.1): UTF-8 without white space, members
// in the octet order of their names, only necessary escapes.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case KindNull:
		return append(dst, "null"...)
	case KindBool:
		if v.num != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case KindInteger, KindFloat:
		return v.appendNumber(dst)
	case KindString:
		return appendString(dst, v.text, v.num != 0)
	case KindArray:
		dst = append(dst, '[')
		if v.node != nil {
			for i := range v.node.elements {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = v.node.elements[i].AppendJSON(dst)
			}
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	if v.node != nil {
		for i := range v.node.members {
			m := &v.node.members[i]
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, m.Name, true)
			dst = append(dst, ':')
			dst = m.Value.AppendJSON(dst)
		}
	}
	return append(dst, '}')
}

// JSONSize returns the number of octets that AppendJSON appends. It takes constant time.
func (v Value) JSONSize() int {
	switch v.kind {
	case KindBool:
		return len("false") - int(v.num)
	case KindInteger, KindFloat:
		if v.big {
			return len(v.text)
		}
		var scratch [32]byte
		return len(v.appendNumber(scratch[:0]))
	case KindString:
		return len(`""`) + len(v.text) + int(v.num)
	case KindArray, KindObject:
		if v.node == nil {
			return len("{}")
		}
		return v.node.size
	}
	return len("null")
}

// String returns v as canonical JSON.
func (v Value) String() string { return string(v.AppendJSON(nil)) }

// Hash returns "sha256:" and the hexadecimal SHA-256 of v as canonical JSON.
func Hash(v Value) string {
	sum := sha256.Sum256(v.AppendJSON(make([]byte, 0, v.JSONSize())))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Any returns v as encoding/json would decode it with UseNumber:
// map[string]any, []any, string, json.Number, bool or nil.
func (v Value) Any() any {
	switch v.kind {
	case KindBool:
		return v.num != 0
	case KindInteger, KindFloat:
		return json.Number(v.appendNumber(nil))
	case KindString:
		return v.text
	case KindArray:
		all := make([]any, 0, v.Len())
		for e := range v.All() {
			all = append(all, e.Any())
		}
		return all
	case KindObject:
		all := make(map[string]any, v.Len())
		for name, m := range v.Members() {
			all[name] = m.Any()
		}
		return all
	}
	return nil
}

// escapes has the character after the backslash for each octet that must be escaped in a
// string: a letter, 'u' for \u00xx, or 0 for no escape.
var escapes = func() (t [256]byte) {
	for c := range 0x20 {
		t[c] = 'u'
	}
	for c, letter := range map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'} {
		t[c] = letter
	}
	return t
}()

// escaping returns how many octets escapes add to s.
func escaping(s string) int {
	n := 0
	for i := range len(s) {
		switch escapes[s[i]] {
		case 0:
		case 'u':
			n += len(`\u00xx`) - 1
		default:
			n += len(`\n`) - 1
		}
	}
	return n
}

// appendString writes a string. escape may be false if the string needs no escapes.
func appendString(dst []byte, s string, escape bool) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; escape && i < len(s); i++ {
		letter := escapes[s[i]]
		if letter == 0 {
			continue
		}
		dst = append(append(dst, s[from:i]...), '\\', letter)
		if letter == 'u' {
			const digits = "0123456789abcdef"
			dst = append(dst, '0', '0', digits[s[i]>>4], digits[s[i]&15])
		}
		from = i + 1
	}
	return append(append(dst, s[from:]...), '"')
}
