package access

import (
	"fmt"
	"strings"
)

// MaxPattern is the length of the longest pattern, in octets.
const MaxPattern = 1024

// pattern is a compiled pattern. Matching takes time in proportion to the name,
// whatever both look like: what lies before the first wildcard and after the
// last one is compared, and what lies between takes one pass.
type pattern struct {
	text   string
	wild   bool       // it has a wildcard; else the text is compared
	prefix string     // before the first wildcard
	suffix string     // after the last one
	deep   bool       // the only wildcard is **
	middle *automaton // from the first wildcard to the last, where there are several
}

func compile(text string) (*pattern, error) {
	if text == "" || len(text) > MaxPattern {
		return nil, fmt.Errorf("pattern of %d octets, want 1 to %d", len(text), MaxPattern)
	}
	p := &pattern{text: text}
	first, last := strings.IndexByte(text, '*'), strings.LastIndexByte(text, '*')
	if first < 0 {
		return p, nil
	}
	p.wild, p.prefix, p.suffix = true, text[:first], text[last+1:]
	if middle := text[first : last+1]; strings.Trim(middle, "*") == "" {
		p.deep = len(middle) > 1
	} else {
		p.middle = newAutomaton(middle)
	}
	return p, nil
}

func (p *pattern) match(name string) bool {
	if !p.wild {
		return name == p.text
	}
	if len(name) < len(p.prefix)+len(p.suffix) || !strings.HasPrefix(name, p.prefix) || !strings.HasSuffix(name, p.suffix) {
		return false
	}
	name = name[len(p.prefix) : len(name)-len(p.suffix)]
	if p.middle != nil {
		return p.middle.match(name)
	}
	return p.deep || strings.IndexByte(name, '/') < 0
}

// patterns match what one of them matches.
type patterns []*pattern

func compileAll(texts []string) (patterns, error) {
	list := make(patterns, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = compile(text); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return list, nil
}

func (l patterns) match(name string) bool {
	for _, p := range l {
		if p.match(name) {
			return true
		}
	}
	return false
}

// orAll matches everything where the list is empty.
func (l patterns) orAll(name string) bool { return len(l) == 0 || l.match(name) }
