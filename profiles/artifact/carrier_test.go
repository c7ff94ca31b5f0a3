package artifact

import (
	"bytes"
	"testing"
)

func TestACarriedChunkIsTheSameMessage(t *testing.T) {
	const most = ^uint64(0)
	var c carrier
	for _, m := range []Chunk{
		{ArtifactID: []byte("a"), Data: []byte("octets"), ResumeToken: []byte("token")},
		{ArtifactID: []byte("a"), IsTerminal: true},
		{ArtifactID: bytes.Repeat([]byte("x"), MaxID), ChunkIndex: most, Offset: most, Data: make([]byte, 300_000), IsTerminal: true,
			ResumeToken: bytes.Repeat([]byte("y"), MaxToken)},
		{ArtifactID: []byte("a"), Data: []byte("x")},
	} {
		want := m.Append(nil)
		carried := m
		carried.Data = c.room(len(m.Data))
		copy(carried.Data, m.Data)
		if got := c.payload(&carried); !bytes.Equal(got, want) {
			t.Errorf("%d octets, want the %d of Append", len(got), len(want))
		}
	}
}

func TestCarryingAChunkAllocatesNothing(t *testing.T) {
	var c carrier
	m := Chunk{ArtifactID: []byte("a"), ResumeToken: []byte("token")}
	if n := testing.AllocsPerRun(100, func() {
		m.Data = c.room(100_000)
		_ = c.payload(&m)
	}); n != 0 {
		t.Errorf("%v allocations a chunk", n)
	}
}
