package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/schema"
)

func parse(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	return v
}

func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(parse(t, text))
	if err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	return s
}

func TestKeywords(t *testing.T) {
	for _, test := range []struct{ schema, good, bad string }{
		{`{"type":"integer"}`, `30 30.0 1e2 1e20 1e300 -0.0 18446744073709551616`, `true 1.5 1e-300 "1" null`},
		{`{"type":["string","null"]}`, `"x" null`, `1 false []`},
		{`{"type":"number"}`, `1 1.5`, `true "1"`},
		{`{"const":{"a":[1]}}`, `{"a":[1]} {"a":[1.0]}`, `{"a":[2]} {} 1`},
		{`{"const":null}`, `null`, `0 false ""`},
		{`{"enum":["low",2,null]}`, `"low" 2 2.0 null`, `"high" 3 false`},
		{`{"anyOf":[{"type":"string"},{"minimum":3}]}`, `"x" 3 4`, `2`},
		{`{"oneOf":[{"type":"integer"},{"minimum":3}]}`, `1 3.5`, `4 2.5`},
		{`{"allOf":[{"type":"integer"},{"minimum":3}]}`, `4`, `2 3.5`},
		{`{"not":{"type":"integer"}}`, `"x" 1.5`, `1`},
		{`{"minLength":2,"maxLength":3}`, `"ab" "😀é" "😀😀😀" 7`, `"a" "😀" "😀😀😀😀"`},
		{`{"minLength":2.0}`, `"ab"`, `"a"`},
		{`{"maxLength":2147483648,"maxItems":18446744073709551617}`, `"ab" [1]`, ``},
		{`{"minLength":9007199254740991,"minItems":1e300}`, `7`, `"ab" [1]`},
		{`{"minimum":0,"maximum":10}`, `0 10 0.0 -0.0 "x"`, `-1 11 10.000001`},
		{`{"exclusiveMinimum":0,"exclusiveMaximum":1e1}`, `0.1 9`, `0 -0.0 10`},
		{`{"minItems":1,"maxItems":2}`, `[1] [1,2] {}`, `[] [1,2,3]`},
		{`{"items":{"type":"integer"}}`, `[] [1,2] "x"`, `[1,"2"]`},
		{`{"uniqueItems":true}`, `[1,2,"1"] []`, `[1,1.0] [{"a":1,"b":2},{"b":2,"a":1}]`},
		{`{"required":["a"],"properties":{"a":{"type":"string"}}}`, `{"a":"","b":1} 7`, `{} {"a":1}`},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{} {"a":1}`, `{"b":1}`},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}`, `{"a":"x","b":1}`, `{"b":"x"}`},
		{`{"properties":{"a":false,"b":true}}`, `{"b":1}`, `{"a":1}`},
		{`{"$ref":"#/$defs/x","$defs":{"x":{"type":"integer"}}}`, `1`, `"x"`},
		{`{"properties":{"a":{"$ref":"#/$defs/b~1c~0%20d"}},"$defs":{"b/c~ d":{"type":"integer"}}}`, `{"a":1}`, `{"a":"x"}`},
		{`{"$ref":"#/allOf/1","allOf":[{},{"minimum":3}]}`, `3`, `2`},
		{`{"type":"object","properties":{"next":{"$ref":"#"}},"required":["n"]}`, `{"n":1} {"n":1,"next":{"n":2}}`, `{"n":1,"next":{}} []`},
		{`{"type":"array","items":{"$ref":"#"}}`, `[] [[],[[]]]`, `[[1]]`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","$id":"http://127.0.0.1:1/x","title":"t","description":"d","default":1,"examples":[1],"$comment":"c","format":"email","minimum":3}`, `3 "no-mail-address"`, `2`},
		{`{"properties":{"$ref":{"type":"string"},"pattern":{"type":"string"}}}`, `{"$ref":"x","pattern":"y"}`, `{"$ref":1}`},
		{`{"const":{"$ref":"http://127.0.0.1:1/","pattern":"("}}`, `{"$ref":"http://127.0.0.1:1/","pattern":"("}`, `{}`},
		{`{"const":{"$id":"http://127.0.0.1:1/","$schema":"x","$defs":1}}`, `{"$id":"http://127.0.0.1:1/","$schema":"x","$defs":1}`, `{}`},
		{`{}`, `null [1] {"a":1}`, ``},
	} {
		s := compile(t, test.schema)
		for text := range strings.FieldsSeq(test.good) {
			if err := s.Validate(parse(t, text)); err != nil {
				t.Errorf("%s: %s: %v", test.schema, text, err)
			}
		}
		for text := range strings.FieldsSeq(test.bad) {
			if err := s.Validate(parse(t, text)); err == nil {
				t.Errorf("%s: %s is accepted", test.schema, text)
			}
		}
	}
}

// A schema that reaches out, or says what is not understood here, says nothing
// that can be trusted.
func TestSchemasThatAreRefused(t *testing.T) {
	chain := func(n int) string {
		var b strings.Builder
		for i := range n - 2 {
			fmt.Fprintf(&b, `"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/0","$defs":{%s"%d":{}}}`, b.String(), n-2)
	}
	parts := func(n int) string {
		return `{"anyOf":[` + strings.Repeat("{},", n-2) + `{}]}`
	}
	if _, err := schema.Compile(parse(t, chain(schema.MaxHeight))); err != nil {
		t.Error(err)
	}
	if _, err := schema.Compile(parse(t, parts(schema.MaxParts))); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		`true`, `[]`, `"x"`,
		`{"$ref":"http://127.0.0.1:1/x"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"other.json"}`, `{"$ref":""}`, `{"$ref":1}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"$ref":"urn:a2a-sdl:schema"}`, `{"$ref":"urn:a2a-sdl:schema#"}`,
		`{"properties":{"a":{"items":{"$ref":"http://127.0.0.1:1/x"}}}}`,
		`{"$ref":"#/$defs/x"}`, `{"$ref":"#name","$defs":{"x":{"$anchor":"name"}}}`, `{"$ref":"#name"}`,
		`{"$ref":"#/properties","properties":{"type":{}}}`, `{"$ref":"#/default","default":{}}`, `{"$ref":"#/allOf/1","allOf":[{}]}`,
		`{"$ref":"#/allOf/-1","allOf":[{}]}`, `{"$ref":"#/allOf/x","allOf":[{}]}`, `{"$ref":"#/%zz"}`, `{"$ref":"#x"}`, `{"$ref":"#/"}`,
		`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"not":{"$ref":"#"}}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{},{"$ref":"#/$defs/b"}]},"b":{"oneOf":[{"$ref":"#/$defs/a"}]}}}`,
		`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"pattern":"^a"}`, `{"patternProperties":{"a":{}}}`, `{"if":{}}`, `{"contains":{}}`, `{"prefixItems":[{}]}`, `{"multipleOf":2}`,
		`{"unevaluatedProperties":false}`, `{"$dynamicRef":"#"}`, `{"$anchor":"a"}`, `{"$vocabulary":{}}`, `{"definitions":{}}`, `{"Type":"object"}`,
		`{"dependentSchemas":{}}`, `{"contentSchema":{}}`, `{"propertyNames":{}}`, `{"minProperties":1}`, `{"x-unknown":1}`,
		`{"type":"text"}`, `{"type":[]}`, `{"type":null}`, `{"enum":1}`, `{"required":"a"}`, `{"required":[1]}`, `{"minimum":"1"}`,
		`{"minLength":-1}`, `{"minLength":1.5}`, `{"minLength":"1"}`,
		`{"uniqueItems":1}`, `{"allOf":{}}`, `{"allOf":[]}`, `{"allOf":[1]}`, `{"anyOf":null}`, `{"not":1}`, `{"items":[{}]}`, `{"items":null}`,
		`{"properties":[]}`, `{"properties":{"a":1}}`, `{"additionalProperties":"no"}`, `{"$defs":{"a":[]}}`,
		chain(schema.MaxHeight + 1), parts(schema.MaxParts + 1),
	} {
		if _, err := schema.Compile(parse(t, text)); err == nil {
			t.Errorf("%.200s is accepted", text)
		}
	}
}

// What references multiply to is counted before it is done.
func TestRS07WorkIsBounded(t *testing.T) {
	doubling := func(n int) string { // 2^n schemas for one value
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":{"anyOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/0","$defs":{%s"%d":{"type":"null"}}}`, b.String(), n)
	}
	nested := `{"allOf":[{"properties":{"x":{"$ref":"#"}}},{"properties":{"x":{"$ref":"#"}}}]}` // twice at each level
	deep := strings.Repeat(`{"x":`, 60) + "1" + strings.Repeat("}", 60)
	list := "[" + strings.Repeat("1,", 9_999) + "1]"
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf(`"%d"`, i))
	}
	uniques := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%0*d",`, size, i)
		}
		return "[" + b.String() + "0]"
	}
	var described, members, many []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		described = append(described, fmt.Sprintf(`%q:{"type":"integer"}`, name))
		members = append(members, fmt.Sprintf(`%q:1`, name))
	}
	for i := range 100_000 {
		many = append(many, fmt.Sprintf(`"%d":1`, i))
	}
	for what, test := range map[string]struct {
		schema, value string
		ok            bool
	}{
		"2^6 schemas":              {doubling(6), `null`, true},
		"2^20 schemas":             {doubling(20), `null`, false},
		"2^60 at the bottom":       {nested, deep, false},
		"a plain deep value":       {`{"properties":{"x":{"$ref":"#"}}}`, deep, true},
		"a long list":              {`{"type":"array","items":{"type":"integer","minimum":0}}`, list, true},
		"a long list, a long enum": {`{"items":{"enum":[` + strings.Repeat("2,", 1000) + `1]}}`, list, false},
		"a long list, a long word": {`{"items":{"const":"` + strings.Repeat("x", 100_000) + `"}}`, list, false},
		"a long list of equals":    {`{"uniqueItems":true,"items":{"uniqueItems":true}}`, "[" + strings.Repeat("[],", 9_999) + "[]]", true},
		"long lists of members":    {`{"items":{"properties":{` + strings.Join(described, ",") + `}}}`, "[" + strings.Repeat(`{`+strings.Join(members, ",")+`},`, 9_999) + "{}]", true},
		"an object of 100 000":     {`{"type":"object"}`, `{` + strings.Join(many, ",") + `}`, true},
		"a mebibyte of uniques":    {`{"uniqueItems":true}`, uniques(9_000, 100), true},
		"20 large uniques":         {`{"uniqueItems":true}`, uniques(19, 50_000), false},
		"many required members":    {`{"items":{"required":[` + strings.Join(names, ",") + `]}}`, list, false},
		"a mebibyte of letters":    {`{"maxLength":3}`, `"` + strings.Repeat("x", 1<<20) + `"`, true},
		"letters counted often":    {`{"allOf":[` + strings.Repeat(`{"maxLength":3},`, 100) + `{}]}`, `"` + strings.Repeat("x", 1<<20) + `"`, false},
	} {
		err := compile(t, test.schema).Validate(parse(t, test.value))
		if busy := err != nil && strings.Contains(err.Error(), "steps"); busy == test.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestErrorsNameThePlaceAndNotTheContent(t *testing.T) {
	s := compile(t, `{"properties":{"a/b":{"items":{"type":"integer"}}},"required":["z"]}`)
	err := s.Validate(parse(t, `{"a/b":[1,"SECRET"],"z":1}`))
	if err == nil || err.Error() != `schema: "/a~1b/1" breaks "type"` {
		t.Error(err)
	}
	long := parse(t, `{"`+strings.Repeat("é", 5000)+`":1}`)
	if err := compile(t, `{"additionalProperties":{"type":"string"}}`).Validate(long); err == nil || len(err.Error()) > 400 {
		t.Errorf("%.600v", err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"minLength":1,"enum":["a",1.5,null]}}}`,
		`{"allOf":[{"not":{"const":{}}},{"oneOf":[{},true,false]}],"items":{"uniqueItems":true},"minimum":1e3}`,
		`{"$id":"x","$schema":"y","additionalProperties":{"$ref":"#"},"maxItems":2.0}`,
	} {
		f.Add([]byte(s), []byte(`{"a":"a","b":[1,1.0]}`))
	}
	f.Fuzz(func(t *testing.T, document, value []byte) {
		d, err := canonical.ParseJSON(document)
		if err != nil {
			return
		}
		v, err := canonical.ParseJSON(value)
		if err != nil {
			return
		}
		s, err := schema.Compile(d)
		if err != nil {
			return
		}
		first := s.Validate(v)
		if again := s.Validate(v); (again == nil) != (first == nil) {
			t.Errorf("%s against %s: %v, then %v", v, d, first, again)
		}
	})
}

const order = `{"type":"object","required":["items"],"properties":{"items":{"type":"array","items":{"type":"object","required":["n","name"],"properties":{"n":{"type":"integer","minimum":1},"name":{"type":"string","maxLength":40}}}}}}`

func BenchmarkCompile(b *testing.B) {
	document := parse(b, order)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.Compile(document); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	s, v := compile(b, order), parse(b, `{"items":[{"n":1,"name":"a"},{"n":2,"name":"b"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMostWork is as much as a peer can make of one validation.
func BenchmarkMostWork(b *testing.B) {
	for name, text := range map[string]string{
		"types":   `{"items":{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 6) + `{"type":"null"}]}}`,
		"numbers": `{"items":{"enum":[` + strings.Repeat("2,", 6) + `3]}}`,
	} {
		s, v := compile(b, text), parse(b, "["+strings.Repeat("1,", 9_999)+"1]")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Validate(v); err == nil || strings.Contains(err.Error(), "steps") {
					b.Fatal(err)
				}
			}
		})
	}
}
