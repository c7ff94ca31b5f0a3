package events

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// Severity is the severity of an event. The set is closed.
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

// graded has the parsed fields of a Record.
type graded struct {
	level Severity // set by grade
}

// stored reads a record that was valid when it was stored.
func (m *Record) stored(message []byte) error {
	if err := m.read(message); err != nil {
		return &profiles.Error{Code: profiles.Internal, Detail: "store", Text: "internal error", Cause: err}
	}
	m.level, _ = ParseSeverity(m.Severity)
	return nil
}

// Validate returns the fault of a record, as an *profiles.Error of
// InvalidProfilePayload. It fills in no missing field.
func (m *Record) Validate() error { return m.check() }

// grade checks what the schema does not express.
func (m *Record) grade() error {
	var ok bool
	if m.level, ok = ParseSeverity(m.Severity); !ok {
		return invalid(DetailSeverity, "severity %.32q, want debug, info, warn or error", m.Severity)
	}
	// A record that was not decoded has not been looked at.
	if !utf8.Valid(m.EventID) || !utf8.Valid(m.EventType) {
		return invalid(p1.DetailUTF8, "event_id or event_type: not UTF-8")
	}
	return nil
}

// The details of the errors of this profile. Malformed payloads have the details of p1.
const (
	DetailSize     = "evt_size"          // a field is too long
	DetailSeverity = "evt_severity"      // not one of the set
	DetailConflict = "evt_id_conflict"   // the event_id stands for another event
	DetailCursor   = "evt_cursor"        // an invalid cursor
	DetailFilter   = "evt_filter"        // see ParseFilter
	DetailName     = "evt_name"          // of a subscription
	DetailHops     = "evt_hops"          // more than profiles.MaxHops
	DetailSlow     = "evt_slow_consumer" // the next events are no longer available
	DetailBound    = "evt_bound"         // too many subscriptions, or names of them
	DetailPending  = "evt_pending"       // too many octets wait to be stored
	DetailHeld     = "evt_held"          // an event before it on the stream was refused for now
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "events: " + fmt.Sprintf(format, args...)}
}
