package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// envPrefix starts the names of the variables that override the file.
//
// The rest of the name is the key in upper case with each dot, bracket and
// hyphen as an underscore: SWPD_LOG_LEVEL is log.level, SWPD_LISTENERS_0_ADDRESS
// is listeners[0].address, SWPD_MCP_SERVERS_FILES_ENV_TOKEN is
// mcp.servers.files.env.TOKEN. An index may be one beyond the end of a list,
// which adds an element. A server must exist in the file.
const envPrefix = "SWPD_"

// reserved are variables with the prefix that are not keys: the name of the file, and
// the variables that Kubernetes sets in every container beside a service named swpd.
func reserved(name string) bool {
	return name == "SWPD_CONFIG" || name == "SWPD_PORT" || strings.HasPrefix(name, "SWPD_PORT_") ||
		name == "SWPD_SERVICE_HOST" || name == "SWPD_SERVICE_PORT" || strings.HasPrefix(name, "SWPD_SERVICE_PORT_")
}

// override writes the variables of environ into the tree under root.
func (d *decoder) override(root *yaml.Node, environ []string) {
	vars := slices.Clone(environ)
	slices.Sort(vars) // lists grow in order of their index
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || reserved(name) {
			continue
		}
		if !d.set(reflect.TypeFor[Config](), root, name, rest, value) {
			d.problems.list = append(d.problems.list, Problem{Where: "environment " + name,
				Text: "names no key of the configuration; see the section on the environment in docs/configuration.md, or unset it"})
		}
	}
}

// set descends from n, which holds a value of type t, along rest and sets the scalar at
// the end. It changes nothing if rest names no key.
func (d *decoder) set(t reflect.Type, n *yaml.Node, name, rest, value string) bool {
	if n.Kind == yaml.AliasNode {
		*n = *clone(n.Alias) // other aliases of the anchor keep their values
	}
	switch {
	case t == reflect.TypeFor[Denial]() && rest == "": // written as a string
		return d.setScalar(n, name, rest, value, "!!str")
	case t == reflect.TypeFor[Admin]() && rest == "" && len(n.Content) == 0: // written as its address
		return d.setScalar(n, name, rest, value, "!!str")
	case t == reflect.TypeFor[Admin]() && rest == "":
		return d.set(t, n, name, "ADDRESS", value)
	case t == reflect.TypeFor[Admin]() && n.Kind == yaml.ScalarNode:
		address := *n
		d.named[&address] = d.named[n]
		label := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "address", Line: n.Line}
		*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Content: []*yaml.Node{label, &address}}
	case t == reflect.TypeFor[Address](), t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[Size](), t == reflect.TypeFor[Date]():
		return d.setScalar(n, name, rest, value, "!!str")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.set(t.Elem(), n, name, rest, value)
	case reflect.String:
		return d.setScalar(n, name, rest, value, "!!str")
	case reflect.Bool:
		return d.setScalar(n, name, rest, value, "!!bool")
	case reflect.Int:
		return d.setScalar(n, name, rest, value, "!!int")
	case reflect.Struct:
		for field := range t.Fields() {
			key := field.Tag.Get("yaml")
			if below, ok := step(rest, key); ok && key != "-" {
				if d.setUnder(field.Type, n, key, name, below, value) {
					return true
				}
			}
		}
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return rest != "" && d.setUnder(t.Elem(), n, rest, name, "", value)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if below, ok := step(rest, n.Content[i].Value); ok && d.set(t.Elem(), n.Content[i+1], name, below, value) {
				return true
			}
		}
	case reflect.Slice:
		if t == reflect.TypeFor[List]() || t == reflect.TypeFor[Denials]() {
			if rest == "" {
				return d.setScalar(n, name, rest, value, "!!str")
			}
			if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" { // a list of one, written as its element
				one := *n
				d.named[&one] = d.named[n]
				*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Content: []*yaml.Node{&one}}
			}
		}
		digits, below, _ := strings.Cut(rest, "_")
		i, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || i > uint64(len(n.Content)) {
			return false
		}
		if i < uint64(len(n.Content)) {
			return d.set(t.Elem(), n.Content[i], name, below, value)
		}
		child := emptyNode(t.Elem())
		if !d.set(t.Elem(), child, name, below, value) {
			return false
		}
		d.named[child] = name
		*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Content: append(n.Content, child)}
		return true
	}
	return false
}

// setUnder is set for the entry key of the mapping n, which it adds if necessary.
func (d *decoder) setUnder(t reflect.Type, n *yaml.Node, key, name, rest, value string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return d.set(t, n.Content[i+1], name, rest, value)
		}
	}
	child := emptyNode(t)
	if !d.set(t, child, name, rest, value) {
		return false
	}
	d.named[child] = name
	label := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
	*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Content: append(n.Content, label, child)}
	return true
}

func (d *decoder) setScalar(n *yaml.Node, name, rest, value, tag string) bool {
	if rest != "" {
		return false
	}
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
	if tag != "!!str" {
		n.Tag = "" // resolved from the text, as in the file
	}
	d.named[n] = name
	return true
}

// clone copies a node and its content. Aliases in it stay aliases.
func clone(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = clone(child)
	}
	return &c
}

func emptyNode(t reflect.Type) *yaml.Node {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	case reflect.Slice:
		return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
}

// step removes key, in its form for variables, from the front of rest.
func step(rest, key string) (below string, ok bool) {
	spelled := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
	below, ok = strings.CutPrefix(rest, spelled)
	if !ok || below == "" {
		return "", ok
	}
	return strings.CutPrefix(below, "_")
}
