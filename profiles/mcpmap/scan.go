package mcpmap

import (
	"bytes"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles"
)

// maxDepth bounds the nesting of objects and arrays, including the message itself (ABUSE
// §1: MCP depth 512, no limit on the length of arrays).
const maxDepth = 512

// Details of ERR_INVALID_MCP_PAYLOAD, in the order in which a message is
// checked (SWP profiles §1: UTF-8, JSON, shape).
const (
	detailUTF8  = "mcp_utf8"
	detailJSON  = "mcp_json"
	detailDepth = "mcp_depth"
	detailShape = "mcp_shape"
)

// span is a range of octets. The zero span means absent: no value of a message starts at
// offset 0, where its brace is.
type span struct{ from, to int }

func (s span) present() bool { return s.to > 0 }

// Scan reads the outline of one JSON-RPC message. It checks that payload is UTF-8 and
// exactly one JSON object, and records the positions of the members that this package uses.
// It decodes no values, allocates nothing unless a name has escapes, and takes linear time.
//
// Names are case-sensitive. A repeated member of the outline (jsonrpc, id, method, params,
// result, error), in any spelling, is refused, and so is one that differs only in case:
// parsers disagree about such members, and access rules could see another message than the
// server. Inside params the last of repeated members counts, as in most parsers; only the
// name of a tool and the ids of tasks must occur once (see Check).
//
// The error is an *Error of InvalidMCPPayload. After a fault of the form the outline is
// complete and can be used to build an error answer; after other faults it is empty. m
// refers to payload until the next Scan.
func (m *Message) Scan(payload []byte) error {
	*m = Message{}
	if !utf8.Valid(payload) {
		return invalid(detailUTF8, "payload is not UTF-8")
	}
	s := scanner{b: payload}
	s.space()
	start := s.peek()
	if start == '{' {
		s.object(inMessage, 1)
	} else {
		s.skip(0)
	}
	s.space()
	switch {
	case s.deep:
		return invalid(detailDepth, "payload nests deeper than 512")
	case s.bad || s.i < len(s.b):
		return invalid(detailJSON, "payload is not one JSON value")
	case start == '[':
		return invalid(detailShape, "a batch is not a message")
	case start != '{':
		return invalid(detailShape, "payload is not a JSON object")
	}
	*m = s.m
	m.octets = payload
	if s.fault != "" {
		return invalid(detailShape, s.fault)
	}
	return nil
}

func invalid(detail, text string) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidMCPPayload, Detail: detail, Text: text}
}

// scanner walks over JSON text that is valid UTF-8. After the first syntax error it stops.
type scanner struct {
	b     []byte
	i     int
	bad   bool   // syntax error
	deep  bool   // the error is that the depth limit was exceeded
	fault string // first fault of the form
	m     Message
	name  [48]byte // a member name with its escapes undone
}

// The objects that the scanner looks into; all others are skipped.
type place uint8

const (
	inMessage place = iota
	inParams
	inMeta
	inFilter // params.notifications of a subscriptions/listen
	inResult
	inTask // result.task
)

func (s *scanner) fail() { s.bad = true }

func (s *scanner) shape(fault string) {
	if s.fault == "" {
		s.fault = fault
	}
}

// peek returns the next octet, or 0 at the end; no token starts with 0.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// object walks over the object that begins here, and calls member for each member, with the
// scanner in front of the value.
func (s *scanner) object(in place, depth int) {
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return
	}
	for {
		name, escaped := s.key()
		if s.bad {
			return
		}
		if escaped {
			name = s.unescape(name)
		}
		s.space()
		s.member(in, name, depth)
		s.space()
		switch {
		case s.bad:
			return
		case s.peek() == ',':
			s.i++
			s.space()
		case s.peek() == '}':
			s.i++
			return
		default:
			s.fail()
			return
		}
	}
}

// insideOf returns the place of the object that a member has, and the name of the member; nil
// if the scanner does not look into it.
func insideOf(in place, name []byte) (place, []byte) {
	for i := range objects {
		if o := &objects[i]; o.in == in && string(name) == string(o.name) {
			return o.place, o.name
		}
	}
	return 0, nil
}

var objects = [...]struct {
	in    place
	name  []byte
	place place
}{
	{inMessage, []byte("params"), inParams}, {inMessage, []byte("result"), inResult},
	{inParams, []byte("_meta"), inMeta}, {inParams, filterMember, inFilter}, {inResult, []byte("task"), inTask},
}

// member walks over one value and records it if this place uses it.
func (s *scanner) member(in place, name []byte, depth int) {
	from, first := s.i, s.peek()
	var inside place
	var known []byte
	if first == '{' {
		inside, known = insideOf(in, name)
	}
	switch {
	case known == nil:
		s.skip(depth)
	case inside == inMeta:
		// A second _meta replaces the first one, whose values become void.
		s.m.progress, s.m.subscription, s.m.version = span{}, span{}, span{}
		fallthrough
	default:
		s.m.created = s.m.created || inside == inTask
		s.object(inside, depth+1)
		name = known // escaped names inside have used the same room
	}
	if s.bad {
		return
	}
	value := span{from, s.i}
	switch in {
	case inMessage:
		s.topMember(name, first, value)
	case inParams:
		switch string(name) {
		case "_meta":
			if first != '{' {
				s.m.progress, s.m.subscription, s.m.version = span{}, span{}, span{}
			}
		case "requestId":
			s.m.request = token(first, value)
		case "progressToken":
			s.m.progressed = token(first, value)
		default:
			s.toolName(name, first, value)
			s.filter(name, value)
			s.task(name, first, value)
		}
	case inFilter:
		s.filtered(name, first, value)
	case inResult, inTask:
		s.task(name, first, value)
	case inMeta:
		switch string(name) {
		case "progressToken":
			s.m.progress = token(first, value)
		case MetaSubscriptionID:
			s.m.subscription = token(first, value)
		case MetaProtocolVersion:
			s.m.version = value
		}
	}
}

func (s *scanner) topMember(name []byte, first byte, value span) {
	var at *span
	switch string(name) {
	case "jsonrpc":
		at = &s.m.jsonrpc
	case "id":
		at = &s.m.id
		if first == '{' || first == '[' || first == 't' || first == 'f' {
			s.shape("id is neither a string nor a number")
			return // it cannot identify a request
		}
	case "method":
		at = &s.m.method
		if first != '"' {
			s.shape("method is not a string")
		}
	case "params":
		at = &s.m.params
	case "result":
		at = &s.m.result
	case "error":
		at = &s.m.err
	default:
		for _, known := range outline {
			if bytes.EqualFold(name, known) {
				s.shape("a member differs from a known one in case only")
			}
		}
		return
	}
	if at.present() {
		s.shape("a member is repeated")
		return
	}
	*at = value
}

// outline are the members of the outline of a message.
var outline = [][]byte{[]byte("jsonrpc"), []byte("id"), []byte("method"), []byte("params"), []byte("result"), []byte("error")}

var nameMember = []byte("name")

// toolName records the member of params that would name a tool.
func (s *scanner) toolName(name []byte, first byte, value span) {
	if !spells(name, nameMember) {
		return
	}
	if s.m.tool.present() || first != '"' || string(name) != "name" {
		s.m.toolFault = true
	}
	s.m.tool = value
}

var (
	filterMember  = []byte("notifications")
	taskIDsMember = []byte("taskIds")
	taskIDMember  = []byte("taskId")
)

// spells reports whether a name is a member in any case. The first letters of the members have no
// other form in Unicode, so that most names need no comparison: the comparisons for each member of
// params took as long as the rest of the scan.
func spells(name, member []byte) bool {
	return len(name) > 0 && name[0]|0x20 == member[0] && bytes.EqualFold(name, member)
}

// filter records the member of params that has the filter of a subscriptions/listen.
func (s *scanner) filter(name []byte, value span) {
	if !spells(name, filterMember) {
		return
	}
	if s.m.filter.present() || string(name) != "notifications" {
		s.m.listedFault = true
	}
	s.m.filter = value
}

// filtered records the member of a filter that lists tasks.
func (s *scanner) filtered(name []byte, first byte, value span) {
	if !spells(name, taskIDsMember) {
		return
	}
	if s.m.listed.present() || first != '[' && first != 'n' || string(name) != "taskIds" {
		s.m.listedFault = true
	}
	s.m.listed = value
}

// task records the members of params and of results that are about a task.
func (s *scanner) task(name []byte, first byte, value span) {
	switch string(name) {
	case "status":
		s.m.status = value
	case "resultType":
		s.m.resultType = value
	case "ttlMs", "ttl":
		s.m.ttl = value
	default:
		if !spells(name, taskIDMember) {
			return
		}
		if s.m.task.present() || first != '"' || string(name) != "taskId" {
			s.m.taskFault = true
		}
		s.m.task = value
	}
}

// token returns a value that can identify a request, and the zero span for any other.
func token(first byte, value span) span {
	if first == '"' || first == '-' || first >= '0' && first <= '9' {
		return value
	}
	return span{}
}

// key walks over a member name and its colon.
func (s *scanner) key() (name []byte, escaped bool) {
	if s.peek() != '"' {
		s.fail()
		return nil, false
	}
	from := s.i + 1
	escaped = s.text()
	if s.bad {
		return nil, false
	}
	name = s.b[from : s.i-1]
	s.space()
	if s.peek() != ':' {
		s.fail()
		return nil, false
	}
	s.i++
	return name, escaped
}

// unescape returns an unescaped name, or nil if it is longer than every name in use.
func (s *scanner) unescape(name []byte) []byte {
	if len(name) > 6*len(s.name) {
		return nil
	}
	out, _ := appendUnescaped(s.name[:0], name)
	return out
}

// text walks over the string that begins here.
func (s *scanner) text() (escaped bool) {
	for i := s.i + 1; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return escaped
		case c < 0x20:
			s.fail()
			return false
		case c == '\\':
			escaped = true
			i++
			if i >= len(s.b) {
				s.fail()
				return false
			}
			switch s.b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(s.b[i+1:]); !ok {
					s.fail()
					return false
				}
				i += 4
			default:
				s.fail()
				return false
			}
		}
	}
	s.fail()
	return false
}

// number walks over a number of any length.
func (s *scanner) number() {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.i++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		s.digits()
	}
}

func (s *scanner) digits() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	if s.i == from {
		s.fail()
	}
}

func (s *scanner) literal(word string) {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		s.fail()
		return
	}
	s.i += len(word)
}

// skip walks over the next value, inside depth containers. It stores one bit per container,
// so that deeply nested brackets use neither stack nor heap.
func (s *scanner) skip(depth int) {
	var object [maxDepth/64 + 1]uint64
	outside := depth
	for {
		switch c := s.peek(); c {
		case '{', '[':
			if depth++; depth > maxDepth {
				s.deep = true
				s.fail()
				return
			}
			s.i++
			s.space()
			if c == '{' {
				object[depth/64] |= 1 << (depth % 64)
			} else {
				object[depth/64] &^= 1 << (depth % 64)
			}
			if s.peek() == c+2 { // '}' and ']' are their openers plus two
				break // an empty container is closed below
			}
			if c == '{' {
				s.key()
				s.space()
			}
			if s.bad {
				return
			}
			continue
		case '"':
			s.text()
		case 't':
			s.literal("true")
		case 'f':
			s.literal("false")
		case 'n':
			s.literal("null")
		default:
			s.number()
		}
		// A value has ended, or an empty container ends here.
		for {
			if s.bad || depth == outside {
				return
			}
			s.space()
			inObject := object[depth/64]>>(depth%64)&1 == 1
			c := s.peek()
			if c == ']' && !inObject || c == '}' && inObject {
				s.i++
				depth--
				continue
			}
			if c != ',' {
				s.fail()
				return
			}
			s.i++
			s.space()
			if inObject {
				s.key()
				s.space()
			}
			if s.bad {
				return
			}
			break
		}
	}
}
