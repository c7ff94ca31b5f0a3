package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/slimwire/swp/internal/effort"
)

var update = flag.Bool("update", false, "write the JSON Schemas")

// row is what docs/configuration.md says of a key.
type row struct{ initial, meaning string }

// documentedKeys are the rows of the table of keys.
func documentedKeys(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Keys\n")
	table, _, _ = strings.Cut(table, "\n## ")
	link := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	rows := make(map[string]row)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "\x00")), " | ")
		if len(cells) != 3 || !strings.HasPrefix(cells[0], "| `") {
			continue
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(link.ReplaceAllString(cells[i], "$1"), "\x00", "|")
		}
		rows[strings.Trim(cells[0], "|` ")] = row{initial: cells[1], meaning: strings.TrimSuffix(cells[2], " |")}
	}
	return rows
}

// object is a JSON object.
type object = map[string]any

// schemas makes JSON Schemas of the types that the decoder fills.
type schemas struct {
	rows map[string]row
	errs []string
}

// Texts that the decoder reads, as far as a regular expression can say it. The schemes of
// addresses have no case.
const (
	durationPattern = `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	sizePattern     = `^([0-9]+|\s*[0-9]+\s*(KiB|MiB|GiB|TiB))$`
	datePattern     = `^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.,]+(Z|[+-][0-9:]+))?$`
	addressPattern  = `^[sS][wW][pP]\+([tT][lL][sS]|[qQ][uU][iI][cC]|[tT][cC][pP])://[^/?#]+/?$`
	storePattern    = `^(embedded|memory|postgres(ql)?://.*)$`
	urlPattern      = `^([hH][tT][tT][pP][sS]?://.+)?$`
)

// of returns the schema of a key whose value has a type, tags and a default.
func (s *schemas) of(key string, t reflect.Type, tag reflect.StructTag, initial reflect.Value) object {
	o := s.shape(key, t, tag, initial)
	r, documented := s.rows[key]
	if !documented {
		return o
	}
	switch r.initial {
	case "none", "required":
		o["description"] = fmt.Sprintf("%s. %s.", r.meaning, map[string]string{"none": "Default: none", "required": "Required"}[r.initial])
	default:
		o["description"] = fmt.Sprintf("%s. Default: %s.", r.meaning, r.initial)
	}
	if value := plainValue(initial); value != nil {
		o["default"] = value
		if !sameDefault(initial, r.initial) {
			s.errs = append(s.errs, fmt.Sprintf("the default of %s is %v, docs/configuration.md has %s", key, value, r.initial))
		}
	}
	return o
}

func (s *schemas) shape(key string, t reflect.Type, tag reflect.StructTag, initial reflect.Value) object {
	text := func(pattern string) object { return object{"type": "string", "pattern": pattern} }
	switch t {
	case reflect.TypeFor[time.Duration]():
		return text(durationPattern)
	case reflect.TypeFor[Size]():
		return object{"type": []string{"string", "integer"}, "pattern": sizePattern, "minimum": 0, "maximum": maxSize}
	case reflect.TypeFor[Date]():
		return object{"type": "string", "pattern": datePattern, "anyOf": []object{{"format": "date"}, {"format": "date-time"}}}
	case reflect.TypeFor[Address]():
		return text(addressPattern)
	case reflect.TypeFor[Admin]():
		o := s.object(key, t, initial)
		o["type"] = []string{"string", "object", "null"}
		return o
	case reflect.TypeFor[Denials]():
		one := object{"anyOf": []object{{"type": "string"}, s.object(key+"[]", t.Elem(), reflect.Zero(t.Elem()))}}
		return object{"anyOf": []object{{"type": "null"}, one, {"type": "array", "items": one}}}
	case reflect.TypeFor[List]():
		return object{"type": []string{"string", "array", "null"}, "items": object{"type": "string"}}
	}
	switch t.Kind() {
	case reflect.Struct:
		o := s.object(key, t, initial)
		o["type"] = []string{"object", "null"}
		return o
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(key+".<name>", t.Elem(), tag, newEntry(t.Elem()))}
	case reflect.Slice:
		element := key + "[]"
		if t.Elem() == reflect.TypeFor[Address]() {
			element = key
		}
		items := s.shape(element, t.Elem(), tag, reflect.Zero(t.Elem()))
		if loose(key + "[0]") {
			items["type"] = []string{"string", "number", "boolean"}
		}
		return object{"type": []string{"array", "null"}, "items": items}
	case reflect.Pointer:
		return s.shape(key, t.Elem(), tag, reflect.Zero(t.Elem()))
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer", "minimum": 0, "maximum": 1<<31 - 1}
	case reflect.String:
		switch choice := tag.Get("choice"); {
		case choice != "":
			return object{"type": "string", "enum": strings.Split(choice, ",")}
		case tag.Get("form") == "store":
			return object{"type": "string", "pattern": storePattern}
		case tag.Get("form") == "url":
			return object{"type": "string", "format": "uri-reference", "pattern": urlPattern}
		case loose(key):
			return object{"type": []string{"string", "number", "boolean"}}
		}
		return object{"type": "string"}
	}
	panic("no schema for " + t.String())
}

// object returns the schema of the keys of a struct.
func (s *schemas) object(key string, t reflect.Type, initial reflect.Value) object {
	properties := make(object)
	for name, i := range fieldsOf(t) {
		properties[name] = s.of(join(key, name), t.Field(i).Type, t.Field(i).Tag, initial.Field(i))
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties}
}

// plainValue returns a default as the configuration writes it; nil if it has no such form.
func plainValue(v reflect.Value) any {
	switch d := v.Interface().(type) {
	case time.Duration:
		if d == 0 {
			return nil
		}
		return d.String()
	case Size:
		if d == 0 {
			return nil
		}
		return d.String()
	case Date, Address:
		return nil
	}
	switch {
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.Kind() == reflect.Int && v.Int() != 0, v.Kind() == reflect.String && v.String() != "":
		return v.Interface()
	}
	return nil
}

// sameDefault reports whether a document has the default of a key. 60s and 1m are the same.
func sameDefault(v reflect.Value, documented string) bool {
	documented = strings.Trim(documented, "`")
	if d, ok := v.Interface().(time.Duration); ok {
		got, err := time.ParseDuration(documented)
		return err == nil && got == d
	}
	return fmt.Sprint(v.Interface()) == documented
}

// madeSchemas returns the expected content of the two files.
func madeSchemas(t *testing.T) map[string][]byte {
	t.Helper()
	s := &schemas{rows: documentedKeys(t)}
	initial := Default()
	initial.Data = "" // depends on the user
	config := s.object("", reflect.TypeFor[Config](), reflect.ValueOf(initial).Elem())
	config["title"] = "configuration of swpd"
	partner := s.object("partners.<name>", reflect.TypeFor[Partner](), newEntry(reflect.TypeFor[Partner]()))
	partner["title"] = "partner of swpd, in " + PartnersDir
	for _, err := range s.errs {
		t.Error(err)
	}
	made := make(map[string][]byte)
	for file, o := range map[string]object{"swpd.schema.json": config, "partner.schema.json": partner} {
		o["$schema"] = "http://json-schema.org/draft-07/schema#"
		o["type"] = []string{"object", "null"}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		if err := enc.Encode(o); err != nil {
			t.Fatal(err)
		}
		made[file] = b.Bytes()
	}
	return made
}

func TestTheSchemasAreThoseOfTheKeys(t *testing.T) {
	embedded := map[string][]byte{"swpd.schema.json": Schema(), "partner.schema.json": PartnerSchema()}
	for file, want := range madeSchemas(t) {
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !bytes.Equal(embedded[file], want) {
			t.Errorf("%s is not that of the keys and of docs/configuration.md; run: go generate ./daemon/config", file)
		}
	}
}

func TestEveryKeyHasADescriptionInTheSchema(t *testing.T) {
	rows := documentedKeys(t)
	for _, key := range keys("", reflect.TypeFor[Config]()) {
		if rows[key].meaning == "" {
			t.Errorf("%s has none", key)
		}
	}
}

// validator returns a validator for one of the schemas.
func validator(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON returns a YAML value as an editor reads it: dates are text.
func asJSON(n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return asJSON(n.Alias)
	case yaml.MappingNode:
		o := make(object)
		for i := 0; i+1 < len(n.Content); i += 2 {
			o[n.Content[i].Value] = asJSON(n.Content[i+1])
		}
		return o
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			list = append(list, asJSON(c))
		}
		return list
	}
	var v any
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool", "!!null":
		if err := n.Decode(&v); err != nil {
			panic(err)
		}
	default:
		v = n.Value
	}
	return v
}

// verdicts returns the errors of the decoder, before it compares several keys, and of the schema.
// ok is false for a text that is not YAML, and for two errors that only the decoder sees: a key
// that is set twice, and the merging of mappings.
func verdicts(t *testing.T, s *jsonschema.Schema, text string) (decoder, schema error, ok bool) {
	t.Helper()
	root, err := document("swpd.yaml", []byte(text), reflect.TypeFor[Config]())
	if err != nil {
		return nil, nil, false
	}
	_, d := decodeKeys("swpd.yaml", []byte(text), nil, nil)
	list := append(slices.Clone(d.problems.list), d.values.list...)
	for _, p := range list {
		decoder = list
		if strings.HasPrefix(p.Text, "set twice") || strings.HasPrefix(p.Text, "merging") {
			return nil, nil, false
		}
	}
	return decoder, s.Validate(asJSON(root)), true
}

// underKey returns a configuration in which a key, as keys writes it, has a value.
func underKey(key, value string) string {
	segments := strings.Split(key, ".")
	for _, segment := range slices.Backward(segments) {
		name, list := strings.CutSuffix(segment, "[]")
		if list {
			value = "[" + value + "]"
		}
		value = "{" + strings.NewReplacer("<name>", "x").Replace(name) + ": " + value + "}"
	}
	return value
}

// A value of every kind under every key: the decoder and the schema refuse the same ones.
func TestTheSchemaAndTheDecoderRefuseTheSameValues(t *testing.T) {
	s := validator(t, Schema())
	values := []string{
		"word", `""`, `"5"`, "5", "0", "1.5", "true", "~", "[]", "[a]", "[5]", "[[a]]", "[~]", "{}", "{unknown: 1}", "{x: word}", "{x: 5}", "{x: [a]}", "{x: ~}",
		"30s", "1h30m", "5 s", `"0"`, "8MiB", "1 KiB", "8MB", `"2027-03-31"`, `"2027-03-31T12:00:00Z"`, "31.3.2027", "2027-02-30", "99999999999",
		"swp+tls://host:1", "[swp+tls://host:1]", "swp+tls://", "http://host/path", "ftp://host", "off", "all", "none", "json", "embedded",
	}
	n := 0
	for _, key := range slices.Concat(keys("", reflect.TypeFor[Config]()), sections(reflect.TypeFor[Config](), "")) {
		for _, value := range values {
			if n++; !effort.Due(n, 7) {
				continue
			}
			text := underKey(key, value)
			d, v, ok := verdicts(t, s, text)
			switch {
			case !ok:
				t.Errorf("%s: not compared", text)
			case (d == nil) != (v == nil):
				t.Errorf("%s\ndecoder: %v\nschema: %v", text, d, v)
			}
		}
	}
	if n < 5000 {
		t.Errorf("only %d can be compared", n)
	}
}

// sections returns the keys that have keys below them.
func sections(t reflect.Type, at string) (list []string) {
	for name, i := range fieldsOf(t) {
		key, below := join(at, name), t.Field(i).Type
		switch {
		case hasKeys(below):
			list = append(list, key)
		case below.Kind() == reflect.Map && hasKeys(below.Elem()):
			list, below, key = append(list, key, key+".<name>"), below.Elem(), key+".<name>"
		case below.Kind() == reflect.Slice && hasKeys(below.Elem()):
			list, below, key = append(list, key, key+"[]"), below.Elem(), key+"[]"
		default:
			continue
		}
		list = append(list, sections(below, key)...)
	}
	return list
}

// The schema has 0 as the least of all numbers. The decoder leaves it to the checks of ranges.
func TestNoKeyHasANegativeNumber(t *testing.T) {
	n := 0
	for _, key := range keys("", reflect.TypeFor[Config]()) {
		_, d := decodeKeys("", []byte(underKey(key, "-1")), nil, nil)
		if len(d.problems.list) > 0 {
			continue // no number
		}
		n++
		var problems Problems
		_, err := parse("", []byte(underKey(key, "-1")), nil, nil)
		at := strings.NewReplacer("<name>", "x", "[]", "[0]").Replace(key)
		if !errors.As(err, &problems) || !slices.ContainsFunc(problems, func(p Problem) bool { return p.Key == at }) {
			t.Errorf("%s: -1: %v", key, err)
		}
	}
	if n < 30 {
		t.Errorf("only %d numbers are found", n)
	}
}

func TestTheSchemaRefusesTheConfigurationsThatTheDecoderRefuses(t *testing.T) {
	s := validator(t, Schema())
	n := 0
	for name, one := range refused {
		d, v, ok := verdicts(t, s, one.text)
		if !ok || d == nil {
			continue
		}
		if n++; v == nil && name != "plaintext elsewhere" { // of a host a pattern cannot say which are this machine
			t.Errorf("%s: %s\nthe schema accepts what the decoder does not: %v", name, one.text, d)
		}
	}
	if n < 15 {
		t.Errorf("only %d were compared", n)
	}
}

// fragments are beginnings of YAML examples in documents without a whole configuration.
var fragments = []string{"scrape_configs:", "    members:", "    - {", "# east.yaml\nimage:", "replicas:"}

// configurations returns the examples of documents, scripts and tests, by where they are, and
// whether they are files of partners.
func configurations(t *testing.T) (list map[string]string, partners map[string]bool) {
	t.Helper()
	list, partners = make(map[string]string), make(map[string]bool)
	fence := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	here := regexp.MustCompile(`(?ms)<<'?YAML'?\n(.*?)^YAML$`)
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2 {
				return fs.SkipDir
			}
			return err
		}
		read := func() string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		switch filepath.Ext(path) {
		case ".md":
			for i, m := range fence.FindAllStringSubmatch(read(), -1) {
				at := fmt.Sprintf("%s, example %d", path, i+1)
				list[at] = m[1]
				partners[at] = strings.HasPrefix(m[1], "# "+PartnersDir+"/")
			}
		case ".txt":
			if !strings.Contains(path, "testdata") {
				return nil
			}
			for _, f := range txtar.Parse([]byte(read())).Files {
				if at := path + " " + f.Name; filepath.Ext(f.Name) == ".yaml" {
					list[at] = string(f.Data)
					partners[at] = strings.Contains(f.Name, PartnersDir)
				}
			}
		case ".sh":
			for i, m := range here.FindAllStringSubmatch(read(), -1) {
				list[fmt.Sprintf("%s, document %d", path, i+1)] = m[1]
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(list, func(_, text string) bool {
		return slices.ContainsFunc(fragments, func(start string) bool { return strings.HasPrefix(text, start) })
	})
	return list, partners
}

func TestTheConfigurationsOfDocumentsAndTestsAreValid(t *testing.T) {
	s, p := validator(t, Schema()), validator(t, PartnerSchema())
	list, partners := configurations(t)
	listen, err := ParseListen("127.0.0.1:7777")
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range []bool{false, true} {
		list[fmt.Sprintf("swpd init, full %v", full)] = string(Template(New{Identity: "spiffe://example.org/edge", Listen: listen, Full: full}))
	}
	n := 0
	for _, at := range slices.Sorted(maps.Keys(list)) {
		text := list[at]
		if partners[at] {
			var root yaml.Node
			if err := yaml.Unmarshal([]byte(text), &root); err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			if err := p.Validate(asJSON(root.Content[0])); err != nil {
				t.Errorf("%s: %v", at, err)
			}
			text = "partners:\n  x:\n    " + strings.ReplaceAll(text, "\n", "\n    ")
		}
		d, v, ok := verdicts(t, s, text)
		tried := strings.Contains(at, "testdata")
		switch {
		case !ok && !tried:
			t.Errorf("%s is not YAML", at)
		case (d == nil) != (v == nil), d != nil && !tried:
			t.Errorf("%s\ndecoder: %v\nschema: %v", at, d, v)
		}
		n++
	}
	t.Log(n, "configurations")
	if n < 50 {
		t.Errorf("only %d were found", n)
	}
}
