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

// problems collects Problems and knows where each key was set.
type problems struct {
	list    Problems
	origins map[string]origin // by key
}

func (p *problems) add(key, format string, args ...any) {
	from := p.find(key)
	p.list = append(p.list, Problem{Where: from.where, Key: key, Text: fmt.Sprintf(format, plain.Args(args)...), line: from.line, part: from.part})
}

// addItem is add for element i of the list under key, with the line of the element.
func (p *problems) addItem(key string, i int, format string, args ...any) {
	from := p.find(fmt.Sprintf("%s[%d]", key, i))
	p.list = append(p.list, Problem{Where: from.where, Key: key, Text: fmt.Sprintf(format, plain.Args(args)...), line: from.line, part: from.part})
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
	slices.SortStableFunc(p.list, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.line, b.line)) })
	return p.list
}
