package events

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// Bounds of a filter.
const (
	MaxFilter = 4096 // octets
	MaxTerms  = 64
)

// Filter selects the events of a subscription. The zero value selects all.
//
//	filter := "" | term *("," term)
//	term   := "type:" event_type ["*"] | "severity:" severity ["+"] | "task:" hex | "rpc:" hex
//
// An event matches if, for each key that occurs, one of its values fits. Types
// are compared octet by octet. A "*" at the end stands for any octets, none included; a type
// that has one there, or a comma in it, cannot be named. A severity means exactly that one,
// with "+" that one and every higher one. White space is not skipped, except around a
// severity.
type Filter struct {
	types       []typeTerm
	tasks, rpcs [][]byte
	severities  uint8 // a bit each
}

// typeTerm is a type of a filter, or with more the beginning of types.
type typeTerm struct {
	text []byte
	more bool
}

func (t *typeTerm) match(name []byte) bool {
	if t.more {
		return bytes.HasPrefix(name, t.text)
	}
	return bytes.Equal(name, t.text)
}

// path returns the shortest path of partners, with a slash at its end, behind which a type is
// the one of the filter.
func (t *typeTerm) path(name []byte) (path []byte, ok bool) {
	for i, c := range t.text {
		behind := typeTerm{t.text[i+1:], t.more}
		if c == '/' && i > 0 && behind.match(name) {
			return t.text[:i+1], true
		}
	}
	return nil, false
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

// Types returns the event_types that the filter names, in its order and as it spells them.
func (f *Filter) Types() []string {
	types := make([]string, len(f.types))
	for i, t := range f.types {
		types[i] = string(t.text)
		if t.more {
			types[i] += "*"
		}
	}
	return types
}

// asked is Types, or a star for all types.
func (f *Filter) asked() []string {
	if len(f.types) == 0 {
		return []string{"*"}
	}
	return f.Types()
}

// may reports whether an identity may use an operation on a type. For a type of a filter
// that has a star at its end it is enough that the rules allow one such type: they are asked
// again about each event.
func may(a profiles.Access, identity, operation, eventType string) bool {
	beginning, more := strings.CutSuffix(eventType, "*")
	return operation == "subscribe" && more && profiles.WouldSome(a, identity, Name, operation, beginning) ||
		a.Allowed(identity, Name, operation, eventType)
}

// Path returns the partners that a type of the filter leads over to an event_type, such as
// b/c; empty for a type of the endpoint itself. ok is false if no type of the filter fits.
func (f *Filter) Path(eventType string) (path string, ok bool) {
	name := []byte(eventType)
	for i := range f.types {
		if f.types[i].match(name) {
			return "", true
		}
	}
	for i := range f.types {
		if p, led := f.types[i].path(name); led && (!ok || len(p)-1 < len(path)) {
			path, ok = string(p[:len(p)-1]), true
		}
	}
	return path, ok
}

func (f *Filter) add(term string) error {
	key, value, ok := strings.Cut(term, ":")
	if !ok || value == "" {
		return badFilter("term %.64q, want key:value", term)
	}
	switch key {
	case "type":
		begin, more := strings.CutSuffix(value, "*")
		f.types = append(f.types, typeTerm{[]byte(begin), more})
		return nil
	case "severity":
		least, above := strings.CutSuffix(strings.TrimSpace(value), "+")
		level, ok := ParseSeverity([]byte(least))
		if !ok {
			return badFilter("severity %.32q, want debug, info, warn or error, with + for it and higher ones", value)
		}
		for f.severities |= 1 << level; above && level < Error; f.severities |= 1 << level {
			level++
		}
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
		f.matchType(r.EventType) && oneOf(f.tasks, r.TaskID) && oneOf(f.rpcs, r.RPCID)
}

func (f *Filter) matchType(name []byte) bool {
	for i := range f.types {
		if f.types[i].match(name) {
			return true
		}
	}
	return len(f.types) == 0
}

// there returns the type of a record of a partner as the filter names it, and whether the
// record matches: a type loses a name at each partner that the filter leads over.
func (f *Filter) there(r *Record) (name []byte, ok bool) {
	if name = r.EventType; f.Match(r) {
		return name, true
	}
	for i := range f.types {
		if path, led := f.types[i].path(name); led {
			rest := *f
			rest.types = nil
			return slices.Concat(path, name), rest.Match(r)
		}
	}
	return nil, false
}

// key is equal for two filters if they have the same terms.
func (f *Filter) key() string {
	terms := make([]string, 0, 1+len(f.types)+len(f.tasks)+len(f.rpcs))
	terms = append(terms, string([]byte{f.severities}))
	for i, name := range f.Types() {
		kind := "="
		if f.types[i].more {
			kind = "*"
		}
		terms = append(terms, kind+name)
	}
	for _, id := range f.tasks {
		terms = append(terms, "t"+hex.EncodeToString(id))
	}
	for _, id := range f.rpcs {
		terms = append(terms, "r"+hex.EncodeToString(id))
	}
	slices.Sort(terms[1:])
	return strings.Join(slices.Compact(terms), ",")
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
