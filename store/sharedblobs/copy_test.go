package sharedblobs_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"testing"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sharedblobs"
)

// exported returns copies of the pieces of an export, and their texts without those of Start.
func exported(t *testing.T, from store.Exporter) (all []store.Piece, texts []string) {
	t.Helper()
	err := from.Export(t.Context(), func(p store.Piece) error {
		switch p := p.(type) {
		case *store.Start:
			c := *p
			all = append(all, &c)
			return nil
		case *store.Blob:
			c := *p
			c.Tag, c.Note = append([]byte{}, p.Tag...), append([]byte{}, p.Note...)
			all = append(all, &c)
			texts = append(texts, fmt.Sprintf("%+v", p))
		case *store.Octets:
			all = append(all, &store.Octets{Data: append([]byte{}, p.Data...)})
			texts = append(texts, fmt.Sprintf("%d octets, %x", len(p.Data), sha256.Sum256(p.Data)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, texts
}

// Artifacts move from one machine to several and back.
func TestAnExportOfFilesIsTheExportOfObjects(t *testing.T) {
	open := func() *filestore.Store {
		s, err := filestore.Open(t.Context(), filestore.Options{Records: newRecords(t), Space: "blobs"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	one := open()
	for _, n := range []int{0, 1, 65_528, 65_529, 65_533, 3_000_000, 2*sharedblobs.FullSize - 4, 2*sharedblobs.FullSize + 1} {
		put(t, one, fmt.Sprint("size ", n), random(n))
	}
	must(t, begin(t, one, "part", "owner"))
	must(t, grow(t, one, "part", 0, random(sharedblobs.FullSize+100_000)))
	several := inDirectory(t).process(t, sharedblobs.Options{})
	from, want := exported(t, one)
	for _, s := range []interface {
		store.Exporter
		store.Importer
	}{several, open()} {
		err := s.Import(t.Context(), func() (store.Piece, error) {
			if len(from) == 0 {
				return nil, io.EOF
			}
			p := from[0]
			from = from[1:]
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if from, got = exported(t, s); len(got) != len(want) {
			t.Fatalf("%T: %d pieces, want %d", s, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%T: piece %d is %.200s, want %.200s", s, i, got[i], want[i])
			}
		}
	}
	octets := random(sharedblobs.FullSize + 200_000)
	must(t, grow(t, several, "part", sharedblobs.FullSize+100_000, octets[sharedblobs.FullSize+100_000:]))
	must(t, seal(t, several, "part", octets))
}
