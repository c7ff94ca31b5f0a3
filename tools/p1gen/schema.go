package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	googleproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/bufbuild/protocompile/linker"

	"github.com/slimwire/swp/proto"
)

// schema is the schema file of a profile, with its options.
type schema struct {
	path, profile string
	bounds        []bound
	tooLong       string     // detail of errors
	messages      []*message // those of Payload by their numbers, then the nested ones
}

type bound struct {
	name  string
	value uint64
}

type message struct {
	schemaName, goName string
	num                uint64 // of the member of Payload; 0: it is nested
	constant           string // its msg_type
	doc                string
	fields             []*field
	anyOf              []*field
	keepUnknown        bool
	check              string
	shared             string // type of the fields
	embed              string
	checkedAlone       bool
}

type field struct {
	schemaName, goName string
	num                uint64
	doc                string
	kind               protoreflect.Kind
	message            *message // for MessageKind
	repeated           bool
	required, notBlank bool
	unless             *field
	octets, elements   string // bounds
	always, anyOctets  bool
	apart, shownIfSet  bool
	shown              protoreflect.EnumNumber
}

// text reports whether the octets have to be UTF-8.
func (f *field) text() bool { return f.kind == protoreflect.StringKind && !f.anyOctets }

// octetsKind reports whether the field is a slice of octets in Go.
func (f *field) octetsKind() bool {
	return f.kind == protoreflect.StringKind || f.kind == protoreflect.BytesKind
}

// loader reads the options of compiled schemas.
type loader struct {
	resolver linker.Resolver
	messages map[protoreflect.FullName]*message
}

func load() (schemas []*schema, err error) {
	files, err := proto.Compile()
	if err != nil {
		return nil, err
	}
	l := loader{resolver: files.AsResolver()}
	for _, file := range files {
		if file.Path() == proto.Options {
			continue
		}
		s, err := l.schema(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Path(), err)
		}
		schemas = append(schemas, s)
	}
	return schemas, nil
}

// options returns the options of a declaration, with the extensions of this project
// resolved.
func (l *loader) options(d protoreflect.Descriptor) (options, error) {
	octets, err := googleproto.Marshal(d.Options())
	if err != nil {
		return options{}, err
	}
	m := d.Options().ProtoReflect().New()
	err = googleproto.UnmarshalOptions{Resolver: l.resolver}.Unmarshal(octets, m.Interface())
	return options{m, l.resolver}, err
}

type options struct {
	m        protoreflect.Message
	resolver linker.Resolver
}

func (o options) value(name protoreflect.FullName) protoreflect.Value {
	typ, err := o.resolver.FindExtensionByName("swp." + name)
	if err != nil {
		panic(err) // not in options.proto
	}
	return o.m.Get(typ.TypeDescriptor())
}

func (o options) text(name protoreflect.FullName) string { return o.value(name).String() }
func (o options) flag(name protoreflect.FullName) bool   { return o.value(name).Bool() }

func (l *loader) schema(file linker.File) (*schema, error) {
	s := &schema{path: file.Path(), profile: string(file.Package().Name())}
	o, err := l.options(file)
	if err != nil {
		return nil, err
	}
	s.tooLong = o.text("too_long")
	for list, i := o.value("bound").List(), 0; i < list.Len(); i++ {
		b := list.Get(i).Message()
		of := b.Descriptor().Fields()
		s.bounds = append(s.bounds, bound{b.Get(of.ByName("name")).String(), b.Get(of.ByName("value")).Uint()})
	}
	l.messages = make(map[protoreflect.FullName]*message)
	all := file.Messages()
	payload := all.ByName("Payload")
	if payload == nil || payload.Oneofs().Len() != 1 || payload.Oneofs().Get(0).Fields().Len() != payload.Fields().Len() {
		return nil, fmt.Errorf("want a message Payload of one oneof")
	}
	for i := range all.Len() {
		if d := all.Get(i); d != payload {
			m := &message{schemaName: string(d.Name()), goName: string(d.Name()), doc: comment(d)}
			l.messages[d.FullName()] = m
			s.messages = append(s.messages, m)
		}
	}
	for i := range payload.Fields().Len() {
		member := payload.Fields().Get(i)
		m := l.messages[member.Message().FullName()]
		if m.goName, err = l.goName(member); err != nil {
			return nil, err
		}
		m.num, m.constant = uint64(member.Number()), "Type"+m.goName
	}
	for i := range all.Len() {
		if d := all.Get(i); d != payload {
			if err := l.message(l.messages[d.FullName()], d, s); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name(), err)
			}
		}
	}
	// Nested ones have no number, and come last.
	slices.SortStableFunc(s.messages, func(a, b *message) int { return cmp.Compare(a.num-1, b.num-1) })
	return s, nil
}

// goName returns the name of a field in Go.
func (l *loader) goName(d protoreflect.FieldDescriptor) (string, error) {
	o, err := l.options(d)
	if err != nil {
		return "", err
	}
	name := o.text("name")
	if name != "" {
		return name, nil
	}
	for word := range strings.SplitSeq(string(d.Name()), "_") {
		switch word {
		case "id", "rpc", "ok":
			name += strings.ToUpper(word)
		case "ids":
			name += "IDs"
		case "etag":
			name += "ETag"
		default:
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return name, nil
}

func (l *loader) message(m *message, d protoreflect.MessageDescriptor, s *schema) error {
	o, err := l.options(d)
	if err != nil {
		return err
	}
	if name := o.text("type"); name != "" {
		m.goName = name
	}
	m.keepUnknown, m.checkedAlone = o.flag("keep_unknown"), o.flag("checked_alone")
	m.check, m.shared, m.embed = o.text("check"), o.text("fields"), o.text("embed")
	named := make(map[string]*field)
	unless := make(map[*field]string)
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := &field{schemaName: string(fd.Name()), num: uint64(fd.Number()), doc: comment(fd), kind: fd.Kind(), repeated: fd.IsList()}
		if f.goName, err = l.goName(fd); err != nil {
			return err
		}
		o, err := l.options(fd)
		if err != nil {
			return err
		}
		f.required, f.notBlank = o.flag("required"), o.flag("not_blank")
		f.octets, f.elements = o.text("max_octets"), o.text("max_elements")
		f.always, f.anyOctets, f.apart = o.flag("always_written"), o.flag("any_octets"), o.flag("apart")
		f.shown, f.shownIfSet = o.value("shown").Enum(), o.flag("shown_if_set")
		if name := o.text("required_unless"); name != "" {
			unless[f] = name
		}
		if fd.Message() != nil {
			f.message = l.messages[fd.Message().FullName()]
		}
		if err := f.valid(s); err != nil {
			return fmt.Errorf("%s: %w", f.schemaName, err)
		}
		m.fields = append(m.fields, f)
		named[f.schemaName] = f
	}
	for f, name := range unless {
		if f.unless = named[name]; f.unless == nil || f.unless.kind != protoreflect.BoolKind {
			return fmt.Errorf("%s: required_unless %q is no field of type bool", f.schemaName, name)
		}
	}
	for list, i := o.value("any_of").List(), 0; i < list.Len(); i++ {
		f := named[list.Get(i).String()]
		if f == nil || !f.octetsKind() || f.repeated {
			return fmt.Errorf("any_of %q is no field of octets", list.Get(i))
		}
		m.anyOf = append(m.anyOf, f)
	}
	return nil
}

// valid refuses fields that the generator does not support.
func (f *field) valid(s *schema) error {
	for _, name := range []string{f.octets, f.elements} {
		if name != "" && !slices.ContainsFunc(s.bounds, func(b bound) bool { return b.name == name }) {
			return fmt.Errorf("the file has no bound %s", name)
		}
	}
	switch {
	case f.kind == protoreflect.MessageKind && (f.message == nil || f.message.num != 0):
		return fmt.Errorf("want a message of this file that is not in Payload")
	case f.kind == protoreflect.MessageKind && !f.repeated && !f.required:
		return fmt.Errorf("a message that is not repeated has to be required")
	case f.repeated != (f.elements != ""):
		return fmt.Errorf("max_elements is for repeated fields, and required there")
	case f.repeated && !f.octetsKind() && f.kind != protoreflect.MessageKind:
		return fmt.Errorf("repeated numbers are not known here")
	case f.octets != "" && !f.octetsKind(), f.notBlank && f.kind != protoreflect.StringKind, f.anyOctets && f.kind != protoreflect.StringKind:
		return fmt.Errorf("an option does not fit the type")
	case f.always && f.kind != protoreflect.BoolKind:
		return fmt.Errorf("always_written is for bool")
	case f.apart && (f.kind != protoreflect.BytesKind || f.repeated):
		return fmt.Errorf("apart is for bytes that are not repeated")
	case f.repeated && (f.required || f.notBlank):
		return fmt.Errorf("repeated fields cannot be required")
	}
	switch f.kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.BoolKind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return nil
	}
	return fmt.Errorf("type %s is not known here", f.kind)
}

// comment returns the one in front of a declaration, as one paragraph.
func comment(d protoreflect.Descriptor) string {
	return strings.Join(strings.Fields(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments), " ")
}
