package artifact_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/proto/prototest"
)

// message is what all messages have.
type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	hash := []byte("0123456789abcdef0123456789abcdef")
	opaque := []byte{0, 0xff, '\n'}
	prototest.Agree(t, "artifact", map[string]prototest.Message{
		`offer {artifact_id: "é" total_size: 1099511627776 hash_alg: "SHA256" hash: "0123456789abcdef0123456789abcdef" metadata: "\000\377\n"}`: &artifact.Offer{
			ArtifactID: []byte("é"), TotalSize: 1 << 40, HashAlg: []byte("SHA256"), Hash: hash, Metadata: opaque},
		`offer {artifact_id: "a" hash_alg: "sha256" hash: "0123456789abcdef0123456789abcdef"}`: &artifact.Offer{
			ArtifactID: []byte("a"), HashAlg: []byte("sha256"), Hash: hash},
		`get {artifact_id: "a" start: 3 end: 18446744073709551615 resume_token: "t"}`: &artifact.Get{ArtifactID: []byte("a"), Start: 3, End: 1<<64 - 1, ResumeToken: []byte("t")},
		`get {artifact_id: "a"}`: &artifact.Get{ArtifactID: []byte("a")},
		`chunk {artifact_id: "a" chunk_index: 5 offset: 8589934592 data: "\000\377\n" is_terminal: true resume_token: "t"}`: &artifact.Chunk{
			ArtifactID: []byte("a"), ChunkIndex: 5, Offset: 1 << 33, Data: opaque, IsTerminal: true, ResumeToken: []byte("t")},
		`chunk {artifact_id: "a" data: "\000\377\n"}`:          &artifact.Chunk{ArtifactID: []byte("a"), Data: opaque},
		`ack {artifact_id: "a" chunk_index: 9}`:                &artifact.Ack{ArtifactID: []byte("a"), ChunkIndex: 9},
		`err {code: "NOT_FOUND" message: "é" retryable: true}`: &artifact.Err{Code: []byte("NOT_FOUND"), Message: []byte("é"), Retryable: true},
	})
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
