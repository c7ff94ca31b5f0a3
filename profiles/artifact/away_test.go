package artifact_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sharedblobs"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
)

// awayRecords are records that cannot be read for a while.
type awayRecords struct {
	store.Records
	away atomic.Bool
	slow atomic.Bool // the next read waits
	in   chan struct{}
	out  chan struct{}
}

func (r *awayRecords) Get(ctx context.Context, space, key string) (uint64, []byte, error) {
	if space == "artifact" && r.slow.CompareAndSwap(true, false) {
		r.in <- struct{}{}
		<-r.out
	}
	if r.away.Load() {
		return 0, nil, store.ErrUnavailable
	}
	return r.Records.Get(ctx, space, key)
}

func (r *awayRecords) Scan(ctx context.Context, space, prefix, after string, yield func(string, uint64, []byte) bool) error {
	if r.away.Load() {
		return store.ErrUnavailable
	}
	return r.Records.Scan(ctx, space, prefix, after, yield)
}

// shared opens blobs that several processes could share, whose records may be away.
func shared(t *testing.T) (*sharedblobs.Store, *awayRecords) {
	t.Helper()
	records, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	objects, err := sharedblobs.NewDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &awayRecords{Records: records, in: make(chan struct{}), out: make(chan struct{})}
	s, err := sharedblobs.Open(t.Context(), sharedblobs.Options{Records: r, Space: "artifact", Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, r
}

// An uploader that hears that its upload is not known begins it again, and a downloader that its
// artifact is not found gives up.
func TestWhileTheDatabaseIsAwayNothingIsUnknown(t *testing.T) {
	blobs, records := shared(t)
	s := serve(t, "pipe", artifact.Options{Store: blobs}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	octets := random(10)
	p.put(t, "whole", octets)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", octets)))
	wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, octets[:2], false)), 0, 0)

	records.away.Store(true)
	wantLater := func(what string, payload []byte) {
		t.Helper()
		var m artifact.Err
		if err := m.Decode(payload); err != nil || !m.Retryable || string(m.Code) == artifact.CodeNotFound {
			t.Errorf("%s: %q, retryable %t, %v", what, m.Code, m.Retryable, err)
		}
	}
	wantLater("a chunk", ask(t, l, piece("a", 1, 2, octets[2:4], false)).Payload)
	wantLater("the last chunk", ask(t, l, piece("a", 1, 10, nil, true)).Payload)
	wantLater("an OFFER", offer(t, l, offerOf("a", octets)).Payload)
	wantLater("another OFFER", offer(t, l, offerOf("b", octets)).Payload)
	var refused *profiles.PeerError
	if _, err := p.get(t, artifact.Download{ArtifactID: "whole"}); !errors.As(err, &refused) || !refused.Retryable() {
		t.Errorf("a GET: %v", err)
	}
	records.away.Store(false)
	wantAck(t, "chunk 1", ask(t, l, piece("a", 1, 2, octets[2:4], false)), 1, 0)
	p.put(t, "a", octets)
	for _, id := range []string{"a", "whole"} {
		p.wantOctets(t, id, octets)
	}
}

func TestAReadOfTheDatabaseForOnePeerKeepsNoOtherWaiting(t *testing.T) {
	blobs, records := shared(t)
	s := serve(t, "pipe", artifact.Options{Store: blobs}, endpoint.Bounds{})
	p, other := s.dial(alice), s.dial(bob)
	l := p.lane(t)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", random(10))))
	records.slow.Store(true)
	done := make(chan error, 1)
	go func() { done <- upload("a", random(10)).Send(patient(t), p) }()
	<-records.in
	other.put(t, "b", random(100)) // while the first one waits
	close(records.out)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
