package config

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// Needs are the parts of a configuration that somebody uses, by keys such as data or partners.acme:
// a key stands for itself and for all keys below it.
type Needs struct {
	Keys  []string // whose values are used
	Files []string // the same, and of which the files, directories and programs that they name are used, too
}

// everything is needed to serve: no key is above the empty one.
var everything = Needs{Files: []string{""}}

// Drafts are texts of files of partners in PartnersDir that are not written yet, by the name of the partner; nil:
// the partner has no file.
type Drafts map[string][]byte

// Load is the function Load for a command that does not serve. The error has the problems of the needed keys. unneeded
// are the problems of other keys: their values cannot be used. Load opens no files, and looks for no directories and
// programs, that other keys than n.Files name.
func (n Needs) Load(file string, environ []string, drafts Drafts) (c *Config, unneeded Problems, err error) {
	return n.load(file, environ, drafts)
}

func (n Needs) load(file string, environ []string, drafts Drafts, own ...*profiles.Profile) (*Config, Problems, error) {
	text, err := read(file)
	if err != nil {
		return nil, nil, err
	}
	return n.parse(file, text, readPartners(file, drafts), environ, own...)
}

// looks reports whether the files, directories and programs that a key names are needed.
func (n Needs) looks(key string) bool {
	return slices.ContainsFunc(n.Files, func(need string) bool { return Within(key, need) })
}

// divide returns the problems of the needed keys, in the order of the files, and the others.
func (n Needs) divide(c *Config, list Problems) (needed, unneeded Problems) {
	list.sort()
	for _, p := range list {
		if slices.ContainsFunc(slices.Concat(n.Keys, n.Files), func(need string) bool { return p.concerns(c, need) }) {
			needed = append(needed, p)
		} else {
			unneeded = append(unneeded, p)
		}
	}
	return needed, unneeded
}

// concerns reports whether the value of a key, or of one below it, depends on the correction of a problem. A partner
// that has a file depends on that file alone.
func (p *Problem) concerns(c *Config, need string) bool {
	file := c.fileOf(need)
	return (file == "" || file == p.part) && (Within(p.about, need) || Within(need, p.about))
}

// fileOf returns the file of the partner to which a key belongs; empty for other keys.
func (c *Config) fileOf(key string) (file string) {
	longest := 0
	for name, own := range c.PartnerFiles {
		if section := "partners." + name; len(section) > longest && Within(key, section) {
			file, longest = own, len(section)
		}
	}
	return file
}

// Within reports whether a key is the key of a section, or below it.
func Within(key, section string) bool {
	rest, ok := strings.CutPrefix(key, section)
	return ok && (section == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}
