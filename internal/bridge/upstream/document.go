package upstream

import "io"

// maxChecked is the size, in octets, up to which an object is checked before the end of its body.
const maxChecked = 4 << 10

// document reads a body and finds the end of its first JSON object.
type document struct {
	from  io.Reader
	check func(object []byte) error

	seen             []byte // the object so far, up to maxChecked and one more
	depth            int    // of objects and arrays
	quoted, escaped  bool
	begun, over, bad bool
}

func (d *document) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	for _, c := range p[:n] {
		space := c == ' ' || c == '\n' || c == '\r' || c == '\t'
		d.bad = d.bad || !space && (d.over || !d.begun && c != '{')
		if d.bad || d.over {
			continue
		}
		if len(d.seen) <= maxChecked {
			d.seen = append(d.seen, c)
		}
		d.take(c)
		if d.over && len(d.seen) <= maxChecked {
			if fault := d.check(d.seen); fault != nil {
				return n, fault
			}
		}
	}
	if d.bad {
		return n, d.check(nil)
	}
	return n, err
}

func (d *document) take(c byte) {
	switch {
	case d.escaped:
		d.escaped = false
	case d.quoted:
		d.escaped, d.quoted = c == '\\', c != '"'
	case c == '"':
		d.quoted = true
	case c == '{', c == '[':
		d.begun = true
		d.depth++
	case c == '}', c == ']':
		d.depth--
		d.over = d.begun && d.depth <= 0
	}
}
