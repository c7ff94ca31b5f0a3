package tooldisc

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// catalogue holds all tools at one time, in octet order of tool_id and version. It is
// immutable.
type catalogue struct {
	entries []*entry
	schemas map[digest][]*entry // entries with the schema
}

// newCatalogue merges several lists. Of entries with the same tool_id and version the first
// one is used.
func newCatalogue(lists ...[]*entry) *catalogue {
	c := &catalogue{entries: slices.Concat(lists...), schemas: make(map[digest][]*entry)}
	slices.SortStableFunc(c.entries, func(a, b *entry) int { return a.compare(b.ID, b.Version) })
	c.entries = slices.CompactFunc(c.entries, func(a, b *entry) bool { return a.compare(b.ID, b.Version) == 0 })
	for _, e := range c.entries {
		if e.schema != nil {
			sum := sha256.Sum256(e.schema)
			c.schemas[sum] = append(c.schemas[sum], e)
		}
	}
	return c
}

func (e *entry) compare(id, version string) int {
	return cmp.Or(cmp.Compare(e.ID, id), cmp.Compare(e.Version, version))
}

// from returns the entries that do not come before a tool.
func (c *catalogue) from(id, version string) []*entry {
	i, _ := slices.BinarySearchFunc(c.entries, struct{}{}, func(e *entry, _ struct{}) int { return e.compare(id, version) })
	return c.entries[i:]
}

// after returns the entries after a tool, which need not exist any more.
func (c *catalogue) after(id, version string) []*entry {
	rest := c.from(id, version)
	if len(rest) > 0 && rest[0].compare(id, version) == 0 {
		rest = rest[1:]
	}
	return rest
}

// find returns a version of a tool, or nil. An empty version means the highest.
func (c *catalogue) find(id, version string) (best *entry) {
	for _, e := range c.from(id, version) {
		switch {
		case e.ID != id:
			return best
		case version != "":
			if e.Version == version {
				return e
			}
			return nil
		case best == nil || CompareVersions(e.Version, best.Version) >= 0:
			best = e
		}
	}
	return best
}
