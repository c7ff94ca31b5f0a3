package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/plain"
)

// Problem is one problem of a configuration.
type Problem struct {
	Where string // file:line, or the environment variable; empty for the built-in configuration
	Key   string // such as listeners[0].address; empty for the file as a whole
	Text  string // the problem, and what to do
	line  int
	part  string // the file of a partner; empty for the main file

	about string // the key whose value is not known until the correction; empty: all
}

func (p Problem) String() string {
	s := p.Text
	if p.Key != "" {
		s = p.Key + ": " + s
	}
	if p.Where != "" {
		s = p.Where + ": " + s
	}
	return s
}

// Problems are all problems of a configuration, in the order of the files. It is the
// error of Load.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Verbatim returns all of them: keys may be called like packages.
func (p Problems) Verbatim() string { return p.Error() }

// origin is the place of a value.
type origin struct {
	where string
	line  int
	part  string // as of a Problem
}

// sort sorts problems in the order of the files.
func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.line, b.line)) })
}

// problems collects Problems and knows where each key was set.
type problems struct {
	list    Problems
	origins map[string]origin     // by key
	looks   func(key string) bool // whether the files, directories and programs of a key are needed; nil: all are
}

// sees reports whether a check looks at the files, directories and programs that a key names.
func (p *problems) sees(key string) bool { return p.looks == nil || p.looks(key) }

func (p *problems) add(key, format string, args ...any) {
	p.addFrom(p.find(key), key, format, args...)
}

func (p *problems) addFrom(from origin, key, format string, args ...any) {
	p.list = append(p.list, Problem{Where: from.where, Key: key, Text: fmt.Sprintf(format, plain.Args(args)...), line: from.line, part: from.part, about: key})
}

// addAbout is add for a key that is likely a misspelling of another one.
func (p *problems) addAbout(about, key, format string, args ...any) {
	p.add(key, format, args...)
	p.list[len(p.list)-1].about = about
}

// addItem is add for element i of the list under key, with the line of the element.
func (p *problems) addItem(key string, i int, format string, args ...any) {
	p.addFrom(p.find(fmt.Sprintf("%s[%d]", key, i)), key, format, args...)
}

// find returns the place of key, or of the section that it would belong to.
func (p *problems) find(key string) origin {
	for {
		if o, ok := p.origins[key]; ok {
			return o
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return p.origins[""]
		}
		key = key[:i]
	}
}

// places returns the places of all keys.
func (p *problems) places() map[string]string {
	places := make(map[string]string, len(p.origins))
	for key, from := range p.origins {
		places[key] = from.where
	}
	return places
}

// Place returns the place of a key such as access.rules[0], as file:line or the
// environment variable; empty for a built-in value.
func (c *Config) Place(key string) string { return c.Places[key] }

func (p *problems) isSet(key string) bool {
	_, ok := p.origins[key]
	return ok
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	p.list.sort()
	return p.list
}
