package obs

import (
	"github.com/slimwire/swp/profiles"
)

// Codes of OBS_ERR, in addition to the names of canonical codes such as SECURITY_POLICY.
// They are also the details of the errors.
const (
	CodeTraceparent = "INVALID_TRACEPARENT"
	CodeTracestate  = "INVALID_TRACESTATE"
)

// Bounds of a trace context and of its ids, in octets. W3C requires at least 512 for a
// tracestate.
const (
	MaxTraceparent = 256 // for future versions; version 00 has 55
	MaxTracestate  = 4096
	MaxID          = 1024
)

// Check returns an error for an invalid trace context. traceparent must follow W3C Trace
// Context, without trimming. tracestate must be printable ASCII of at most MaxTracestate
// octets, and needs a traceparent; its members are not parsed. The zero Trace is valid. The
// error is an *profiles.Error.
func Check(t profiles.Trace) error {
	switch {
	case t.Parent == "" && t.State != "":
		return refuse(CodeTraceparent, "obs: tracestate without traceparent")
	case t.Parent != "" && !isTraceparent(t.Parent):
		return refuse(CodeTraceparent, "obs: not a traceparent")
	case len(t.State) > MaxTracestate:
		return &profiles.Error{
			Code: profiles.InvalidProfilePayload, Detail: CodeTracestate, Text: "obs: tracestate of more than 4096 octets",
		}
	}
	for i := range len(t.State) {
		if c := t.State[i]; c != '\t' && (c < ' ' || c > '~') {
			return refuse(CodeTracestate, "obs: tracestate with octets that are not printable ASCII")
		}
	}
	return nil
}

func refuse(detail, text string) error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: text}
}

// The parts of a traceparent, and where they begin and end.
const (
	versionEnd = 2
	traceFrom  = versionEnd + 1
	traceEnd   = traceFrom + 32
	parentFrom = traceEnd + 1
	parentEnd  = parentFrom + 16
	flagsFrom  = parentEnd + 1
	flagsEnd   = flagsFrom + 2
)

// isTraceparent reports whether s is version "-" trace-id "-" parent-id "-" flags. Versions
// other than 00 may continue after another "-".
func isTraceparent(s string) bool {
	if len(s) < flagsEnd || len(s) > MaxTraceparent {
		return false
	}
	version, rest := s[:versionEnd], s[flagsEnd:]
	switch {
	case version == "ff", version == "00" && rest != "", rest != "" && rest[0] != '-':
		return false
	case s[versionEnd] != '-', s[traceEnd] != '-', s[parentEnd] != '-':
		return false
	}
	for i := range len(rest) {
		if rest[i] <= ' ' || rest[i] > '~' {
			return false // elsewhere it becomes an HTTP header
		}
	}
	return isHex(version) && isHex(s[flagsFrom:flagsEnd]) && isID(s[traceFrom:traceEnd]) && isID(s[parentFrom:parentEnd])
}

// isID reports whether s is lower-case hex and not all zero.
func isID(s string) bool {
	zero := true
	for i := range len(s) {
		zero = zero && s[i] == '0'
	}
	return !zero && isHex(s)
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
