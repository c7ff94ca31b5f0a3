package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/transport"
)

// decoder fills a Config from YAML nodes. Keys come from the yaml tags: each field has a
// key here, in the environment and in the test of the documentation.
type decoder struct {
	problems
	values problems // of well-formed values, reported with those that check finds
	file   string
	named  map[*yaml.Node]string // nodes that came from an environment variable
	from   map[*yaml.Node]string // files of nodes of partners; others are of file
}

// maxDepth is deeper than any key; aliases that contain themselves end here.
const maxDepth = 8

// value reads a node into v. The caller has said where key is set.
func (d *decoder) value(key string, n *yaml.Node, v reflect.Value, depth int) {
	if depth > maxDepth {
		d.add(key, "nested too deeply")
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch v.Interface().(type) {
	case Denial:
		if n.Kind == yaml.ScalarNode {
			if s, ok := d.scalar(key, n, "text or a mapping of keys", "!!str"); ok {
				v.Set(reflect.ValueOf(Denial{Identity: List{s}}))
			}
			return
		}
	case Admin:
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			if s, ok := d.scalar(key, n, "an address or a mapping of keys", "!!str"); ok {
				v.FieldByName("Address").SetString(s)
			}
			return
		}
	case time.Duration:
		if s, ok := d.scalar(key, n, "a duration such as 30s or 5m", "!!str"); ok {
			d.duration(key, s, v)
		}
		return
	case Size:
		if s, ok := d.scalar(key, n, "a size such as 64KiB or 8MiB", "!!str", "!!int"); ok {
			d.size(key, s, v)
		}
		return
	case Date:
		if s, ok := d.scalar(key, n, "a date such as 2027-03-31", "!!str", "!!timestamp"); ok {
			d.date(key, s, v)
		}
		return
	case Address:
		if s, ok := d.scalar(key, n, "an address such as swp+tls://127.0.0.1:7777", "!!str"); ok {
			d.address(key, s, v)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(key, n, v, depth)
	case reflect.Map:
		d.dictionary(key, n, v, depth)
	case reflect.Slice:
		d.list(key, n, v, depth)
	case reflect.String:
		want, tags := "text; put it in quotes", []string{"!!str"}
		if loose(key) {
			tags = append(tags, "!!int", "!!float", "!!bool") // PORT: 8080
		}
		if s, ok := d.scalar(key, n, want, tags...); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		if s, ok := d.scalar(key, n, "true or false", "!!bool"); ok {
			v.SetBool(strings.EqualFold(s, "true"))
		}
	case reflect.Pointer: // distinguishes an absent value from zero
		v.Set(reflect.New(v.Type().Elem()))
		d.value(key, n, v.Elem(), depth)
	case reflect.Int:
		if s, ok := d.scalar(key, n, "a whole number", "!!int"); ok {
			i, err := strconv.ParseInt(s, 0, 32)
			if err != nil {
				d.add(key, "%s is not a number from 0 to %d", s, math.MaxInt32)
				return
			}
			v.SetInt(i)
		}
	default:
		panic("config: no decoder for " + v.Type().String())
	}
}

// loose reports whether the key holds values for a program or a server. They may be
// secret: they are used unchanged, and no error quotes them.
func loose(key string) bool {
	return (strings.HasPrefix(key, "mcp.servers.") || strings.HasPrefix(key, "a2a.workers.") || strings.HasPrefix(key, "a2a.agents.")) &&
		(strings.Contains(key, ".env.") || strings.Contains(key, ".args[") || strings.Contains(key, ".headers."))
}

func (d *decoder) scalar(key string, n *yaml.Node, want string, tags ...string) (string, bool) {
	if n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag()) {
		return n.Value, true
	}
	d.add(key, "%s, want %s", d.describe(key, n), want)
	return "", false
}

func (d *decoder) describe(key string, n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "is a mapping"
	case n.Kind == yaml.SequenceNode:
		return "is a list"
	case n.ShortTag() == "!!null":
		return "is empty"
	case loose(key):
		return "is not text"
	}
	return fmt.Sprintf("is %.64q", n.Value)
}

func (d *decoder) object(key string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind != yaml.MappingNode {
		if n.ShortTag() != "!!null" { // "limits:" with everything below it commented out
			d.add(key, "%s, want a mapping of keys", d.describe(key, n))
		}
		return
	}
	fields := fieldsOf(v.Type())
	for name, child := range d.pairs(key, n) {
		switch i, ok := fields[name]; {
		case ok:
			before := len(d.problems.list)
			d.value(join(key, name), child, v.Field(i), depth+1)
			if len(d.problems.list) == before {
				d.tagged(join(key, name), v.Type().Field(i).Tag, v.Field(i))
			}
		case name == "<<":
			d.addAbout(key, join(key, name), "merging mappings is not supported; write the keys out")
		default:
			about, hint := suggest(key, name, fields)
			d.addAbout(about, join(key, name), "unknown key%s", hint)
		}
	}
}

// tagged checks a text, or each text of a map, by the tags of its field: choice lists the
// possible values, form:"url" is for URLs of HTTP, and empty for none, and form:"store" for the store.
func (d *decoder) tagged(key string, tag reflect.StructTag, v reflect.Value) {
	if v.Kind() == reflect.Map && tag.Get("choice") != "" {
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }) {
			d.tagged(join(key, name.String()), tag, v.MapIndex(name))
		}
		return
	}
	if choice := tag.Get("choice"); choice != "" && !slices.Contains(strings.Split(choice, ","), v.String()) {
		d.values.add(key, "is %.64q, want %s", v.String(), strings.ReplaceAll(choice, ",", ", "))
	}
	switch form := tag.Get("form"); {
	case form == "url" && v.String() != "":
		checkURL(&d.values, key, v.String())
	case form == "store":
		checkStoreValue(&d.values, key, v.String())
	}
}

func (d *decoder) dictionary(key string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind != yaml.MappingNode {
		if n.ShortTag() != "!!null" {
			d.add(key, "%s, want a mapping from names", d.describe(key, n))
		}
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for name, child := range d.pairs(key, n) {
		entry := newEntry(v.Type().Elem())
		d.value(join(key, name), child, entry, depth+1)
		v.SetMapIndex(reflect.ValueOf(name), entry)
	}
}

// newEntry returns an entry of a map, with the defaults of its keys.
func newEntry(t reflect.Type) reflect.Value {
	entry := reflect.New(t).Elem()
	switch e := entry.Addr().Interface().(type) {
	case *MCPServer:
		*e = defaultServer
	case *A2AWorker:
		*e = defaultWorker
	case *A2AAgent:
		*e = defaultAgent
	case *Team:
		*e = defaultTeam
	case *TeamMember:
		*e = defaultMember
	case *RPCBackend:
		*e = defaultBackend
	case *AgentCard:
		*e = defaultCard
	case *Partner:
		*e = defaultPartner
	}
	return entry
}

func (d *decoder) list(key string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind != yaml.SequenceNode {
		if n.ShortTag() == "!!null" {
			v.SetZero()
			return
		}
		if v.Type() == reflect.TypeFor[List]() {
			if s, ok := d.scalar(key, n, "text or a list of texts", "!!str"); ok {
				v.Set(reflect.ValueOf(List{s}))
			}
			return
		}
		if v.Type() == reflect.TypeFor[Denials]() {
			one := make(Denials, 1)
			d.value(key, n, reflect.ValueOf(one).Index(0), depth)
			v.Set(reflect.ValueOf(one))
			return
		}
		d.add(key, "%s, want a list", d.describe(key, n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, child := range n.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		d.origins[at] = d.originOf(child)
		d.value(at, child, list.Index(i), depth+1)
	}
	v.Set(list)
}

// pairs yields the keys and values of a mapping, and records the line of each key. A
// repeated key, and a key that is not text, are problems.
func (d *decoder) pairs(key string, n *yaml.Node) func(func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		first := make(map[string]int)
		for i := 0; i+1 < len(n.Content); i += 2 {
			label, child := n.Content[i], n.Content[i+1]
			if label.Kind == yaml.AliasNode {
				label = label.Alias
			}
			name := label.Value
			if label.Kind != yaml.ScalarNode {
				d.addAt(key, n.Content[i], "a key %s, want text", d.describe(key, label))
				continue
			}
			if line, again := first[name]; again {
				full := join(key, name)
				d.addAt(full, n.Content[i], "set twice, first in line %d; keep one", line)
				continue
			}
			first[name] = n.Content[i].Line
			if full := join(key, name); d.named[child] != "" {
				d.origins[full] = d.originOf(child)
			} else {
				d.origins[full] = d.originOf(n.Content[i])
			}
			if !yield(name, child) {
				return
			}
		}
	}
}

// addAt reports a problem at a node, not at its key.
func (d *decoder) addAt(key string, n *yaml.Node, format string, args ...any) {
	d.addFrom(d.originOf(n), key, format, args...)
}

func (d *decoder) originOf(n *yaml.Node) origin {
	if name := d.named[n]; name != "" {
		return origin{where: "environment " + name}
	}
	part := d.from[n]
	file := cmp.Or(part, d.file)
	if n.Line == 0 {
		return origin{where: file, part: part}
	}
	return origin{where: placeAt(file, n.Line), line: n.Line, part: part}
}

func placeAt(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }

func (d *decoder) duration(key, s string, v reflect.Value) {
	dur, err := time.ParseDuration(s)
	if err != nil || dur < 0 {
		d.add(key, "%.64q is not a duration, want one such as 30s or 5m", s)
		return
	}
	v.SetInt(int64(dur))
}

func (d *decoder) size(key, s string, v reflect.Value) {
	size, err := ParseSize(s)
	if err != nil {
		d.add(key, "%.64q is not a size, want one such as 64KiB or 8MiB", s)
		return
	}
	v.SetInt(int64(size))
}

func (d *decoder) address(key, s string, v reflect.Value) {
	a, err := transport.ParseAddr(s)
	if err != nil {
		d.add(key, "%s", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "transport: address "), "transport: ", ""))
		return
	}
	v.Set(reflect.ValueOf(Address{a}))
}

func (d *decoder) date(key, s string, v reflect.Value) {
	date, err := ParseDate(s)
	if err != nil {
		d.add(key, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(date))
}

// fieldsOf returns the keys of a struct and the index of each field. The map must not be changed.
func fieldsOf(t reflect.Type) map[string]int {
	if fields, ok := tables()[t]; ok {
		return fields
	}
	return readFields(t)
}

// tables has the keys of each struct of Config: a reload looks up every key several times.
var tables = sync.OnceValue(func() map[reflect.Type]map[string]int {
	all := make(map[reflect.Type]map[string]int)
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Map, reflect.Slice, reflect.Pointer:
			add(t.Elem())
		case reflect.Struct:
			if all[t] != nil {
				return
			}
			all[t] = readFields(t)
			for _, i := range all[t] {
				add(t.Field(i).Type)
			}
		}
	}
	add(reflect.TypeFor[Config]())
	return all
})

func readFields(t reflect.Type) map[string]int {
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" && name != "-" {
			fields[name] = i
		}
	}
	return fields
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// suggest names the known key one typing error away from name, or the one that is compared
// with a hint of that name, or all keys. about is the key that is meant, or else the unknown one.
func suggest(key, name string, fields map[string]int) (about, hint string) {
	if name == "mcpServers" && (key == "" || key == "mcp") { // as the files of MCP clients have it
		return "mcp.servers", "; swpd has the same entries below mcp.servers"
	}
	names := slices.Sorted(maps.Keys(fields))
	likely := policyhint.Item(name)
	if !slices.Contains(names, likely) {
		likely = plain.Meant(name, names)
	}
	if likely == "" {
		return join(key, name), "; known here: " + strings.Join(names, ", ")
	}
	return join(key, likely), "; did you mean " + likely + "?"
}
