package artifact

import (
	"context"
	"errors"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Download describes an artifact, or a part of one, to download.
type Download struct {
	ArtifactID string

	// Start is the first octet, End the one after the last; an End of 0 means all.
	Start, End uint64

	// ResumeToken, if set, came with the octet before Start. With it the download fails if
	// the artifact has changed.
	ResumeToken string

	// Size is the size of the artifact; 0 means unknown. If it is known, the next range is
	// requested before the previous one has arrived.
	Size uint64

	// Range is how many octets are requested at once, default 4 MiB. They are held in
	// memory until Sink has returned.
	Range uint64

	// Sink is called with the chunks, in order. A chunk is valid until Sink returns. Its
	// ResumeToken, if not empty, is for a Download that starts after it. If Sink returns an
	// error, the download ends. Required.
	Sink func(c *Chunk) error
}

// Receive downloads the artifact and returns the end of the received octets. The error is a
// *profiles.PeerError if the peer refused, an *profiles.Error if either side refused a
// message, that of Sink, that of ctx, or the reason why the connection has ended. Octets
// that Sink has accepted before are valid.
func (d Download) Receive(ctx context.Context, on profiles.Session) (end uint64, err error) {
	if d.Range == 0 {
		d.Range = 4 << 20
	}
	lane, err := on.Open(ctx)
	if err != nil {
		return d.Start, err
	}
	defer func() { _ = lane.Close() }()
	r := receiving{Download: d, lane: lane, at: d.Start, asked: d.Start}
	defer r.close()
	for !r.over {
		for len(r.calls) < r.ahead() {
			if err := r.ask(ctx); err != nil {
				return r.at, err
			}
		}
		if len(r.calls) == 0 {
			break
		}
		if err := r.receive(ctx); err != nil {
			return r.at, err
		}
	}
	return r.at, nil
}

// receiving is the state of Receive.
type receiving struct {
	Download
	lane  profiles.Lane
	calls []asked
	asked uint64 // up to here
	at    uint64 // octets up to here were passed to Sink
	begun bool
	over  bool // the artifact has ended
}

type asked struct {
	profiles.Call
	end  uint64 // of the range
	next uint64 // index of the next chunk
}

func (r *receiving) close() {
	for _, c := range r.calls {
		c.Close()
	}
}

// ahead is how many ranges may be requested now.
func (r *receiving) ahead() int {
	switch limit := r.limit(); {
	case !r.begun:
		return 1
	case limit != 0 && r.asked >= limit:
		return 0
	case r.Size != 0:
		return 2
	}
	return 1 // another range may begin beyond the artifact
}

// limit returns where the download ends at the latest; 0 if that is not known.
func (r *receiving) limit() uint64 {
	if r.Size == 0 || r.End != 0 && r.End < r.Size {
		return r.End
	}
	return r.Size
}

// ask sends the next GET.
func (r *receiving) ask(ctx context.Context) error {
	end := r.asked + r.Range
	if end < r.asked {
		return fmt.Errorf("artifact: range of %d octets at %d", r.Range, r.asked)
	}
	if r.End != 0 {
		end = min(end, r.End)
	}
	m := Get{ArtifactID: []byte(r.ArtifactID), Start: r.asked, End: end}
	if !r.begun {
		m.ResumeToken = []byte(r.ResumeToken)
	}
	call, err := r.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeGet, Payload: m.Append(make([]byte, 0, m.Size()))})
	if err != nil {
		return err
	}
	r.begun = true
	r.asked = end
	r.calls = append(r.calls, asked{Call: call, end: end})
	return nil
}

var errSequence = errors.New("artifact: chunk out of order")

// receive handles one chunk of the oldest GET.
func (r *receiving) receive(ctx context.Context) error {
	c := &r.calls[0]
	env, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	if env.MsgType != TypeChunk {
		return refusals.Read(env)
	}
	var m Chunk
	if err := m.Decode(env.Payload); err != nil {
		return err
	}
	after := m.Offset + uint64(len(m.Data))
	stuck := after == r.at && !m.IsTerminal && c.end > r.at
	if string(m.ArtifactID) != r.ArtifactID || m.ChunkIndex != c.next || m.Offset != r.at || after < r.at || after > c.end || stuck {
		return &profiles.Error{
			Code: profiles.InvalidProfilePayload, Cause: errSequence,
			Text: fmt.Sprintf("artifact: chunk %d at %d, want chunk %d at %d", m.ChunkIndex, m.Offset, c.next, r.at),
		}
	}
	if err := r.Sink(&m); err != nil {
		return err
	}
	c.next++
	r.at = after
	if r.over = m.IsTerminal; r.over || r.at == c.end {
		profiles.Completed(c.Call)
		c.Close()
		r.calls = r.calls[1:]
	}
	return nil
}
