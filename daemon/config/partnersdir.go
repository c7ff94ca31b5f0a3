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

// partnerText is the content of the file of a partner.
type partnerText struct {
	name, file string
	text       []byte
}

// replaced is the content of a file of a partner that is not written yet.
type replaced map[string][]byte // by the name of the partner; nil: without it

// readPartners reads the files of the partners beside a configuration.
func readPartners(file string, instead replaced) (list []partnerText, err error) {
	dir := DirOfPartners(file)
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, ".yml") {
			at := filepath.Join(dir, name)
			return nil, Problems{{Where: at, Text: fmt.Sprintf("would be ignored; rename it to %s%s", strings.TrimSuffix(name, ".yml"), partnerExt), part: at}}
		}
		if isPartner(name) {
			names = append(names, strings.TrimSuffix(name, partnerExt))
		}
	}
	names = append(names, slices.Collect(maps.Keys(instead))...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		one := partnerText{name: name, file: PartnerFile(file, name)}
		text, known := instead[name]
		if known && text == nil {
			continue
		}
		if one.text = text; !known {
			if one.text, err = read(one.file); err != nil {
				return nil, err
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// include puts the entries of files into the section partners. Names that are in the main
// file as well are problems.
func (d *decoder) include(root *yaml.Node, files []partnerText) error {
	if len(files) == 0 {
		return nil
	}
	d.from = make(map[*yaml.Node]string)
	var broken Problems
	section := under(root, "partners")
	for _, f := range files {
		entry, err := document(f.file, f.text, reflect.TypeFor[Partner]())
		if list := (Problems)(nil); errors.As(err, &list) {
			for _, p := range list {
				p.part = f.file
				broken = append(broken, p)
			}
			continue
		} else if err != nil {
			return err
		}
		d.mark(entry, f.file)
		resolveIn(entry, filepath.Dir(f.file))
		key := "partners." + f.name
		if section != nil && section.Kind == yaml.AliasNode {
			section = section.Alias
		}
		if old := keyIn(section, f.name); old != nil {
			d.problems.list = append(d.problems.list, Problem{Where: f.file, Key: key, part: f.file,
				Text: fmt.Sprintf("is in %s as well; keep one of them", placeAt(d.file, old.Line))})
			continue
		}
		if section == nil || section.Kind != yaml.MappingNode {
			if section != nil && section.ShortTag() != "!!null" || root.Kind != yaml.MappingNode {
				continue // the section, or the file, is a problem itself
			}
			if section == nil {
				section = &yaml.Node{}
				label := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "partners"}
				root.Content = append(root.Content, label, section)
			}
			*section = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: section.Line}
		}
		label := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: f.name}
		d.from[label] = f.file
		section.Content = append(section.Content, label, entry)
	}
	if len(broken) > 0 {
		return broken
	}
	return nil
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
	root, err := document("", text, reflect.TypeFor[Partner]())
	if err != nil {
		return "", err
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
	root, err := document("", text, reflect.TypeFor[Partner]())
	if err != nil {
		return nil, err
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
