package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait.
const patience = 5 * time.Minute

const (
	alice = "spiffe://test/alice"
	bob   = "spiffe://test/bob"
)

// kinds are the transports that scenarios run over.
var kinds = []string{"pipe", "mux", "tls", "quic"}

// disk opens blobs below a directory, in memory and files that go away where it
// is empty.
func disk(t testing.TB, dir string, o filestore.Options) *filestore.Store {
	t.Helper()
	var records sqlstore.Options
	if dir != "" {
		records.Dir, o.Dir = filepath.Join(dir, "records"), filepath.Join(dir, "blobs")
	}
	if o.Durability == "" {
		o.Durability = store.Process
	}
	records.Durability = o.Durability
	r, err := sqlstore.Open(context.Background(), records)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	o.Records, o.Space = r, "artifact"
	s, err := filestore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// server is an endpoint that serves artifacts.
type server struct {
	t       testing.TB
	kind    string
	service *artifact.Service
	ep      *endpoint.Endpoint
	reach   *endpointtest.Server
	endpointtest.Deaf

	mu       sync.Mutex
	verdicts []endpoint.Verdict
	more     chan struct{} // closed, and replaced, by the next
}

func (s *server) Verdict(v endpoint.Verdict) {
	if v.ProfileID == artifact.ProfileID {
		s.mu.Lock()
		defer s.mu.Unlock()
		v.MsgID = bytes.Clone(v.MsgID)
		s.verdicts = append(s.verdicts, v)
		close(s.more)
		s.more = make(chan struct{})
	}
}

// serve serves artifacts out of a store of its own, unless opts has one.
func serve(t testing.TB, kind string, opts artifact.Options, bounds endpoint.Bounds) *server {
	t.Helper()
	if opts.Store == nil {
		opts.Store = disk(t, "", filestore.Options{})
	}
	service, err := artifact.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	s := &server{t: t, kind: kind, service: service, more: make(chan struct{})}
	registry, err := profiles.NewRegistry(service.Profile(), endpointtest.Sync)
	if err != nil {
		t.Fatal(err)
	}
	if s.ep, err = endpoint.New(endpoint.Options{Registry: registry, Observer: s, Bounds: bounds}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.ep.Close() })
	s.reach = endpointtest.Serve(t, kind, s.ep)
	return s
}

// peer is a client of a server.
type peer struct {
	*endpoint.Session
	ep *endpoint.Endpoint
}

func (s *server) dial(identity string) *peer {
	s.t.Helper()
	service, err := artifact.New(artifact.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	registry, err := profiles.NewRegistry(service.Profile(), endpointtest.Sync)
	if err != nil {
		s.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &peer{Session: ep.Attach(s.reach.Connect(identity)), ep: ep}
	s.t.Cleanup(p.leave)
	return p
}

// leave hangs up at once.
func (p *peer) leave() { _ = p.ep.Close() }

// random returns octets that are the same each time.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return b
}

func upload(id string, octets []byte) artifact.Upload {
	return artifact.Upload{
		ArtifactID: id, Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: endpointtest.CallSync,
	}
}

func (p *peer) put(t testing.TB, id string, octets []byte) {
	t.Helper()
	if err := upload(id, octets).Send(patient(t), p); err != nil {
		t.Fatalf("upload of %q: %v", id, err)
	}
}

// get returns a range of an artifact.
func (p *peer) get(t testing.TB, d artifact.Download) ([]byte, error) {
	t.Helper()
	var got []byte
	d.Sink = func(c *artifact.Chunk) error {
		got = append(got, c.Data...)
		return nil
	}
	_, err := d.Receive(patient(t), p)
	return got, err
}

func (p *peer) wantOctets(t testing.TB, id string, want []byte) {
	t.Helper()
	got, err := p.get(t, artifact.Download{ArtifactID: id})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("download of %q: %d octets, %v, want %d", id, len(got), err, len(want))
	}
}

func (p *peer) wantNone(t testing.TB) {
	t.Helper()
	const id = "a"
	got, err := p.get(t, artifact.Download{ArtifactID: id})
	wantCode(t, "GET", err, artifact.CodeNotFound)
	if len(got) > 0 {
		t.Errorf("%d octets of %q", len(got), id)
	}
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wantCode wants an ART_ERR of a code.
func wantCode(t testing.TB, what string, err error, code string) {
	t.Helper()
	var refused *profiles.PeerError
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%s: %v, want ART_ERR %s", what, err, code)
	}
}

// appender is any message.
type appender interface {
	Append([]byte) []byte
}

// ask sends a chunk on a lane and returns its answer.
func ask(t testing.TB, on profiles.Lane, m *artifact.Chunk) e1.Envelope {
	t.Helper()
	call, err := on.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeChunk, Payload: m.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	env, err := call.Recv(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return env.Clone()
}

// offer sends an OFFER and returns what it is answered with by the time that it
// was processed; a zero envelope if nothing.
func offer(t testing.TB, on profiles.Lane, m *artifact.Offer) e1.Envelope {
	t.Helper()
	call, err := on.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeOffer, Payload: m.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	if err := endpointtest.CallSync(patient(t), on); err != nil {
		t.Fatal(err)
	}
	past, cancel := context.WithCancel(context.Background())
	cancel()
	env, err := call.Recv(past)
	if errors.Is(err, context.Canceled) {
		return e1.Envelope{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return env.Clone()
}

func offerOf(id string, octets []byte) *artifact.Offer {
	sum := sha256.Sum256(octets)
	return &artifact.Offer{ArtifactID: []byte(id), TotalSize: uint64(len(octets)), HashAlg: []byte("sha256"), Hash: sum[:]}
}

// piece is the chunk of some octets that begin at a place.
func piece(id string, index, at uint64, data []byte, terminal bool) *artifact.Chunk {
	return &artifact.Chunk{ArtifactID: []byte(id), ChunkIndex: index, Offset: at, Data: data, IsTerminal: terminal}
}

func (p *peer) lane(t testing.TB) profiles.Lane {
	t.Helper()
	l, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func wantAck(t testing.TB, what string, env e1.Envelope, index, held uint64) {
	t.Helper()
	var m artifact.Ack
	if env.MsgType != artifact.TypeAck {
		t.Errorf("%s: answer of type %d %q, want ART_ACK", what, env.MsgType, env.Payload)
		return
	}
	if err := m.Decode(env.Payload); err != nil {
		t.Fatal(err)
	}
	durable, _ := env.Extensions.LookupUvarint(artifact.ExtDurable)
	if m.ChunkIndex != index || durable != held {
		t.Errorf("%s: ART_ACK of chunk %d, %d octets durable, want %d, %d", what, m.ChunkIndex, durable, index, held)
	}
}

func wantErr(t testing.TB, what string, env e1.Envelope, code string) {
	t.Helper()
	var m artifact.Err
	if env.MsgType != artifact.TypeErr {
		t.Errorf("%s: answer of type %d %q, want ART_ERR %s", what, env.MsgType, env.Payload, code)
		return
	}
	if err := m.Decode(env.Payload); err != nil {
		t.Fatal(err)
	}
	if string(m.Code) != code {
		t.Errorf("%s: ART_ERR %s, %q, want %s", what, m.Code, m.Message, code)
	}
}

func wantSilence(t testing.TB, what string, env e1.Envelope) {
	t.Helper()
	if env.MsgType != 0 {
		t.Errorf("%s: answer of type %d %q, want none", what, env.MsgType, env.Payload)
	}
}

// on returns the verdict on the message that env answers. It may come after the
// answer.
func (s *server) on(env e1.Envelope) endpoint.Verdict {
	s.t.Helper()
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.verdicts, func(v endpoint.Verdict) bool { return bytes.Equal(v.MsgID, env.MsgID) })
		if i >= 0 {
			defer s.mu.Unlock()
			return s.verdicts[i]
		}
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-time.After(patience):
			s.t.Fatalf("no verdict on %q", env.MsgID)
		}
	}
}
