package access

import (
	"fmt"
	"strings"
)

// MaxPattern is the maximum length of a pattern, in octets.
const MaxPattern = 1024

// pattern is a compiled pattern. Matching takes time linear in the length of the name: the
// text before the first and after the last wildcard is compared, and the part between
// several wildcards takes one pass.
type pattern struct {
	text   string
	wild   bool       // the pattern has a wildcard; if not, prefix is the text
	prefix string     // text before the first wildcard
	suffix string     // text after the last wildcard
	deep   bool       // the only wildcard is **
	more   *automaton // for several wildcards: matches from the first one on
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
		p.more = newAutomaton(text[first:])
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
	if p.more != nil {
		return p.more.match(name[len(p.prefix):])
	}
	return p.deep || strings.IndexByte(name[len(p.prefix):len(name)-len(p.suffix)], '/') < 0
}

// begins reports whether p matches some name that begins with name.
func (p *pattern) begins(name string) bool {
	if !p.wild {
		return strings.HasPrefix(p.text, name)
	}
	if strings.HasPrefix(p.prefix, name) {
		return true
	}
	rest, ok := strings.CutPrefix(name, p.prefix)
	slash := strings.IndexByte(rest, '/')
	switch {
	case !ok:
		return false
	case p.more != nil:
		return p.more.begins(rest)
	case p.deep || slash < 0:
		return true
	}
	for i := range slash + 1 { // the wildcard stands for rest[:i]
		if strings.HasPrefix(p.suffix, rest[i:]) {
			return true
		}
	}
	return false
}

// patterns match a name that one of them matches.
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

// name reports whether one of the patterns is the name itself, without wildcards.
func (l patterns) name(name string) bool {
	for _, p := range l {
		if !p.wild && p.text == name {
			return true
		}
	}
	return false
}

func (l patterns) begins(name string) bool {
	for _, p := range l {
		if p.begins(name) {
			return true
		}
	}
	return false
}

// orAll matches everything where the list is empty.
func (l patterns) orAll(name string) bool { return len(l) == 0 || l.match(name) }

// someOrAll is begins, and true where the list is empty.
func (l patterns) someOrAll(name string) bool { return len(l) == 0 || l.begins(name) }

// Matcher returns a function that matches names against a pattern in the syntax of rules.
// It is safe for concurrent use.
func Matcher(text string) (func(name string) bool, error) {
	p, err := compile(text)
	if err != nil {
		return nil, err
	}
	return p.match, nil
}
