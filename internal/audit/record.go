package audit

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// Record is one exchange. Its strings may come from a peer; the caller must limit their
// length.
type Record struct {
	Time     time.Time     // end of the exchange; with Begins, time of the record
	Took     time.Duration // duration; with Begins, so far
	Begins   bool          // the exchange is unfinished; another record follows
	Begun    uint64        // event.sequence of the record with Begins; 0 if none
	Identity string        // authenticated identity
	For      string        // the caller that it has asserted, and the endpoints in between; empty if none

	Profile, Operation, Name string
	Partner                  string // empty if the exchange ended at this endpoint
	Sent                     bool   // this endpoint has opened the exchange at Partner, which has Identity
	Rule                     string // the deciding rule; empty: access was not checked
	Reason                   string // of a denial that no rule decided
	Chain                    string // chain of credentials, in hexadecimal
	Hints                    string // one line from profiles.FormatHints
	Outcome                  string
	OK                       bool

	Times           uint64 // exchanges that the record stands for; 0: one
	In, Out         uint64 // octets of frames
	Request, Answer Sum    // of payloads
	Crossing        Crossing

	Transport string
	Session   uint64
	Trace     string
}

// Crossing is what receipts need of an exchange between partners besides the digests of its
// payloads. Without MsgID there are no receipts for the exchange.
type Crossing struct {
	MsgID                          []byte
	ProfileID, MsgType, AnswerType uint64
	Caller, Target                 Sum // of extensions 51 and 52
	Complete                       bool
}

// Exchange returns the statement of this endpoint about an exchange with a Crossing.
func (r *Record) Exchange() Exchange {
	c := &r.Crossing
	return Exchange{
		Asked: r.Sent, Complete: c.Complete, MsgID: c.MsgID, ProfileID: c.ProfileID, MsgType: c.MsgType, Caller: c.Caller, Target: c.Target,
		Request: r.Request, AnswerType: c.AnswerType, Answer: r.Answer, Began: r.Time.Add(-r.Took), Ended: r.Time,
	}
}

// Sum is the SHA-256 of the concatenated payloads of one side. The zero Sum means no
// messages.
type Sum [32]byte

// Actions of records.
const (
	actionExchange    = "exchange"
	actionBegin       = "exchange-begin"
	actionSent        = "exchange-sent"
	actionReceipt     = "receipt"
	findingSuffix     = "-finding"
	actionStart       = "start"
	actionCertificate = "certificate"
	actionCheckpoint  = "checkpoint"
	actionRemoved     = "segments-removed"
	actionLost        = "records-lost"
)

// line is a record under construction: a JSON object without its end.
type line []byte

func newLine(buf []byte, at time.Time, action string) line {
	return new(clock).line(buf, at, action)
}

// clock begins lines. It caches the text of a second, because a busy trail has thousands of
// records in one.
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

// count adds a member unless it is zero.
func (l line) count(name string, value uint64) line {
	if value == 0 {
		return l
	}
	return l.number(name, value)
}

// sum adds a member unless it is zero.
func (l line) sum(name string, value Sum) line {
	if value == (Sum{}) {
		return l
	}
	l = append(l.key(name), '"')
	return append(hex.AppendEncode(l, value[:]), '"')
}

// octets adds a member in hexadecimal.
func (l line) octets(name string, value []byte) line {
	l = append(l.key(name), '"')
	return append(hex.AppendEncode(l, value), '"')
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

// appendText appends a JSON string.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // not possible for a string
				return append(dst, '"', '"')
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// open returns the line of a record, without its members of the chain.
func (r *Record) open(c *clock, buf []byte) line {
	action, outcome := actionExchange, "failure"
	switch {
	case r.Begins:
		action, outcome = actionBegin, "unknown"
	case r.Sent && r.OK:
		action, outcome = actionSent, "success"
	case r.Sent:
		action, outcome = actionSent, "unknown"
	case r.OK:
		outcome = "success"
	}
	l := c.line(buf, r.Time, action).text("event.outcome", outcome).number("event.duration", uint64(max(0, r.Took)))
	if r.Begun > 0 {
		l = l.number("swp.begun", r.Begun)
	}
	who := "user.id"
	if r.Sent {
		who = "destination.user.id"
	}
	l = l.text(who, r.Identity).text("swp.for", r.For).text("swp.profile", r.Profile).text("swp.operation", r.Operation).text("swp.name", r.Name).
		text("swp.partner", r.Partner).text("rule.id", r.Rule).text("event.reason", r.Reason).text("swp.chain", r.Chain).text("swp.hints", r.Hints).
		text("swp.outcome", r.Outcome).count("swp.times", r.Times).number("source.bytes", r.In).number("destination.bytes", r.Out).
		sum("swp.request.sha256", r.Request).sum("swp.answer.sha256", r.Answer)
	if c := &r.Crossing; len(c.MsgID) > 0 {
		l = l.octets("swp.msg_id", c.MsgID).number("swp.profile_id", c.ProfileID).number("swp.msg_type", c.MsgType).
			sum("swp.caller.sha256", c.Caller).sum("swp.target.sha256", c.Target)
		if c.AnswerType > 0 {
			l = l.number("swp.answer.type", c.AnswerType)
		}
		if !c.Complete {
			l = append(l.key("swp.incomplete"), "true"...)
		}
	}
	return l.text("swp.transport", r.Transport).number("swp.session", r.Session).text("trace.id", r.Trace)
}
