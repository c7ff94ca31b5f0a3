package events

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// Bounds of a filter.
const (
	MaxFilter = 4096 // octets
	MaxTerms  = 64
)

// Filter selects the events of a subscription. The zero value selects all.
//
//	filter := "" | term *("," term)
//	term   := "type:" event_type | "severity:" severity | "task:" hex | "rpc:" hex
//
// An event matches if, for each key that occurs, one of its values fits. Types
// are compared octet by octet: no character stands for others, and a type with
// a comma in it cannot be named. A severity means exactly that one. White
// space is not skipped, except around a severity.
type Filter struct {
	types, tasks, rpcs [][]byte
	severities         uint8 // a bit each
}

// ParseFilter reads a filter, which it does not alias. The error is an
// *profiles.Error of InvalidProfilePayload whose answer is an EVT_ERR of
// INVALID_FILTER.
func ParseFilter(text string) (*Filter, error) {
	f := new(Filter)
	switch {
	case text == "":
		return f, nil
	case len(text) > MaxFilter:
		return nil, badFilter("%d octets, want at most %d", len(text), MaxFilter)
	case strings.Count(text, ",") >= MaxTerms:
		return nil, badFilter("more than %d terms", MaxTerms)
	}
	for term := range strings.SplitSeq(text, ",") {
		if err := f.add(term); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Types returns the event_types that the filter names, in its order.
func (f *Filter) Types() []string {
	types := make([]string, len(f.types))
	for i, t := range f.types {
		types[i] = string(t)
	}
	return types
}

func (f *Filter) add(term string) error {
	key, value, ok := strings.Cut(term, ":")
	if !ok || value == "" {
		return badFilter("term %.64q, want key:value", term)
	}
	switch key {
	case "type":
		f.types = append(f.types, []byte(value))
		return nil
	case "severity":
		level, ok := ParseSeverity([]byte(value))
		if !ok {
			return badFilter("severity %.32q, want debug, info, warn or error", value)
		}
		f.severities |= 1 << level
		return nil
	case "task", "rpc":
		id, err := hex.DecodeString(value)
		if err != nil {
			return badFilter("%s %.64q, want hexadecimal", key, value)
		}
		if key == "task" {
			f.tasks = append(f.tasks, id)
		} else {
			f.rpcs = append(f.rpcs, id)
		}
		return nil
	}
	return badFilter("key %.32q, want type, severity, task or rpc", key)
}

func badFilter(format string, args ...any) error {
	err := invalid(DetailFilter, "filter: "+format, args...)
	err.Answer = refusals.Answer(CodeInvalidFilter, err.Text, false)
	return err
}

// Match reports whether a validated record matches.
func (f *Filter) Match(r *Record) bool {
	return (f.severities == 0 || f.severities&(1<<r.level) != 0) &&
		oneOf(f.types, r.EventType) && oneOf(f.tasks, r.TaskID) && oneOf(f.rpcs, r.RPCID)
}

// there returns the type of a record of a partner as the filter names it, and whether the
// record matches: a type loses a name at each partner that the filter leads over.
func (f *Filter) there(r *Record) (name []byte, ok bool) {
	if name = r.EventType; f.Match(r) {
		return name, true
	}
	for _, t := range f.types {
		if rest := len(t) - len(name); rest > 1 && t[rest-1] == '/' && string(t[rest:]) == string(name) {
			led := *f
			led.types = nil
			return t, led.Match(r)
		}
	}
	return nil, false
}

// oneOf reports whether v is among the values; it is true without values.
func oneOf(values [][]byte, v []byte) bool {
	for _, want := range values {
		if bytes.Equal(want, v) {
			return true
		}
	}
	return len(values) == 0
}
