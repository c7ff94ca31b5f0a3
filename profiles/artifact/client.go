package artifact

import (
	"cmp"
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

// Upload describes an artifact to upload.
type Upload struct {
	ArtifactID string
	Size       uint64
	Hash       [32]byte // SHA-256
	Metadata   []byte

	// Octets are the octets of the artifact. Required. One goroutine reads them.
	Octets io.ReaderAt

	// Chunk is the size of a chunk in octets, default 256 KiB. Window is how many chunks
	// may wait for their ACK, default 16. Both must be within the limits of the peer.
	Chunk, Window int

	// Sync shows whether octets are stored already. Without it, and where the peer does not
	// know it, the answer to the first chunk does.
	Sync profiles.Sync

	// Progress is called, by the same goroutine, with the number of octets that are durable
	// at the peer. May be nil.
	Progress func(durable uint64)
}

const defaultChunk = 256 << 10

// Fit makes the chunks fit the known limits of an endpoint to which the upload is forwarded.
func (u *Upload) Fit(l profiles.Limits) {
	u.Chunk = cmp.Or(u.Chunk, defaultChunk)
	for _, room := range []int{l.Payload, l.Frame - l.Extensions - envelopeRoom} {
		if room > 0 {
			u.Chunk = max(1, min(u.Chunk, room-chunkRoom-len(u.ArtifactID)))
		}
	}
}

func (u *Upload) withDefaults() Upload {
	o := *u
	o.Chunk = cmp.Or(o.Chunk, defaultChunk)
	if o.Window == 0 {
		o.Window = 16
	}
	if o.Progress == nil {
		o.Progress = func(uint64) {}
	}
	return o
}

// Send uploads an artifact; it continues where an earlier Send has stopped. It returns nil
// after the peer has verified and stored it.
//
// After an error the durable octets stay at the peer for the next Send. The error is a
// *profiles.PeerError if the peer refused, an *profiles.Error if either side refused a
// message, an error of Octets, that of ctx, or the reason why the connection has ended.
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

// sending is the state of Send.
type sending struct {
	Upload
	lane  profiles.Lane
	offer profiles.Call // has an answer if octets are stored, or it is refused
	calls []sent        // chunks that wait for their ACK
	next  uint64        // index of the next chunk
	at    uint64        // offset of the next chunk
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

// The octets of an interrupted upload may still be written or verified at the peer, which
// takes seconds for gigabytes. The offer is repeated for this time.
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

// begin offers the artifact and determines where to continue.
func (s *sending) begin(ctx context.Context) (complete bool, err error) {
	m := Offer{
		ArtifactID: []byte(s.ArtifactID), TotalSize: s.Size, HashAlg: []byte(HashSHA256), Hash: s.Hash[:], Metadata: s.Metadata,
	}
	s.offer, err = s.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeOffer, Payload: m.Append(make([]byte, 0, m.Size()))})
	if err != nil || s.Sync == nil {
		return false, err
	}
	if err := s.Sync(ctx, s.lane); err != nil {
		if unsure, ok := errors.AsType[*profiles.UnconfirmedError](err); !ok || unsure.Lost {
			return false, err
		}
		s.Sync = nil
	}
	return s.held()
}

// held reads the answer to the offer, if there is one. The peer answers in order, so it has
// arrived before the answer to any later message.
func (s *sending) held() (complete bool, err error) {
	past, cancel := context.WithCancel(context.Background())
	cancel()
	env, err := s.offer.Recv(past)
	switch {
	case errors.Is(err, context.Canceled):
		return false, nil // nothing is stored
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

// readAck reads the ACK of a chunk.
func readAck(env *e1.Envelope, id string, index uint64) error {
	if env.MsgType != TypeAck {
		return refusals.Read(env)
	}
	var m Ack
	if err := m.Decode(env.Payload); err != nil {
		return err
	}
	if m.ChunkIndex != index || string(m.ArtifactID) != id {
		return profiles.Errorf(profiles.InvalidProfilePayload, "artifact: ART_ACK of chunk %d, want %d", m.ChunkIndex, index)
	}
	return nil
}

// chunkRoom is an upper bound of the octets of a chunk besides its data and the id of its
// artifact, chunkExtensions of the extensions that are sent with one, and envelopeRoom of an
// envelope besides its extensions and its payload.
const (
	chunkRoom       = 64
	chunkExtensions = 512
	envelopeRoom    = 128
)

// chunk sends the next chunk.
func (s *sending) chunk(ctx context.Context) error {
	// The peer may have smaller limits than this endpoint.
	most := max(1, min(s.Chunk, profiles.Room(s.lane, chunkExtensions)-chunkRoom-len(s.ArtifactID)))
	n := int(min(uint64(most), s.Size-s.at))
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
	if err == nil {
		err = readAck(env, s.ArtifactID, c.index)
	}
	if refused, ok := errors.AsType[*profiles.PeerError](err); ok && refused.Code == CodeNotFound {
		refused.Later = true // the offer has ended, perhaps by another upload of the same octets: a new one shows it
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

// goOn continues at the place in the answer to the offer, after the first chunk was refused
// as not the next one: it was sent before that answer was known.
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
