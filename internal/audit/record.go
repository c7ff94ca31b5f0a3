package audit

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// Record is one exchange. Its strings may come from a peer: whoever makes it has bounded
// them.
type Record struct {
	Time     time.Time     // when it ended; with Begins, when this is written
	Took     time.Duration // so far, with Begins
	Begins   bool          // the exchange is not over yet; another record will follow
	Begun    uint64        // event.sequence of the record with Begins, 0 if there is none
	Identity string        // as the channel authenticated it

	Profile, Operation, Name string
	Partner                  string // empty if it ended at this endpoint
	Rule                     string // what in the configuration decided; empty: nothing was asked
	Chain                    string // of credentials, in hexadecimal
	Hints                    string // one line, as profiles.FormatHints has it
	Outcome                  string
	Denied, OK               bool

	In, Out         uint64 // octets of frames
	Request, Answer Sum    // of payloads

	Transport string
	Session   uint64
	Trace     string
}

// Sum is the SHA-256 of what one side sent: of the payloads of its messages, one behind the
// other. The zero Sum says that it sent none.
type Sum [32]byte

// The actions of records.
const (
	actionExchange    = "exchange"
	actionBegin       = "exchange-begin"
	actionStart       = "start"
	actionCertificate = "certificate"
	actionCheckpoint  = "checkpoint"
	actionRemoved     = "segments-removed"
	actionLost        = "records-lost"
)

// line is a record under construction: an object of which the end is missing.
type line []byte

func newLine(buf []byte, at time.Time, action string) line {
	return new(clock).line(buf, at, action)
}

// clock begins lines. It remembers how it has written a second, because a busy trail has
// thousands of records in one.
type clock struct {
	second int64
	text   []byte // empty: none
}

func (c *clock) line(buf []byte, at time.Time, action string) line {
	if second := at.Unix(); len(c.text) == 0 || second != c.second {
		c.second = second
		c.text = at.UTC().AppendFormat(c.text[:0], `{"@timestamp":"2006-01-02T15:04:05.`)
	}
	l := append(line(buf), c.text...)
	for unit, rest := 100_000_000, at.Nanosecond(); unit > 0; unit /= 10 {
		l = append(l, '0'+byte(rest/unit%10))
	}
	return append(l, 'Z', '"').text("event.action", action)
}

func (l line) key(name string) line {
	l = append(l, ',', '"')
	l = append(l, name...)
	return append(l, '"', ':')
}

// text adds a member unless it is empty.
func (l line) text(name, value string) line {
	if value == "" {
		return l
	}
	return appendText(l.key(name), value)
}

func (l line) number(name string, value uint64) line {
	return strconv.AppendUint(l.key(name), value, 10)
}

// sum adds a member unless it is zero.
func (l line) sum(name string, value Sum) line {
	if value == (Sum{}) {
		return l
	}
	l = append(l.key(name), '"')
	return append(hex.AppendEncode(l, value[:]), '"')
}

// list adds a member unless it has no elements.
func (l line) list(name string, values []string) line {
	if len(values) == 0 {
		return l
	}
	l = append(l.key(name), '[')
	for i, v := range values {
		if i > 0 {
			l = append(l, ',')
		}
		l = appendText(l, v)
	}
	return append(l, ']')
}

// appendText appends a string of JSON.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // no string does that
				return append(dst, '"', '"')
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// open returns the line of a record, without its place in the chain.
func (r *Record) open(c *clock, buf []byte) line {
	action, outcome := actionExchange, "failure"
	switch {
	case r.Begins:
		action, outcome = actionBegin, "unknown"
	case r.OK:
		outcome = "success"
	}
	l := c.line(buf, r.Time, action).text("event.outcome", outcome).number("event.duration", uint64(max(0, r.Took)))
	if r.Begun > 0 {
		l = l.number("swp.begun", r.Begun)
	}
	l = l.text("user.id", r.Identity).text("swp.profile", r.Profile).text("swp.operation", r.Operation).text("swp.name", r.Name).
		text("swp.partner", r.Partner).text("rule.id", r.Rule).text("swp.chain", r.Chain).text("swp.hints", r.Hints).
		text("swp.outcome", r.Outcome).number("source.bytes", r.In).number("destination.bytes", r.Out).
		sum("swp.request.sha256", r.Request).sum("swp.answer.sha256", r.Answer)
	return l.text("swp.transport", r.Transport).number("swp.session", r.Session).text("trace.id", r.Trace)
}
