package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// wire is the document with the tables of fields, by its path below the root. The message of
// SLIP is in docs/profile-slip.md, beside its other encodings.
const wire = "docs/wire.md"

// marks returns the lines around the table of the schema in its document.
func (s *schema) marks() (first, last string) {
	return "<!-- fields from proto/" + s.path + ", by make generate -->\n", "<!-- end of proto/" + s.path + " -->\n"
}

// document returns the text of a document with the tables of the schemas.
func document(text string, schemas []*schema) (string, error) {
	for _, s := range schemas {
		if s.profile == "slip" {
			continue
		}
		first, last := s.marks()
		before, rest, begins := strings.Cut(text, first)
		_, after, ends := strings.Cut(rest, last)
		if !begins || !ends {
			return "", fmt.Errorf("want the lines %q and %q", first, last)
		}
		text = before + first + s.table() + last + after
	}
	return text, nil
}

// table returns the messages with their fields as a table of Markdown.
func (s *schema) table() string {
	var b strings.Builder
	_, _ = b.WriteString("\n| msg_type | message | fields: number, name, type |\n|---|---|---|\n")
	for _, m := range s.messages {
		number := ""
		if m.num != 0 {
			number = fmt.Sprint(m.num)
		}
		fields := make([]string, len(m.fields))
		for i, f := range m.fields {
			fields[i] = s.field(f)
		}
		list := strings.Join(fields, "; ")
		if len(m.anyOf) > 0 {
			names := make([]string, len(m.anyOf))
			for i, f := range m.anyOf {
				names[i] = f.schemaName
			}
			list += "; at least one of " + strings.Join(names, ", ")
		}
		if list == "" {
			list = "none"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", number, m.schemaName, list)
	}
	_, _ = b.WriteString("\n")
	return b.String()
}

// field returns the number, the name, the type and the bounds of a field.
func (s *schema) field(f *field) string {
	typ := f.kind.String()
	if f.kind == protoreflect.MessageKind {
		typ = f.message.schemaName
	}
	text := fmt.Sprintf("%d %s, ", f.num, f.schemaName)
	if f.repeated {
		text += "repeated "
	}
	text += typ
	switch {
	case f.unless != nil:
		text += ", required unless " + f.unless.schemaName
	case f.required || f.notBlank:
		text += ", required"
	}
	if f.octets != "" {
		text += fmt.Sprintf(", ≤ %d octets", s.bound(f.octets))
	}
	if f.elements != "" {
		text += fmt.Sprintf(", ≤ %d elements", s.bound(f.elements))
	}
	return text
}

// bound returns the value of a bound of the file.
func (s *schema) bound(name string) uint64 {
	for _, b := range s.bounds {
		if b.name == name {
			return b.value
		}
	}
	panic("unknown bound " + name) // valid has refused it
}
