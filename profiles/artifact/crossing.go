package artifact

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// crossing says how artifacts of partners are offered and downloaded. A chunk has only its
// artifact_id, so over one link one peer at a time may upload an artifact with that id.
func crossing() *profiles.Crossing {
	names := p1.Names{Messages: Messages, Field: "artifact_id"}
	c := names.Crossing(&refusals, map[uint64]profiles.Errand{
		TypeOffer: {Operation: "offer", Answers: profiles.Refusal, By: []uint64{TypeAck}},
		TypeGet:   {Operation: "get", Answers: profiles.Many},
		TypeChunk: {Operation: "chunk", Free: true, Part: true, By: []uint64{TypeAck}},
	})
	read := c.Read
	c.Read = func(env *e1.Envelope) (profiles.Errand, error) {
		e, err := read(env)
		switch {
		case err != nil:
			return e, err
		case env.MsgType == TypeOffer:
			e.Sole = profiles.Sole{On: e.Names[0], Begins: true}
		case env.MsgType == TypeChunk:
			var m Chunk
			err = m.Decode(env.Payload)
			e.Sole = profiles.Sole{On: e.Names[0], Ends: m.IsTerminal}
		}
		return e, err
	}
	of := c.Fits
	c.Fits = func(asked, answer *e1.Envelope) error {
		if err := of(asked, answer); err != nil || answer.MsgType != TypeAck {
			return err
		}
		return fits(asked, answer)
	}
	c.Pass = pass
	return c
}

// fits returns why an ACK about the right artifact does not belong to the message that was sent.
func fits(asked, answer *e1.Envelope) error {
	if asked.MsgType == TypeOffer {
		var m Offer
		if err := m.Decode(asked.Payload); err != nil {
			return err
		}
		durable, _, err := profiles.Uvarint(answer.Extensions, ExtDurable)
		if err == nil && durable > m.TotalSize {
			err = profiles.Errorf(profiles.InvalidProfilePayload, "artifact: %d octets durable of %d", durable, m.TotalSize)
		}
		return err
	}
	var m Chunk
	if err := m.Decode(asked.Payload); err != nil {
		return err
	}
	return readAck(answer, string(m.ArtifactID), m.ChunkIndex)
}

// passRange is how many octets of an artifact are requested from a partner at once, and
// buffered for a slow peer. Its size is not known, so one range follows the other: the partner
// refuses one that begins beyond the artifact.
const passRange = 2 << 20

// passFor is how long a GET waits for a partner that was lost, or has no room, before the
// peer gets an error.
const passFor = 30 * time.Second

// passSilence is how long a partner may take for the next chunk of a GET.
const passSilence = time.Minute

var passPauses = backoff.Exponential{First: 50 * time.Millisecond, Longest: 2 * time.Second}

// pass answers a GET with the data of a partner.
func pass(way *profiles.Way, req *profiles.Request, w profiles.Responder) (func(context.Context) error, error) {
	var m Get
	if err := m.Decode(req.Payload); err != nil {
		return nil, err
	}
	p := &passing{way: way, w: w, id: m.ArtifactID, Download: Download{
		ArtifactID: string(m.ArtifactID), Start: m.Start, End: m.End, ResumeToken: string(m.ResumeToken), Range: passRange,
	}}
	if way.Named {
		p.ArtifactID = strings.TrimPrefix(p.ArtifactID, way.Prefix)
	}
	p.Sink = p.send
	return p.run, nil
}

// passing is a GET that a partner answers, range by range.
type passing struct {
	Download
	way  *profiles.Way
	w    profiles.Responder
	id   []byte // of the artifact at this endpoint
	ctx  context.Context
	next uint64 // index of the next chunk
	buf  carrier
	err  error // of sending

	silence *time.Timer // ends what the partner does not go on with
}

// run answers the GET, and continues over the next session after a lost one.
func (p *passing) run(ctx context.Context) error {
	p.ctx = ctx
	retry := backoff.Retry{Pauses: passPauses, Patience: passFor}
	return retry.Run(ctx, func() (again bool, err error) {
		from := p.Start
		session, err := p.way.Session(ctx)
		if err == nil {
			err = p.receive(ctx, session)
		}
		if p.Start > from {
			retry.Moved()
		}
		return p.err == nil && p.again(err), err
	})
}

// again reports whether to continue after an error. One that is told at once, such as that
// there is no way to the partner, is waited for only by a GET that has begun.
func (p *passing) again(err error) bool {
	if refused, ok := errors.AsType[*profiles.PeerError](err); ok {
		return p.next > 0 && refused.Retryable()
	}
	fault, ok := errors.AsType[*profiles.Error](err)
	return !ok || p.next > 0 && fault.Retryable
}

// receive takes what comes over one session, until the partner falls silent.
func (p *passing) receive(ctx context.Context, session profiles.Session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.silence = time.AfterFunc(passSilence, func() { cancel(context.DeadlineExceeded) })
	defer p.silence.Stop()
	_, err := p.Receive(ctx, session)
	if errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

// send forwards a chunk to the peer.
func (p *passing) send(c *Chunk) error {
	p.silence.Stop() // until the peer has room
	defer p.silence.Reset(passSilence)
	on := Chunk{
		ArtifactID: p.id, ChunkIndex: p.next, Offset: c.Offset, Data: p.buf.room(len(c.Data)),
		IsTerminal: c.IsTerminal, ResumeToken: c.ResumeToken,
	}
	copy(on.Data, c.Data)
	last := c.IsTerminal || p.End != 0 && c.Offset+uint64(len(c.Data)) == p.End
	if p.err = p.w.Pace(p.ctx, len(c.Data)); p.err == nil {
		p.err = sendPatiently(p.ctx, p.w, e1.Envelope{MsgType: TypeChunk, Payload: p.buf.payload(&on)}, last)
	}
	if p.err != nil {
		return p.err
	}
	p.next++
	p.Start, p.ResumeToken = c.Offset+uint64(len(c.Data)), string(c.ResumeToken)
	return nil
}
