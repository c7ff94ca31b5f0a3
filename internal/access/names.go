package access

// Names is a set of patterns, for packages that compare names but decide no access. It is
// immutable and safe for concurrent use.
type Names struct{ list patterns }

// NewNames compiles patterns in the syntax of rules.
func NewNames(texts []string) (*Names, error) {
	list, err := compileAll(texts)
	if err != nil {
		return nil, err
	}
	return &Names{list}, nil
}

// Match reports whether some pattern matches a name.
func (n *Names) Match(name string) bool { return n.list.match(name) }
