package conformance

import (
	"encoding/binary"
	"io"

	"github.com/slimwire/swp/frame"
)

// peer is the other end of a connection of the endpoint under test. ended and
// waiting are called with the stage's mu held.
type peer interface {
	// send writes octets, which need not be frames, and says which frames of
	// the connection they are. Write errors are not errors here: their effects
	// are observed.
	send(octets []byte, flip bool) span

	altered() bool // the bit of the last flip was inverted
	hangUp() error // nothing more is sent
	ended() bool   // the endpoint has ended the connection, knows it itself, and all was read
	waiting() bool // a frame has come that next has not returned
	next() []byte  // the next frame that came, or nil
	last() []byte  // what next returned last
}

// span is a range of frames of a connection, counted from 1.
type span struct{ first, last uint64 }

func (s span) none() bool { return s.last < s.first }

// wirePeer speaks frames over a stream of octets. It has no opinion on what it
// reads or writes.
type wirePeer struct {
	s    *stage
	name string
	rw   interface {
		io.ReadWriter
		CloseWrite() error
	}
	sent uint64

	// flip has the wire damage the next record or packet that has room for so many octets,
	// and flipped reports whether it has. Nil where none can be damaged.
	flip    func(octets int)
	flipped func() bool

	// Guarded by the stage's mu.
	frames [][]byte
	taken  int
	over   bool
}

// newWirePeer reads from rw in the background until it ends.
func (s *stage) newWirePeer(name string, rw interface {
	io.ReadWriter
	CloseWrite() error
}) *wirePeer {
	p := &wirePeer{s: s, name: name, rw: rw}
	go p.read()
	return p
}

func (p *wirePeer) read() {
	r := frame.NewReader(p.rw, frame.Options{Limit: frame.MaxLimit})
	for {
		body, err := r.Next()
		if err != nil {
			p.s.change(func() { p.over = true })
			return
		}
		whole := frame.Append(nil, body)
		p.s.change(func() { p.frames = append(p.frames, whole) })
	}
}

func (p *wirePeer) send(octets []byte, flip bool) span {
	n := countFrames(octets)
	sp := span{p.sent + 1, p.sent + n}
	p.sent += n
	if flip && p.flip != nil {
		p.flip(len(octets))
	}
	if len(octets) > 0 {
		_, _ = p.rw.Write(octets)
	}
	return sp
}

func (p *wirePeer) altered() bool { return p.flip != nil && p.flipped() }
func (p *wirePeer) hangUp() error { return p.rw.CloseWrite() }
func (p *wirePeer) ended() bool   { return p.over && p.s.left[p.name] }
func (p *wirePeer) waiting() bool { return p.taken < len(p.frames) }

func (p *wirePeer) next() []byte {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.taken == len(p.frames) {
		return nil
	}
	p.taken++
	return p.frames[p.taken-1]
}

func (p *wirePeer) last() []byte {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.taken == 0 {
		return nil
	}
	return p.frames[p.taken-1]
}

// countFrames says how many frames a receiver finds in octets: whole ones, and
// one more if something is left over.
func countFrames(octets []byte) uint64 {
	var n uint64
	for len(octets) > 0 {
		n++
		if len(octets) < frame.HeaderSize {
			break
		}
		size := uint64(binary.BigEndian.Uint32(octets))
		if size == 0 || size > uint64(len(octets)-frame.HeaderSize) {
			break
		}
		octets = octets[frame.HeaderSize+int(size):]
	}
	return n
}
