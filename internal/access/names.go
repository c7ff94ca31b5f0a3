package access

// Names are patterns of names, for those who have to tell names apart but decide
// nothing. It is immutable and safe for concurrent use.
type Names struct{ list patterns }

// NewNames compiles patterns as New does those of rules.
func NewNames(texts []string) (*Names, error) {
	list, err := compileAll(texts)
	if err != nil {
		return nil, err
	}
	return &Names{list}, nil
}

// Match reports whether some pattern matches a name.
func (n *Names) Match(name string) bool { return n.list.match(name) }
