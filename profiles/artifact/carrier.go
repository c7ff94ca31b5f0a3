package artifact

// carrier is a buffer for a large chunk. The data is read into its final place in the
// payload, so it is not copied.
type carrier struct{ buf []byte }

// headroom is more than the octets in front of a chunk's data: an artifact_id, two numbers,
// and the keys and lengths of these, of the data and of the wrapper.
const headroom = MaxID + 64

// room returns the place for n octets of data, valid until the next call.
func (c *carrier) room(n int) []byte {
	if cap(c.buf) < headroom+n {
		c.buf = make([]byte, headroom+n, headroom+n+MaxToken)
	}
	c.buf = c.buf[:headroom+n]
	return c.buf[headroom : headroom+n : headroom+n]
}

// payload returns the payload of a chunk whose Data was returned by room. It is valid until
// the next call of room.
func (c *carrier) payload(m *Chunk) []byte {
	var b [headroom]byte
	head := m.appendHead(b[:0])
	c.buf = m.appendEnd(c.buf)
	copy(c.buf[headroom-len(head):], head)
	return c.buf[headroom-len(head):]
}
