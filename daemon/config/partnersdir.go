package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// PartnersDir is the directory beside a configuration whose files NAME.yaml are read as
// partners.NAME. It need not exist.
const PartnersDir = "partners.d"

const partnerExt = ".yaml"

// DirOfPartners returns the directory of a configuration; empty without a file.
func DirOfPartners(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(file), PartnersDir)
}

// PartnerFile returns the file of a partner in the directory of a configuration.
func PartnerFile(file, name string) string {
	return filepath.Join(DirOfPartners(file), name+partnerExt)
}

// Files returns the files that a configuration is read from, and their directory, whether or
// not they exist. They are the ones to watch.
func Files(file string) []string {
	if file == "" {
		return nil
	}
	dir := DirOfPartners(file)
	list := []string{file, dir}
	entries, _ := os.ReadDir(dir) // reading the configuration reports it
	for _, e := range entries {
		if isPartner(e.Name()) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// isPartner reports whether a file in the directory describes a partner. Other files, such as
// certificates and files of editors, are ignored.
func isPartner(name string) bool {
	return strings.HasSuffix(name, partnerExt) && !strings.HasPrefix(name, ".")
}

// partnerText is the content of the file of a partner, or why it cannot be read.
type partnerText struct {
	name, file string
	text       []byte
	fault      *Problem
}

// readPartners reads the files of the partners beside a configuration.
func readPartners(file string, drafts Drafts) (list []partnerText) {
	dir := DirOfPartners(file)
	if dir == "" {
		return nil
	}
	wrong := func(key, at, text string) {
		list = append(list, partnerText{fault: &Problem{Where: at, Text: text, part: at, about: key}})
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		wrong("partners", dir, unreadable(err))
	}
	names := slices.Collect(maps.Keys(drafts))
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".yml"); is {
			wrong("partners."+name, filepath.Join(dir, e.Name()), "would be ignored; rename it to "+name+partnerExt)
		}
		if isPartner(e.Name()) {
			names = append(names, strings.TrimSuffix(e.Name(), partnerExt))
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		one := partnerText{name: name, file: PartnerFile(file, name)}
		draft, drafted := drafts[name]
		if drafted && draft == nil {
			continue
		}
		if one.text = draft; !drafted {
			if one.text, err = read(one.file); err != nil {
				wrong("partners."+name, one.file, unreadable(err))
				continue
			}
		}
		list = append(list, one)
	}
	return list
}

// include puts the entries of files into the section partners of a mapping. Names that are in the main
// file as well are problems.
func (d *decoder) include(root *yaml.Node, files []partnerText) {
	if len(files) == 0 {
		return
	}
	d.from = make(map[*yaml.Node]string)
	section := d.partnersIn(root)
	for _, f := range files {
		if f.fault != nil {
			d.problems.list = append(d.problems.list, *f.fault)
			continue
		}
		key := "partners." + f.name
		entry, faults := document(f.file, f.text, reflect.TypeFor[Partner]())
		for _, p := range faults {
			p.part, p.about = f.file, key
			d.problems.list = append(d.problems.list, p)
		}
		if entry == nil {
			continue
		}
		d.mark(entry, f.file)
		resolveIn(entry, filepath.Dir(f.file))
		if old := keyIn(section, f.name); old != nil {
			d.addFrom(origin{where: f.file, part: f.file}, key, "is in %s as well; keep one of them", placeAt(d.file, old.Line))
			continue
		}
		label := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: f.name}
		d.from[label] = f.file
		section.Content = append(section.Content, label, entry)
	}
}

// partnersIn returns the mapping under partners. If something else is there, that is a problem, and replaced.
func (d *decoder) partnersIn(root *yaml.Node) *yaml.Node {
	section := under(root, "partners")
	if section != nil && section.Kind == yaml.AliasNode {
		section = section.Alias
	}
	if section != nil && section.Kind == yaml.MappingNode {
		return section
	}
	empty := emptyNode(reflect.TypeFor[Partners]())
	if section == nil {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "partners"}, empty)
		return empty
	}
	empty.Line = section.Line
	for i := 0; i+1 < len(root.Content); i += 2 {
		if label := root.Content[i]; label.Value == "partners" {
			if section.ShortTag() != "!!null" {
				d.addFrom(d.originOf(label), "partners", "%s, want a mapping from names", d.describe("partners", section))
			}
			root.Content[i+1] = empty
			break
		}
	}
	return empty
}

// mark records the file of a node and of all below it.
func (d *decoder) mark(n *yaml.Node, file string) {
	d.from[n] = file
	for _, c := range n.Content {
		d.mark(c, file)
	}
}

// resolveIn makes the paths in the entry of a partner relative to its own file.
func resolveIn(entry *yaml.Node, dir string) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return // the main file cannot be resolved either
	}
	for _, list := range []*yaml.Node{under(entry, "trust"), under(entry, "crl"), under(under(entry, "bundle"), "ca")} {
		if list == nil || list.Kind != yaml.SequenceNode {
			continue
		}
		for _, n := range list.Content {
			if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value != "" && !filepath.IsAbs(n.Value) {
				n.Value = filepath.Join(abs, n.Value)
			}
		}
	}
}

// keyIn returns the node of a key in a mapping, or nil.
func keyIn(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i]
		}
	}
	return nil
}

// StateIn returns the state in the text of the file of a partner. The rest of the text must be YAML, and
// is not checked.
func StateIn(text []byte) (string, error) {
	root, faults := document("", text, reflect.TypeFor[Partner]())
	if faults != nil {
		return "", faults
	}
	n := under(root, "state")
	if n == nil {
		return StateActive, nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Value {
	case StateActive, StateSuspended, StateRevoked:
		return n.Value, nil
	}
	return "", fmt.Errorf("state: is %.80q, want active, suspended or revoked", n.Value)
}

// SetState returns the text of the file of a partner with another state. Comments and layout
// stay.
func SetState(text []byte, state string) ([]byte, error) {
	return setKey(text, "state", "state: "+state+"\n")
}

// SetPinned returns the text of the file of a partner with other pinned tools.
func SetPinned(text []byte, pins map[string]string) ([]byte, error) {
	var b strings.Builder
	if len(pins) > 0 {
		b.WriteString("pinned:\n")
		for _, tool := range slices.Sorted(maps.Keys(pins)) {
			name, err := json.Marshal(tool)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "  %s: %s\n", name, pins[tool])
		}
	}
	return setKey(text, "pinned", b.String())
}

// setKey replaces the lines of a key of a partner, or adds them at the end.
func setKey(text []byte, key, written string) ([]byte, error) {
	root, faults := document("", text, reflect.TypeFor[Partner]())
	if faults != nil {
		return nil, faults
	}
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("its keys are not in lines of their own; write there by hand:\n%s", written)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if label := keyIn(root, key); label != nil {
		value := under(root, key)
		block := value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0
		last := lastLine(value)
		if !block && (last != label.Line || value.Kind == yaml.SequenceNode || value.Kind == yaml.AliasNode) {
			return nil, fmt.Errorf("the key %s has no value in its line; write it by hand:\n%s", key, written)
		}
		lines[label.Line-1] = written
		return []byte(strings.Join(slices.Delete(lines, label.Line, max(last, label.Line)), "")), nil
	}
	if last := len(lines) - 1; lines[last] != "" {
		lines[last] += "\n"
	}
	return []byte(strings.Join(lines, "") + written), nil
}
