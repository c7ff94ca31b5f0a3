package jsonobject

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzParseReadsWhatEncodingJSONReads(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, "{\n\"a\" : [ {\"b\":\"}\"} , 2 ] ,\"c\":{\"d\":[]}, \"e\":\"\\\\\"}", `{"\"":"\"","x":"\\\""}`,
		`{"a":-1e5,"b":true ,"c":null}`, `[1]`, `7`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"":{"":{}}}`, ``, `{`, `"x"`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, octets []byte) {
		var want map[string]json.RawMessage
		valid := json.Unmarshal(octets, &want) == nil && want != nil
		got, err := Parse(octets)
		if valid != (err == nil) {
			t.Fatalf("%q: %v, %v, want %q", octets, got, err, want)
		}
		found, end := make(map[string]string), 0
		for _, m := range got {
			found[m.Name] = string(m.Value) // encoding/json reads the last one, too
			var name string
			if from := string(octets[m.To-len(m.Value) : m.To]); from != string(m.Value) || m.From < end ||
				json.NewDecoder(bytes.NewReader(octets[m.From:])).Decode(&name) != nil || name != m.Name {
				t.Errorf("%q: %q from %d to %d", octets, m.Name, m.From, m.To)
			}
			end = m.To
		}
		if len(found) != len(want) {
			t.Errorf("%q: %q, want %q", octets, found, want)
		}
		for name, value := range want {
			if found[name] != string(value) {
				t.Errorf("%q: %q is %q, want %q", octets, name, found[name], value)
			}
		}
		var list []json.RawMessage
		isList := json.Unmarshal(octets, &list) == nil && list != nil
		elements, ok := Elements(octets)
		if ok != isList || len(elements) != len(list) {
			t.Fatalf("%q: %v, %v, want %q", octets, elements, ok, list)
		}
		for i, e := range elements {
			if string(e.Value) != string(list[i]) || string(octets[e.To-len(e.Value):e.To]) != string(e.Value) {
				t.Errorf("%q: element %d is %q, and ends at %d", octets, i, e.Value, e.To)
			}
		}
	})
}

func TestANameThatIsRepeatedHasNoValue(t *testing.T) {
	for text, want := range map[string]error{
		`{"a":1,"a":1}`: ErrRepeated, `{"a":1,"b":2,"\u0061":3}`: ErrRepeated, `{"a":null,"a":null}`: ErrRepeated,
		`{"a":1,"b":2,"b":3}`: nil, `{"a":{"a":1,"a":2}}`: nil, `{"b":1,"b":2}`: nil,
	} {
		o, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, get := o.Get("a")
		_, free := o.GetFree("a")
		if _, find := o.Find("a"); get != want || free != want || find != want {
			t.Errorf("%s: %v, %v, %v, want %v", text, get, free, find, want)
		}
	}
}

func TestGetTakesEitherSpellingOfProtoJSONAndRefusesAnother(t *testing.T) {
	for _, test := range []struct {
		text, value, free string
		err, errFree      error
	}{
		{`{"taskId":"t"}`, `"t"`, `"t"`, nil, nil},
		{`{"taskId":null}`, "", "", nil, nil},
		{`{"x":1}`, "", "", nil, nil},
		{`{"TASKID":"t"}`, "", "", ErrSpelling, ErrSpelling},
		{`{"taskId":"t","taskid":"u"}`, "", "", ErrSpelling, ErrSpelling},
		{`{"task_id":"u","taskId":"t"}`, "", `"t"`, ErrRepeated, nil},
		{`{"task_id":"u","task_id":"u"}`, "", "", ErrRepeated, nil},
		{`{"task_id":null,"taskId":"t"}`, "", `"t"`, ErrRepeated, nil},
		{`{"task_id":"u"}`, `"u"`, "", nil, nil},
		{`{"task_id":null}`, "", "", nil, nil},
		{`{"task_Id":"u"}`, "", "", ErrSpelling, nil},
		{`{"Task_id":"u"}`, "", "", ErrSpelling, nil},
		{`{"_task_id":"u"}`, "", "", ErrSpelling, nil},
		{`{"task__id":"u"}`, "", "", ErrSpelling, nil},
		{`{"task_id_":"u","task_id":"t"}`, "", "", ErrSpelling, nil},
	} {
		o, err := Parse([]byte(test.text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.Get("taskId"); string(got) != test.value || err != test.err {
			t.Errorf("%s: %s, %v", test.text, got, err)
		}
		if got, err := o.GetFree("taskId"); string(got) != test.free || err != test.errFree {
			t.Errorf("%s, free: %s, %v", test.text, got, err)
		}
	}
}
