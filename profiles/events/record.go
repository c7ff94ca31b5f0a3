package events

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// Severity is how much an event matters. The set is closed.
type Severity uint8

// The severities.
const (
	Debug Severity = iota
	Info
	Warn
	Error
)

var severities = [...]string{"debug", "info", "warn", "error"}

func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// ParseSeverity reads a severity. Case and surrounding white space do not
// matter.
func ParseSeverity(text []byte) (Severity, bool) {
	text = bytes.TrimSpace(text)
	for i, name := range severities {
		if len(text) == len(name) && bytes.EqualFold(text, []byte(name)) {
			return Severity(i), true
		}
	}
	return 0, false
}

// Bounds of a record, in octets. Other fields are bounded by the frame.
const (
	MaxEventID   = 256
	MaxEventType = 256
)

// Record is one event. Like the messages it is a view: slices alias what it was
// decoded from.
//
// What is appended is its one form: known fields once, in the order of the
// schema and as short as can be, then the fields that the schema does not have,
// as they came. Two records are the same event if their forms are equal.
type Record struct {
	EventID   []byte // required, UTF-8, unique per producer
	EventType []byte // required, UTF-8
	Severity  []byte // required, as it was written; see ParseSeverity
	Timestamp uint64 // required: ts_unix_ms
	MsgID     []byte // one of the three is required: what the event belongs to
	TaskID    []byte
	RPCID     []byte
	Body      []byte

	level   Severity // set by validate
	octets  []byte   // what it was decoded from
	unknown int      // octets in there that belong to unknown fields
}

// decode reads r from an EventRecord and validates it.
func (r *Record) decode(message []byte) error {
	if err := r.read(message); err != nil {
		return err
	}
	return r.Validate()
}

// stored reads a record that was valid when it was stored.
func (r *Record) stored(message []byte) error {
	if err := r.read(message); err != nil {
		return &profiles.Error{Code: profiles.Internal, Detail: "store", Text: "internal error", Cause: err}
	}
	r.level, _ = ParseSeverity(r.Severity)
	return nil
}

func (r *Record) read(message []byte) error {
	*r = Record{octets: message}
	f := p1.Read(message)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&r.EventID)
		case 2:
			f.Text(&r.EventType)
		case 3:
			f.Text(&r.Severity)
		case 4:
			f.Uint64(&r.Timestamp)
		case 5:
			f.Bytes(&r.MsgID)
		case 6:
			f.Bytes(&r.TaskID)
		case 7:
			f.Bytes(&r.RPCID)
		case 8:
			f.Bytes(&r.Body)
		default:
			r.unknown += len(f.Raw())
		}
	}
	return f.Err()
}

// Validate says what is wrong with a record, as an *profiles.Error of
// InvalidProfilePayload. Nothing is filled in for what is missing.
func (r *Record) Validate() error {
	var ok bool
	switch {
	case len(r.EventID) == 0:
		return p1.Missing("event_id")
	case len(r.EventType) == 0:
		return p1.Missing("event_type")
	case len(r.Severity) == 0:
		return p1.Missing("severity")
	case r.Timestamp == 0:
		return p1.Missing("ts_unix_ms")
	case len(r.MsgID) == 0 && len(r.TaskID) == 0 && len(r.RPCID) == 0:
		return p1.Missing("msg_id, task_id or rpc_id")
	case len(r.EventID) > MaxEventID:
		return invalid(DetailSize, "event_id: %d octets, want at most %d", len(r.EventID), MaxEventID)
	case len(r.EventType) > MaxEventType:
		return invalid(DetailSize, "event_type: %d octets, want at most %d", len(r.EventType), MaxEventType)
	}
	if r.level, ok = ParseSeverity(r.Severity); !ok {
		return invalid(DetailSeverity, "severity %.32q, want debug, info, warn or error", r.Severity)
	}
	if !utf8.Valid(r.EventID) || !utf8.Valid(r.EventType) {
		return invalid(p1.DetailUTF8, "event_id or event_type: not UTF-8")
	}
	return nil
}

// The details of the errors of this profile. Those of payloads that are
// malformed are p1's.
const (
	DetailSize     = "EVT_SIZE"          // a field is too long
	DetailSeverity = "EVT_SEVERITY"      // not one of the set
	DetailConflict = "EVT_ID_CONFLICT"   // the event_id stands for another event
	DetailCursor   = "EVT_CURSOR"        // the cursor, or what stands for it, is no good
	DetailFilter   = "EVT_FILTER"        // see ParseFilter
	DetailName     = "EVT_NAME"          // of a subscription
	DetailHops     = "EVT_HOPS"          // more than profiles.MaxHops
	DetailSlow     = "EVT_SLOW_CONSUMER" // what is due is no longer held
	DetailBound    = "EVT_BOUND"         // too many subscriptions, or names of them
	DetailPending  = "EVT_PENDING"       // too much waits to be stored
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "events: " + fmt.Sprintf(format, args...)}
}

// size is that of the record as a message of its own.
func (r *Record) size() int {
	return p1.SizeBytes(1, r.EventID) + p1.SizeBytes(2, r.EventType) + p1.SizeBytes(3, r.Severity) + p1.SizeUint(4, r.Timestamp) +
		p1.SizeBytes(5, r.MsgID) + p1.SizeBytes(6, r.TaskID) + p1.SizeBytes(7, r.RPCID) + p1.SizeBytes(8, r.Body) + r.unknown
}

func (r *Record) append(dst []byte) []byte {
	dst = p1.AppendBytes(dst, 1, r.EventID)
	dst = p1.AppendBytes(dst, 2, r.EventType)
	dst = p1.AppendBytes(dst, 3, r.Severity)
	dst = p1.AppendUint(dst, 4, r.Timestamp)
	dst = p1.AppendBytes(dst, 5, r.MsgID)
	dst = p1.AppendBytes(dst, 6, r.TaskID)
	dst = p1.AppendBytes(dst, 7, r.RPCID)
	dst = p1.AppendBytes(dst, 8, r.Body)
	if r.unknown == 0 {
		return dst
	}
	for f := p1.Read(r.octets); f.Next(); {
		if f.Num() > 8 {
			dst = append(dst, f.Raw()...)
		}
	}
	return dst
}
