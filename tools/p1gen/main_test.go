package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

const root = "../.."

func TestMessagesAreThoseThatTheSchemasGenerate(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name))); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what its schema generates: run make generate (%v)", name, err)
		}
	}
	generated, err := filepath.Glob(filepath.Join(root, "profiles/*/messages.gen.go"))
	schemas, failed := load()
	if err != nil || failed != nil || len(generated) != len(schemas) {
		t.Errorf("%d generated files, %d schemas, errors %v and %v", len(generated), len(schemas), err, failed)
	}
}

func TestTheTableOfASchemaHasEachFieldWithItsNumber(t *testing.T) {
	schemas, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range schemas {
		table := s.table()
		for _, m := range s.messages {
			if !strings.Contains(table, fmt.Sprintf("| %s |", m.schemaName)) {
				t.Errorf("%s: message %s is missing", s.path, m.schemaName)
			}
			for _, f := range m.fields {
				if !strings.Contains(table, fmt.Sprintf("%d %s, ", f.num, f.schemaName)) {
					t.Errorf("%s: %s.%s is missing", s.path, m.schemaName, f.schemaName)
				}
			}
		}
	}
}

func TestOptionsThatDoNotFitTheirFieldAreRefused(t *testing.T) {
	s := &schema{bounds: []bound{{"Max", 8}}}
	element := &message{schemaName: "Element"}
	const text, octets, number, flag, nested = protoreflect.StringKind, protoreflect.BytesKind, protoreflect.Uint64Kind, protoreflect.BoolKind, protoreflect.MessageKind
	for _, f := range []field{
		{kind: text, notBlank: true, octets: "Max", anyOctets: true},
		{kind: text, repeated: true, elements: "Max", octets: "Max"},
		{kind: octets, required: true, apart: true},
		{kind: flag, always: true},
		{kind: nested, message: element, required: true},
		{kind: nested, message: element, repeated: true, elements: "Max"},
	} {
		if err := f.valid(s); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	for name, f := range map[string]field{
		"a bound that is not there":       {kind: text, octets: "Min"},
		"octets of a number":              {kind: number, octets: "Max"},
		"blank octets":                    {kind: octets, notBlank: true},
		"bytes that need not be UTF-8":    {kind: octets, anyOctets: true},
		"a number that is always written": {kind: number, always: true},
		"a string that lies apart":        {kind: text, apart: true},
		"no bound of elements":            {kind: text, repeated: true},
		"a bound of elements for one":     {kind: text, elements: "Max"},
		"repeated numbers":                {kind: number, repeated: true, elements: "Max"},
		"a required list":                 {kind: text, repeated: true, elements: "Max", required: true},
		"a message that may be absent":    {kind: nested, message: element},
		"a message with a msg_type":       {kind: nested, message: &message{num: 1}, required: true},
		"a message of another file":       {kind: nested, required: true},
		"a type without code":             {kind: protoreflect.Fixed64Kind},
	} {
		if f.valid(s) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
