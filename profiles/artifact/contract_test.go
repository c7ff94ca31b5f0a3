package artifact_test

import (
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/store/filestore"
)

// peerName is who profiletest calls as.
const peerName = "spiffe://profiletest/peer"

// served is a service that has the artifact "whole", and six of nine octets of
// "part".
func served(t testing.TB) *profiles.Profile {
	t.Helper()
	service, err := artifact.New(artifact.Options{
		Store: disk(t, "", filestore.Options{}), Chunk: 4, TokenKey: []byte("always the same"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	h := profiletest.New(t, service.Profile())
	for _, step := range []struct {
		typ     uint64
		payload []byte
	}{
		{artifact.TypeOffer, offerOf("whole", []byte("ninechars")).Append(nil)},
		{artifact.TypeChunk, piece("whole", 0, 0, []byte("ninechars"), true).Append(nil)},
		{artifact.TypeOffer, offerOf("part", []byte("ninechars")).Append(nil)},
		{artifact.TypeChunk, piece("part", 0, 0, []byte("nine"), false).Append(nil)},
		{artifact.TypeChunk, piece("part", 1, 4, []byte("ch"), false).Append(nil)},
	} {
		if err := h.Serve(step.typ, step.payload).Wait().Err(); err != nil {
			t.Fatal(err)
		}
	}
	return service.Profile()
}

var contract = []profiletest.Case{
	{Name: "offer", Type: artifact.TypeOffer, Payload: offerOf("new", []byte("octets")).Append(nil)},
	{Name: "offer of what is held in part", Type: artifact.TypeOffer, Payload: offerOf("part", []byte("ninechars")).Append(nil),
		Answers: []uint64{artifact.TypeAck}},
	{Name: "offer of what is complete", Type: artifact.TypeOffer, Payload: offerOf("whole", []byte("ninechars")).Append(nil),
		Answers: []uint64{artifact.TypeAck}},
	{Name: "last chunk", Type: artifact.TypeChunk, Payload: piece("part", 2, 6, []byte("ars"), true).Append(nil),
		Answers: []uint64{artifact.TypeAck}},
	{Name: "chunk of nothing", Type: artifact.TypeChunk, Payload: piece("nothing", 0, 0, []byte("ars"), true).Append(nil),
		Code: profiles.NotFound},
	{Name: "get", Type: artifact.TypeGet, Payload: (&artifact.Get{ArtifactID: []byte("whole")}).Append(nil),
		Answers: []uint64{artifact.TypeChunk, artifact.TypeChunk, artifact.TypeChunk}},
	{Name: "get of a range", Type: artifact.TypeGet, Payload: (&artifact.Get{ArtifactID: []byte("whole"), Start: 3, End: 6}).Append(nil),
		Answers: []uint64{artifact.TypeChunk}},
	{Name: "get of nothing", Type: artifact.TypeGet, Payload: (&artifact.Get{ArtifactID: []byte("nothing")}).Append(nil),
		Code: profiles.NotFound},
}

func TestContract(t *testing.T) { profiletest.Run(t, served, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, served, contract...) }

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]artifact.Options{
		"chunk":     {Chunk: artifact.MaxChunk + 1},
		"negative":  {Chunk: -1},
		"window":    {Window: -1},
		"metadata":  {MaxMetadata: 1<<20 + 1},
		"downloads": {Downloads: -1},
		"abandoned": {Abandoned: -1},
		"retention": {Retention: -1},
	} {
		if _, err := artifact.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWithoutAStoreThereIsNothing(t *testing.T) {
	service, err := artifact.New(artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	h := profiletest.New(t, service.Profile())
	for typ, m := range map[uint64]appender{
		artifact.TypeOffer: offerOf("a", nil), artifact.TypeGet: &artifact.Get{ArtifactID: []byte("a")}, artifact.TypeChunk: piece("a", 0, 0, nil, true),
	} {
		if err := h.Serve(typ, m.Append(nil)).Wait().Err(); err == nil || err.Code != profiles.NotFound {
			t.Errorf("type %d: %v, want ERR_NOT_FOUND", typ, err)
		}
	}
	if result, err := service.List(t.Context(), &profiles.Peer{Identity: peerName}, nil); err != nil || string(result) != `{"artifacts":[]}` {
		t.Errorf("List: %s, %v", result, err)
	}
}
