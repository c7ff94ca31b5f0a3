package a2ajson

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzObject holds the reading of objects against encoding/json.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, "{\n\"a\" : [ {\"b\":\"}\"} , 2 ] ,\"c\":{\"d\":[]}, \"e\":\"\\\\\"}", `{"\"":"\"","x":"\\\""}`,
		`{"a":-1e5,"b":true ,"c":null}`, `[1]`, `7`, `{"a":1,"a":2}`, `{"":{"":{}}}`, ``, `{`, `"x"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, octets []byte) {
		var want map[string]json.RawMessage
		err := json.Unmarshal(octets, &want)
		got, fault := Parse(octets)
		if (err == nil && want != nil) != (fault == nil) {
			t.Fatalf("%q: %v, want %v", octets, fault, err)
		}
		found := make(map[string]json.RawMessage)
		for _, m := range got {
			found[m.Name] = m.Value
			if string(octets[m.end-len(m.Value):m.end]) != string(m.Value) {
				t.Errorf("%q: %q ends at %d", octets, m.Value, m.end)
			}
		}
		if fault == nil && !reflect.DeepEqual(found, want) {
			t.Errorf("%q: %q, want %q", octets, found, want)
		}
		var list []json.RawMessage
		if json.Unmarshal(octets, &list) == nil && len(octets) > 0 && octets[0] == '[' {
			got, ok := Elements(octets)
			if !ok || len(got) != len(list) {
				t.Fatalf("%q: %q", octets, got)
			}
			for i, element := range got {
				if string(element) != string(list[i]) {
					t.Errorf("%q: element %d is %q", octets, i, element)
				}
			}
		}
	})
}
