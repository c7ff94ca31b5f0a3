package artifact_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

// The chunks after one that could not be stored are not the next ones, and the
// upload goes on behind the last one that was.
func TestAFailedWriteStopsTheChunksBehindIt(t *testing.T) {
	g := newGate(disk(t, "", filestore.Options{}))
	s := serve(t, "pipe", artifact.Options{Store: g}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	octets := random(10)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", octets)))
	wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, octets[:2], false)), 0, 0)
	g.close()
	var calls []profiles.Call
	for i := uint64(1); i < 5; i++ {
		if i == 2 {
			if err := endpointtest.CallSync(patient(t), l); err != nil { // chunk 1 waits at the gate
				t.Fatal(err)
			}
			g.fail(1)
		}
		m := piece("a", i, 2*i, octets[2*i:2*i+2], i == 4)
		call, err := l.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeChunk, Payload: m.Append(nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		calls = append(calls, call)
		if i == 2 { // by now it has failed
			env, err := call.Recv(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			wantErr(t, "chunk 2", *env, "RATE_LIMIT_EXCEEDED")
			var m artifact.Err
			if err := m.Decode(env.Payload); err != nil || !m.Retryable {
				t.Errorf("retryable %v, %v", m.Retryable, err)
			}
		}
	}
	g.open()
	for i, call := range calls {
		if i == 1 {
			continue
		}
		env, err := call.Recv(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			wantAck(t, "chunk 1", *env, 1, 0)
		} else {
			wantErr(t, "a chunk after it", *env, artifact.CodeOrdering)
		}
	}
	p.wantNone(t)
	wantAck(t, "OFFER", offer(t, l, offerOf("a", octets)), 1, 4)
	p.put(t, "a", octets)
	p.wantOctets(t, "a", octets)
}

func TestPR10AnUploadGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	octets := random(1 << 20)
	for restart := range 4 {
		// Each of them has its own process, as far as the store can tell.
		t.Run("", func(t *testing.T) {
			s := serve(t, "pipe", artifact.Options{Store: disk(t, dir, filestore.Options{})}, endpoint.Bounds{})
			p := s.dial(alice)
			u := upload("a", octets)
			u.Chunk, u.Window = 10_000, 4
			first := true
			u.Progress = func(durable uint64) {
				if first && durable < uint64(restart)*250_000 {
					t.Errorf("it goes on at %d", durable)
				}
				if first = false; durable >= uint64(restart+1)*250_000 {
					p.leave()
				}
			}
			if err := u.Send(patient(t), p); err == nil {
				t.Fatal("the connection was lost and nothing is said of it")
			}
		})
	}
	s := serve(t, "pipe", artifact.Options{Store: disk(t, dir, filestore.Options{})}, endpoint.Bounds{})
	p := s.dial(alice)
	p.put(t, "a", octets)
	p.wantOctets(t, "a", octets)
}

// sealless is a store in which verifying fails.
type sealless struct {
	store.Blobs
	fails int
}

func (s *sealless) Seal(name string, sum [32]byte, keep time.Duration, done func(bool, error)) {
	if s.fails--; s.fails >= 0 {
		go done(false, store.ErrUnavailable)
		return
	}
	s.Blobs.Seal(name, sum, keep, done)
}

// What is here as a whole and was not verified is when it is offered again.
func TestWhatCouldNotBeVerifiedIsLater(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{Store: &sealless{disk(t, "", filestore.Options{}), 1}}, endpoint.Bounds{})
	p := s.dial(alice)
	octets := random(100)
	var refused *profiles.PeerError
	if err := upload("a", octets).Send(patient(t), p); !errors.As(err, &refused) || !refused.Retryable() {
		t.Fatalf("%v, want a refusal that may pass", err)
	}
	p.wantNone(t)
	var told []uint64
	u := upload("a", octets)
	u.Octets = bytes.NewReader(nil) // nothing is to be sent again
	u.Progress = func(durable uint64) { told = append(told, durable) }
	if err := u.Send(patient(t), p); err != nil || len(told) != 1 || told[0] != 100 {
		t.Errorf("%v, progress %v", err, told)
	}
	p.wantOctets(t, "a", octets)
}
