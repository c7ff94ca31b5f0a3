package canonical

import "unicode/utf8"

// SkimJSON reads a JSON text as ParseJSON does and keeps nothing of it: at is called with
// each member of the outermost object, under the parent "", and with each member of an
// object that is directly in it, under the name of that object. Arrays and objects are
// told as null, behind their members. A name that is there twice is told twice. The error
// is that of ParseJSON, but for names that are there twice. It takes memory for the
// longest string of the text, not for its values.
func SkimJSON(text []byte, at func(parent, name string, v Value)) error {
	if !utf8.Valid(text) {
		return &SyntaxError{0, "not UTF-8"}
	}
	p := jsonParser{text: text, stacks: stacks{skim: &skim{at: at}}}
	_, err := p.whole()
	return err
}

// SkimCBOR is SkimJSON for CBOR, as ParseCBOR reads it.
func SkimCBOR(octets []byte, at func(parent, name string, v Value)) error {
	p := cborParser{octets: octets, stacks: stacks{skim: &skim{at: at}}}
	_, err := p.whole()
	return err
}

// skim tells of members in place of building values.
type skim struct {
	at     func(parent, name string, v Value)
	parent string // the member of the outermost object that is being read
}

// enter notes which member an object is read for.
func (s *stacks) enter(depth int, name string) {
	if s.skim != nil && depth == 1 {
		s.skim.parent = name
	}
}

func (s *skim) member(depth int, name string, v Value) {
	if v.kind == KindArray || v.kind == KindObject {
		v = Value{}
	}
	switch depth {
	case 1:
		s.at("", name, v)
	case 2:
		s.at(s.parent, name, v)
	}
}
