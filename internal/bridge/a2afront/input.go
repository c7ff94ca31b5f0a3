package a2afront

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// kind is how a query parameter stands in JSON.
type kind int

const (
	text kind = iota
	number
	boolean
)

// parameter is a query parameter that becomes a member of the input.
type parameter struct {
	name   string
	kind   kind
	member string // if it has another name
}

// parameters lists the query parameters of each operation (mcp-a2a mapping §4). Others are
// ignored.
var parameters = map[string][]parameter{
	a2abinding.GetTask: {{name: "historyLength", kind: number}},
	a2abinding.ListTasks: {
		{name: "contextId"}, {name: "status"}, {name: "pageSize", kind: number}, {name: "pageToken"},
		{name: "historyLength", kind: number}, {name: "statusTimestampAfter"}, {name: "includeArtifacts", kind: boolean},
		{name: "lastUpdatedAfter", member: "statusTimestampAfter"}, // as clients in Go spell it
	},
	a2abinding.ListPushConfigs: {{name: "pageSize", kind: number}, {name: "pageToken"}},
}

// integer is what can stand as a number in JSON as it stands in the query.
var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)

// inputOf returns the Task.input for a request: the octets of the body, or an empty object,
// with the values from path and query inserted before the first member (R2). If the body
// has such a member with another value, the request is refused.
func inputOf(o a2abinding.Operation, at *place, r *http.Request, body []byte) ([]byte, error) {
	members, err := queryMembers(o, r)
	if err != nil {
		return nil, err
	}
	switch o.Name {
	case a2abinding.GetTask, a2abinding.CancelTask, a2abinding.SubscribeToTask:
		members = append(members, quoted("id", at.id))
	case a2abinding.CreatePushConfig, a2abinding.ListPushConfigs:
		members = append(members, quoted("taskId", at.id))
	case a2abinding.GetPushConfig, a2abinding.DeletePushConfig:
		members = append(members, quoted("taskId", at.id), quoted("id", at.config))
	}
	if at.tenant != "" {
		members = append(members, quoted("tenant", at.tenant))
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return insert(body, members)
}

// member is a name and a value, as JSON.
type member struct {
	name  string
	value []byte
}

func quoted(name, value string) member {
	octets, err := json.Marshal(value)
	if err != nil { // a string can always be written
		octets = []byte(`""`)
	}
	return member{name, octets}
}

// queryMembers returns what the query of a request says, in the order of the table.
func queryMembers(o a2abinding.Operation, r *http.Request) ([]member, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !utf8.ValidString(r.URL.RawQuery) {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "the query is malformed")
	}
	var members []member
	for _, p := range parameters[o.Name] {
		values, name := query[p.name], p.name
		if p.member != "" {
			name = p.member
		}
		switch {
		case len(values) == 0:
			continue
		case len(values) > 1 || p.member != "" && query.Has(p.member):
			return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "query parameter "+name+" is there more than once")
		}
		switch value := values[0]; {
		case p.kind == text:
			members = append(members, quoted(name, value))
		case p.kind == number && integer.MatchString(value), p.kind == boolean && (value == "true" || value == "false"):
			members = append(members, member{name, []byte(value)})
		default:
			return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "query parameter "+name+" is malformed")
		}
	}
	return members, nil
}

// insert puts members in front of those that an object has.
func insert(object []byte, members []member) ([]byte, error) {
	if !isValue(object) {
		return nil, a2abinding.Fail(a2abinding.CodeParse, "the body is not JSON")
	}
	start := len(object) - len(bytes.TrimLeft(object, " \t\r\n"))
	if object[start] != '{' {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "the body is not an object")
	}
	var add []byte
	empty := bytes.TrimLeft(object[start+1:], " \t\r\n")[0] == '}'
	for _, m := range members {
		there, err := has(object, m)
		if err != nil {
			return nil, err
		}
		if there {
			continue
		}
		if len(add) > 0 {
			add = append(add, ',')
		}
		add = append(append(append(append(add, '"'), m.name...), `":`...), m.value...)
	}
	if len(add) == 0 {
		return object, nil
	}
	if !empty {
		add = append(add, ',')
	}
	out := make([]byte, 0, len(object)+len(add))
	out = append(append(out, object[:start+1]...), add...)
	return append(out, object[start+1:]...), nil
}

// has reports whether an object has a member of that name and value. Another value,
// or a name that some decoders take for the same, is refused: the effective one
// would depend on the decoder.
func has(object []byte, m member) (there bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return false, a2abinding.Fail(a2abinding.CodeParse, "the body is not JSON")
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return false, a2abinding.Fail(a2abinding.CodeParse, "the body is not JSON")
		}
		text, _ := name.(string)
		if !strings.EqualFold(strings.ReplaceAll(text, "_", ""), m.name) {
			continue
		}
		if there || text != m.name || !equal(value, m.value) {
			return false, a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+m.name+" says something else than the path")
		}
		there = true
	}
	return there, nil
}

// equal reports whether two values are the same string.
func equal(a, b []byte) bool {
	var x, y string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}
