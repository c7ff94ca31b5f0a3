package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
)

// chain is the end of a trail.
type chain struct {
	sequence uint64 // of the last record
	hash     Sum    // of the last record
	state    hash.Hash
}

// Members at the end of each line.
const (
	sequenceMember = `,"event.sequence":`
	hashMember     = `,"event.hash":"`
	lineEnd        = "\"}\n"
)

// seal adds a line to the chain: its sequence, its hash and its end. begins is the position
// of the line in l.
func (c *chain) seal(l line, begins int) []byte {
	c.sequence++
	l = append(l, sequenceMember...)
	l = strconv.AppendUint(l, c.sequence, 10)
	c.hash = c.next(l[begins:])
	l = append(l, hashMember...)
	l = hex.AppendEncode(l, c.hash[:])
	return append(l, lineEnd...)
}

// next returns the hash of a line after the last record. body is the line without its hash.
func (c *chain) next(body []byte) (sum Sum) {
	if c.state == nil {
		c.state = sha256.New()
	}
	c.state.Reset()
	c.state.Write(c.hash[:])
	c.state.Write(body)
	c.state.Sum(sum[:0])
	return sum
}

// sealed is a line that was read.
type sealed struct {
	body     []byte // the hashed octets
	sequence uint64
	hash     Sum
}

// damagedEnd reports whether text behind the last line feed is a whole record without one. A kill
// during a write leaves half a record, or a record and nothing or zeros.
func damagedEnd(text []byte) bool {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(lineEnd[:len(lineEnd)-1]))
		if i < 0 {
			return false
		}
		at += i + len(lineEnd) - 1
		if _, ok := parse(text[:at]); ok {
			return at < len(text) && text[at] != 0
		}
	}
}

// parse reads the end of a line without its line feed.
func parse(text []byte) (s sealed, ok bool) {
	end := len(lineEnd) - 1 // without the line feed
	most := len(text) - end - hex.EncodedLen(len(s.hash)) - len(hashMember)
	if most < 0 || !bytes.HasPrefix(text, []byte(`{"@timestamp":"`)) || string(text[len(text)-end:]) != lineEnd[:end] ||
		string(text[most:most+len(hashMember)]) != hashMember {
		return s, false
	}
	s.body = text[:most]
	written := text[most+len(hashMember) : len(text)-end]
	if _, err := hex.Decode(s.hash[:], written); err != nil || bytes.ContainsAny(written, "ABCDEF") { // only one spelling is valid
		return s, false
	}
	at := bytes.LastIndex(s.body, []byte(sequenceMember))
	if at < 0 {
		return s, false
	}
	digits := string(s.body[at+len(sequenceMember):])
	n, err := strconv.ParseUint(digits, 10, 64)
	s.sequence = n
	return s, err == nil && strconv.FormatUint(n, 10) == digits && n > 0
}
