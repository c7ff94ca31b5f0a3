package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
)

// hasCode reports whether an error is an ART_ERR of a code.
func hasCode(err error, code string) bool {
	var refused *profiles.PeerError
	return errors.As(err, &refused) && refused.Code == code
}

// Upload is an artifact to be uploaded.
type Upload struct {
	ArtifactID string
	Size       uint64
	Hash       [32]byte // SHA-256
	Metadata   []byte

	// Octets are the octets of the artifact. Required, and asked from one
	// goroutine.
	Octets io.ReaderAt

	// Chunk is how many octets of data go into one chunk, default 256 KiB, and
	// Window how many chunks wait for their ACK, default 16. Both have to fit the
	// limits of the other end.
	Chunk, Window int

	// Sync waits until what was sent on a lane is processed: rpc's MethodSync.
	// Without it the first chunk is sent to learn that it is held already.
	Sync func(ctx context.Context, on profiles.Lane) error

	// Progress is told, from the same goroutine, how many octets are durable at
	// the other end. May be nil.
	Progress func(durable uint64)
}

func (u *Upload) withDefaults() Upload {
	o := *u
	if o.Chunk == 0 {
		o.Chunk = 256 << 10
	}
	if o.Window == 0 {
		o.Window = 16
	}
	if o.Progress == nil {
		o.Progress = func(uint64) {}
	}
	return o
}

// Send uploads an artifact, from where an earlier Send has left off. It returns
// nil once the other end has verified it and keeps it.
//
// Any other end leaves what is durable at the other end for the next Send. The
// error is a *profiles.PeerError if the other end refused, an *profiles.Error if either
// side refused a message, that of Octets, the context's, or why the connection
// has ended.
func (u Upload) Send(ctx context.Context, on profiles.Session) error {
	u = u.withDefaults()
	if u.Chunk < 1 || u.Window < 1 {
		return fmt.Errorf("artifact: Chunk %d and Window %d, want at least 1", u.Chunk, u.Window)
	}
	lane, err := on.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	s := sending{Upload: u, lane: lane}
	defer s.close()
	return s.run(ctx)
}

// sending is one Send.
type sending struct {
	Upload
	lane  profiles.Lane
	offer profiles.Call // answered if something is held, or it is refused
	calls []sent        // chunks that wait for their ACK
	next  uint64        // index of the next chunk
	at    uint64        // and where it begins
	over  bool          // the last chunk was sent
	buf   carrier
}

type sent struct {
	profiles.Call
	index, end uint64
	last       bool
}

func (s *sending) close() {
	for _, c := range s.calls {
		c.Close()
	}
	s.calls = nil
	if s.offer != nil {
		s.offer.Close()
		s.offer = nil
	}
}

func (s *sending) run(ctx context.Context) error {
	complete, err := s.beginPatiently(ctx)
	for err == nil && !complete {
		for err == nil && !s.over && len(s.calls) < s.Window {
			err = s.chunk(ctx)
		}
		if err == nil {
			complete, err = s.receive(ctx)
		}
	}
	return err
}

// An upload that was cut off may still be written, or verified, at the other end,
// which takes seconds for gigabytes. The offer is repeated until then.
const busyFor = 5 * time.Minute

var busyPauses = backoff.Exponential{First: 20 * time.Millisecond, Longest: time.Second}

func (s *sending) beginPatiently(ctx context.Context) (complete bool, err error) {
	deadline := time.Now().Add(busyFor)
	for n := 0; ; n++ {
		complete, err = s.begin(ctx)
		if !hasCode(err, CodeBusy) || time.Now().After(deadline) {
			return complete, err
		}
		s.close()
		if err := backoff.Wait(ctx, busyPauses.After(n)); err != nil {
			return false, err
		}
	}
}

// begin offers the artifact and learns where to go on.
func (s *sending) begin(ctx context.Context) (complete bool, err error) {
	m := Offer{
		ArtifactID: []byte(s.ArtifactID), TotalSize: s.Size, HashAlg: []byte(HashSHA256), Hash: s.Hash[:], Metadata: s.Metadata,
	}
	s.offer, err = s.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeOffer, Payload: m.Append(make([]byte, 0, m.Size()))})
	if err != nil || s.Sync == nil {
		return false, err
	}
	if err := s.Sync(ctx, s.lane); err != nil {
		return false, err
	}
	return s.held()
}

// held looks at the answer to the offer, if there is one: the other end answers
// in order, so that it is here before the answer to any later message.
func (s *sending) held() (complete bool, err error) {
	past, cancel := context.WithCancel(context.Background())
	cancel()
	env, err := s.offer.Recv(past)
	switch {
	case errors.Is(err, context.Canceled):
		return false, nil // nothing is held
	case err != nil:
		return false, err
	case env.MsgType != TypeAck:
		return false, refusals.Read(env)
	}
	var m Ack
	if err := m.Decode(env.Payload); err != nil {
		return false, err
	}
	durable, ok, err := profiles.Uvarint(env.Extensions, ExtDurable)
	if err != nil {
		return false, err
	}
	if !ok || durable > s.Size || string(m.ArtifactID) != s.ArtifactID {
		return false, profiles.Errorf(profiles.InvalidProfilePayload, "artifact: the offer is answered with %d octets durable of %d, given %v", durable, s.Size, ok)
	}
	s.next, s.at = m.ChunkIndex+1, durable
	s.Progress(durable)
	return durable == s.Size, nil
}

// chunk sends the next chunk.
func (s *sending) chunk(ctx context.Context) error {
	n := int(min(uint64(s.Chunk), s.Size-s.at))
	m := Chunk{
		ArtifactID: []byte(s.ArtifactID), ChunkIndex: s.next, Offset: s.at, Data: s.buf.room(n), IsTerminal: s.at+uint64(n) == s.Size,
	}
	if got, err := s.Octets.ReadAt(m.Data, int64(s.at)); got < n {
		return fmt.Errorf("artifact: reading octets %d to %d: %w", s.at, s.at+uint64(n), err)
	}
	call, err := s.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeChunk, Payload: s.buf.payload(&m)})
	if err != nil {
		return err
	}
	s.at += uint64(n)
	s.calls = append(s.calls, sent{call, s.next, s.at, m.IsTerminal})
	s.next++
	s.over = m.IsTerminal
	return nil
}

// receive waits for the ACK of the oldest chunk.
func (s *sending) receive(ctx context.Context) (complete bool, err error) {
	c := s.calls[0]
	env, err := c.Recv(ctx)
	if err == nil && env.MsgType != TypeAck {
		err = refusals.Read(env)
	}
	var m Ack
	if err == nil {
		err = m.Decode(env.Payload)
	}
	if err == nil && (m.ChunkIndex != c.index || string(m.ArtifactID) != s.ArtifactID) {
		err = profiles.Errorf(profiles.InvalidProfilePayload, "artifact: ART_ACK of chunk %d, want %d", m.ChunkIndex, c.index)
	}
	if c.index == 0 && s.Sync == nil && (hasCode(err, CodeOrdering) || hasCode(err, CodeNotFound)) {
		return s.goOn(ctx, err)
	}
	if err != nil {
		return false, err
	}
	c.Close()
	s.calls = s.calls[1:]
	s.Progress(c.end)
	return c.last, nil
}

// goOn resumes at the place in the answer to the offer, after the first chunk
// turned out not to be the next one: it was sent without waiting for that
// answer.
func (s *sending) goOn(ctx context.Context, cause error) (complete bool, err error) {
	for _, c := range s.calls {
		c.Close()
	}
	s.calls, s.over = nil, false
	complete, err = s.held()
	switch {
	case hasCode(err, CodeBusy):
		s.offer.Close()
		s.offer, s.next, s.at = nil, 0, 0
		if err := backoff.Wait(ctx, busyPauses.Longest); err != nil {
			return false, err
		}
		return s.beginPatiently(ctx)
	case err == nil && s.next == 0:
		err = cause
	}
	return complete, err
}
