package upstream

// document finds the end of the first JSON object of a body that arrives.
type document struct {
	check func(object []byte) error

	at              int // octets that were looked at
	depth           int // of objects and arrays
	quoted, escaped bool
	begun, over     bool
}

// look looks at the octets of the body so far. Its error is that of check: for the object, or for nil if the body has
// something else before or after the object.
func (d *document) look(body []byte) error {
	for d.at < len(body) {
		c := body[d.at]
		d.at++
		switch space := c == ' ' || c == '\n' || c == '\r' || c == '\t'; {
		case space && (d.over || !d.begun):
			continue
		case d.over, !d.begun && c != '{':
			return d.check(nil)
		}
		if d.take(c); d.over {
			if err := d.check(body[:d.at]); err != nil {
				return err
			}
		}
	}
	return nil
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
		d.over = d.depth <= 0
	}
}
