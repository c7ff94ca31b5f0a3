package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/state"
)

// countType is the type of all events.
const countType = "crash.count"

// produce publishes numbered events. What was not confirmed is published again.
func (w *worker) produce(ctx context.Context) {
	acked := w.past.last(anEvent, w.series)
	w.persist(ctx, func(ctx context.Context, c *client.Client) error {
		p, err := c.Publisher(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		for batch := uint64(1); ; batch = batch%16 + 1 {
			w.j.begin(entry{What: didBegin, Kind: anEvent, ID: w.series, Seq: acked + batch})
			for n := acked + 1; n <= acked+batch; n++ {
				e := numbered(w.series, n)
				e.EventType = []byte(w.of(countType))
				if err := p.Publish(ctx, e); err != nil {
					w.fault(string(e.EventID), err)
					return err
				}
			}
			if err := p.Sync(ctx); err != nil {
				w.fault(w.series, err)
				return err
			}
			acked += batch
			w.j.begin(entry{What: didReach, Kind: anEvent, ID: w.series, Seq: acked})
			w.rest(ctx)
		}
	})
}

// numbered is event n of a producer, the same each time it is published.
func numbered(producer string, n uint64) *events.Record {
	id := eventID(producer, n)
	return &events.Record{
		EventID: id, EventType: []byte(countType), Severity: []byte("info"), Timestamp: 1 + n, MsgID: id,
		Body: bytes.Repeat(id, 1+200/len(id)),
	}
}

func eventID(producer string, n uint64) []byte { return fmt.Appendf(nil, "%s/%d", producer, n) }

// digestOf is the digest of an event as a subscriber gets it.
func digestOf(r *events.Record) string {
	return digest(fmt.Appendf(nil, "%s %s %d %s %s", r.EventType, r.Severity, r.Timestamp, r.MsgID, r.Body))
}

// deltaEvery is how far the states are apart that get a delta.
const deltaEvery = 8

// putStates puts states, each made from the two before it, parents and children in one
// go, and adds a delta to some. What was not confirmed is put again. States of a partner are
// named by a target alone.
func (w *worker) putStates(ctx context.Context) {
	acked, changed := w.past.last(aState, w.series), w.past.last(aDelta, w.series)
	l := w.line(w.far)
	defer l.close()
	l.do(ctx, func(ctx context.Context, c *client.Client) error {
		for batch := uint64(1); ; batch = batch%16 + 1 {
			var states []state.State
			for n := acked + 1; n <= acked+batch; n++ {
				states = append(states, grown(w.series, n))
			}
			w.j.begin(entry{What: didBegin, Kind: aState, ID: w.series, Seq: acked + batch})
			confirmed, err := c.PutStates(ctx, states...)
			acked += uint64(confirmed)
			w.j.begin(entry{What: didReach, Kind: aState, ID: w.series, Seq: acked})
			if err != nil {
				w.fault(fmt.Sprintf("state %d of %s", acked+1, w.series), err)
				return err
			}
			for ; changed+deltaEvery <= acked; changed += deltaEvery {
				s := grown(w.series, changed+deltaEvery)
				if err := c.AddStateDelta(ctx, s.ID, changeOf(w.series, changed+deltaEvery), s.Parents...); err != nil {
					return err
				}
				w.j.begin(entry{What: didReach, Kind: aDelta, ID: w.series, Seq: changed + deltaEvery})
			}
			w.rest(ctx)
		}
	})
}

func blobOf(writer string, n uint64) []byte {
	return fmt.Appendf(nil, "state %d of writer %s", n, writer)
}

func changeOf(writer string, n uint64) []byte {
	return fmt.Appendf(nil, "\x00\xff change of state %d of writer %s", n, writer)
}

// grown is state n of a writer, the same each time it is put.
func grown(writer string, n uint64) state.State {
	s := state.State{Blob: blobOf(writer, n), Metadata: fmt.Appendf(nil, "%s/%d", writer, n)}
	s.ID = state.IDOf(s.Blob)
	for back := uint64(1); back <= 2 && back < n; back++ {
		s.Parents = append(s.Parents, state.IDOf(blobOf(writer, n-back)))
	}
	return s
}

// digestOfState is the digest of a state as whoever gets it sees it, and digestOfChange
// that of a delta.
func digestOfState(s *state.State) string {
	return digest(fmt.Appendf(nil, "%s %s %x", s.Blob, s.Metadata, s.Parents))
}

func digestOfChange(c *state.Change) string {
	return digest(fmt.Appendf(nil, "%s %x", c.Delta, c.Parents))
}

// upload uploads one artifact after the other, first those that a process before has begun.
func (w *worker) upload(ctx context.Context) {
	luck := w.chances("uploads")
	for _, e := range w.past.owed(anArtifact) {
		w.put(ctx, e.ID, e.Seq)
	}
	for n := 0; ctx.Err() == nil; n++ {
		size := 1 + luck.Uint64N(64<<10)
		if luck.IntN(8) == 0 {
			size = 1 + luck.Uint64N(6<<20)
		}
		w.put(ctx, fmt.Sprintf("%s.artifact-%d", w.Name, n), size)
		wait(ctx, 5*w.pace)
	}
}

// put uploads an artifact, over as many connections as it takes.
func (w *worker) put(ctx context.Context, id string, size uint64) {
	octets := octetsOf(id, size)
	sum := sha256.Sum256(octets)
	w.j.begin(entry{What: didBegin, Kind: anArtifact, ID: id, Seq: size, Payload: hex.EncodeToString(sum[:])})
	to := client.Transfer{Connect: w.connect}
	for ctx.Err() == nil {
		err := to.Put(ctx, artifact.Upload{ArtifactID: w.of(id), Size: size, Hash: sum, Octets: bytes.NewReader(octets)})
		if err == nil {
			w.j.begin(entry{What: didEnd, Kind: anArtifact, ID: id, Text: endOK})
			return
		}
		w.fault(id, err)
		wait(ctx, retryPause)
	}
}

// octetsOf are those of an artifact, the same each time it is uploaded.
func octetsOf(id string, size uint64) []byte {
	octets := make([]byte, size)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(id))).Read(octets) // never fails
	return octets
}
