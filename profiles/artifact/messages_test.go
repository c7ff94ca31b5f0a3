package artifact_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/proto/artifactpb"
)

// message is what all messages have.
type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	hash := bytes.Repeat([]byte{7}, 32)
	opaque := []byte{0, 0xff, '\n'}
	for _, test := range []struct {
		name   string
		ours   message
		schema *artifactpb.Payload
	}{
		{"offer", &artifact.Offer{ArtifactID: []byte("é"), TotalSize: 1 << 40, HashAlg: []byte("SHA256"), Hash: hash, Metadata: opaque},
			&artifactpb.Payload{Body: &artifactpb.Payload_Offer{Offer: &artifactpb.ArtOffer{
				ArtifactId: "é", TotalSize: 1 << 40, HashAlg: "SHA256", Hash: hash, Metadata: opaque}}}},
		{"offer of nothing", &artifact.Offer{ArtifactID: []byte("a"), HashAlg: []byte("sha256"), Hash: hash},
			&artifactpb.Payload{Body: &artifactpb.Payload_Offer{Offer: &artifactpb.ArtOffer{ArtifactId: "a", HashAlg: "sha256", Hash: hash}}}},
		{"get", &artifact.Get{ArtifactID: []byte("a"), Start: 3, End: 1<<64 - 1, ResumeToken: []byte("t")},
			&artifactpb.Payload{Body: &artifactpb.Payload_Get{Get: &artifactpb.ArtGet{ArtifactId: "a", Start: 3, End: 1<<64 - 1, ResumeToken: "t"}}}},
		{"get of all", &artifact.Get{ArtifactID: []byte("a")},
			&artifactpb.Payload{Body: &artifactpb.Payload_Get{Get: &artifactpb.ArtGet{ArtifactId: "a"}}}},
		{"chunk", &artifact.Chunk{ArtifactID: []byte("a"), ChunkIndex: 5, Offset: 1 << 33, Data: opaque, IsTerminal: true, ResumeToken: []byte("t")},
			&artifactpb.Payload{Body: &artifactpb.Payload_Chunk{Chunk: &artifactpb.ArtChunk{
				ArtifactId: "a", ChunkIndex: 5, Offset: 1 << 33, Data: opaque, IsTerminal: true, ResumeToken: "t"}}}},
		{"first chunk", &artifact.Chunk{ArtifactID: []byte("a"), Data: opaque},
			&artifactpb.Payload{Body: &artifactpb.Payload_Chunk{Chunk: &artifactpb.ArtChunk{ArtifactId: "a", Data: opaque}}}},
		{"ack", &artifact.Ack{ArtifactID: []byte("a"), ChunkIndex: 9},
			&artifactpb.Payload{Body: &artifactpb.Payload_Ack{Ack: &artifactpb.ArtAck{ArtifactId: "a", ChunkIndex: 9}}}},
		{"err", &artifact.Err{Code: []byte("NOT_FOUND"), Message: []byte("é"), Retryable: true},
			&artifactpb.Payload{Body: &artifactpb.Payload_Err{Err: &artifactpb.ArtErr{Code: "NOT_FOUND", Message: "é", Retryable: true}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			got := test.ours.Append(nil)
			if !bytes.Equal(got, want) || test.ours.Size() != len(want) {
				t.Errorf("%x of size %d, want %x", got, test.ours.Size(), want)
			}
			if err := test.ours.Decode(want); err != nil {
				t.Fatal(err)
			}
			if again := test.ours.Append(nil); !bytes.Equal(again, want) {
				t.Errorf("decoded and appended: %x, want %x", again, want)
			}
			for n := range want {
				if test.ours.Decode(want[:n]) == nil {
					t.Errorf("prefix of %d octets accepted", n)
				}
			}
		})
	}
}

func TestWhatIsRequiredAndWhatIsBounded(t *testing.T) {
	text := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	good := artifact.Offer{ArtifactID: []byte("a"), HashAlg: []byte("sha256"), Hash: text(32)}
	with := func(change func(*artifact.Offer)) *artifact.Offer { m := good; change(&m); return &m }
	for _, test := range []struct {
		name   string
		m      message
		detail string // "" is accepted, "*" refused without one
	}{
		{"offer", &good, ""},
		{"offer, hash_alg in another case", with(func(m *artifact.Offer) { m.HashAlg = []byte("ShA256") }), ""},
		{"offer with the longest artifact_id", with(func(m *artifact.Offer) { m.ArtifactID = text(artifact.MaxID) }), ""},
		{"offer with a longer artifact_id", with(func(m *artifact.Offer) { m.ArtifactID = text(artifact.MaxID + 1) }), "*"},
		{"offer without artifact_id", with(func(m *artifact.Offer) { m.ArtifactID = nil }), p1.DetailRequired},
		{"offer with a blank artifact_id", with(func(m *artifact.Offer) { m.ArtifactID = []byte(" \t\n") }), p1.DetailRequired},
		{"offer without hash_alg", with(func(m *artifact.Offer) { m.HashAlg = nil }), p1.DetailRequired},
		{"offer of another hash_alg", with(func(m *artifact.Offer) { m.HashAlg = []byte("md5") }), "*"},
		{"offer without hash", with(func(m *artifact.Offer) { m.Hash = nil }), p1.DetailRequired},
		{"offer with a short hash", with(func(m *artifact.Offer) { m.Hash = text(31) }), "*"},
		{"offer with a long hash", with(func(m *artifact.Offer) { m.Hash = text(33) }), "*"},
		{"get", &artifact.Get{ArtifactID: []byte("a")}, ""},
		{"get without artifact_id", &artifact.Get{Start: 1}, p1.DetailRequired},
		{"get that is not UTF-8", &artifact.Get{ArtifactID: []byte("\xff")}, p1.DetailUTF8},
		{"chunk", &artifact.Chunk{ArtifactID: []byte("a")}, ""},
		{"chunk without artifact_id", &artifact.Chunk{Data: []byte("x")}, p1.DetailRequired},
		{"ack without artifact_id", &artifact.Ack{ChunkIndex: 1}, p1.DetailRequired},
		{"err without code", &artifact.Err{Message: []byte("m")}, p1.DetailRequired},
	} {
		err := test.m.Decode(test.m.Append(nil))
		var fault *profiles.Error
		switch {
		case test.detail == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.detail == "":
		case !errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload || test.detail != "*" && fault.Detail != test.detail:
			t.Errorf("%s: %v, want ERR_INVALID_PROFILE_PAYLOAD · %s", test.name, err, test.detail)
		}
	}
}
