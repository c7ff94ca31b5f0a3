package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/slimwire/swp/vectors"
)

// writer turns one entry of the catalogue into a descriptor. The octets that the vector
// is about are in the file <id>.bin. Others stand in the descriptor, but those of more
// than maxHex octets, which are in <id>.NN.bin in order of appearance.
type writer struct {
	id    string
	main  []byte
	files map[string][]byte
	named []fixture // files of this vector other than the main one
}

// maxHex is how many octets stand in a descriptor at most.
const maxHex = 4 << 10

// fixture is a file that a step or sibling names.
type fixture struct {
	name     string
	expected bool // compared with the received octets
}

func (w *writer) put(name string, content []byte) {
	if _, taken := w.files[name]; taken {
		panic("gen: two files are called " + name)
	}
	w.files[name] = content
}

func (w *writer) descriptor(v *vector) vectors.Descriptor {
	d := vectors.Descriptor{VectorID: v.id, Group: groups[v.namespace()], Category: v.namespace(), Description: v.about}
	e := &d.Expected
	e.Outcome, e.Code, e.RejectionReason, e.EvidenceType = v.expect.outcome, v.expect.code, v.expect.reason, "runtime"
	if e.Outcome == "reject" {
		e.ErrorCode = "ERR_" + e.Code
	}
	e.Assertions = labelled(v)
	if v.evidence {
		e.EvidenceType = "process"
		e.Fixture.EvidenceFile = v.id + ".evidence.md"
		return d
	}
	w.main = v.bin
	e.Fixture.BinFile = v.id + ".bin"
	w.put(e.Fixture.BinFile, v.bin)
	e.Fixture.Transcript = w.steps(v.transcript, false)
	for _, s := range v.siblings {
		e.Fixture.Siblings = append(e.Fixture.Siblings, w.sibling(s))
	}
	return d
}

// labelled adds the labels that the kit's descriptors carry.
func labelled(v *vector) *vectors.Assertions {
	a := v.assertions
	switch v.namespace() {
	case "e1":
		a.Encoding = "E1"
	case "s1":
		a.Binding = "S1"
	case "mcp":
		a.Profile = "MCPMAP"
	}
	if id, ok := profileIDs[v.namespace()]; ok {
		a.Profile, a.ProfileID, a.SemanticCase = strings.ToUpper(v.namespace()), &id, "positive-or-deterministic"
		if v.expect.outcome == "reject" {
			a.SemanticCase = "deterministic-rejection"
		}
	}
	if a == (vectors.Assertions{}) {
		return nil
	}
	return &a
}

func (w *writer) steps(list []step, reuse bool) []vectors.Step {
	var steps []vectors.Step
	for _, s := range list {
		switch {
		case s.main:
			s.BinFile = w.id + ".bin"
		case s.octets != nil:
			s.BinFile, s.Hex = w.place(s.octets, reuse, s.Dir == vectors.Out || s.Dir == vectors.Told)
		}
		steps = append(steps, s.Step)
	}
	return steps
}

func (w *writer) sibling(s sibling) vectors.Sibling {
	switch {
	case s.transcript != nil:
		s.Transcript = w.steps(s.transcript, true)
	case s.octets == nil:
		s.BinFile = w.id + ".bin"
	default:
		s.BinFile, s.Hex = w.place(s.octets, true, false)
	}
	return s.Sibling
}

// place stores octets in a file, or inline. The main file is named by one step of the
// transcript only, so that it is reused in siblings alone. Sent and expected octets never
// share a file, so that a change of one does not affect the other.
func (w *writer) place(octets []byte, reuseMain, expected bool) (file string, inline vectors.Hex) {
	if reuseMain && !expected && bytes.Equal(octets, w.main) {
		return w.id + ".bin", nil
	}
	if len(octets) <= maxHex {
		return "", append(vectors.Hex{}, octets...)
	}
	for _, f := range w.named {
		if f.expected == expected && bytes.Equal(w.files[f.name], octets) {
			return f.name, nil
		}
	}
	name := fmt.Sprintf("%s.%02d.bin", w.id, len(w.named)+1)
	w.put(name, octets)
	w.named = append(w.named, fixture{name, expected})
	return name, nil
}
