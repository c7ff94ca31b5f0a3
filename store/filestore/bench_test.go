package filestore_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
)

// BenchmarkUpload writes parts of 64 MiB as pieces of 256 KiB, 16 of which are
// under way, and seals them.
func BenchmarkUpload(b *testing.B) {
	for _, level := range []store.Durability{store.Power, store.Process} {
		b.Run(string(level), func(b *testing.B) {
			s := open(b, b.TempDir(), filestore.Options{Durability: level, BlobLimits: store.BlobLimits{QuotaPerOwner: 1 << 40, Quota: 1 << 40}})
			defer s.Close()
			const pieces, window = 256, 16
			data := make([]byte, 256<<10)
			hash := sha256.New()
			for range pieces {
				hash.Write(data)
			}
			sum := [32]byte(hash.Sum(nil))
			b.SetBytes(int64(pieces * len(data)))
			b.ReportAllocs()
			done := make(chan error, window)
			tell := func(ok bool, err error) {
				if !ok && err == nil {
					b.Error("not done")
				}
				done <- err
			}
			for b.Loop() {
				s.Begin("a", "owner", 0, nil, nil, time.Hour, tell)
				under := 1
				for i := range pieces {
					if under == window {
						if err := <-done; err != nil {
							b.Fatal(err)
						}
						under--
					}
					s.Append("a", uint64(i*len(data)), uint64(i), data, tell)
					under++
				}
				for range under {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				s.Seal("a", sum, 0, tell)
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadAt reads a blob of 64 MiB in pieces of 256 KiB.
func BenchmarkReadAt(b *testing.B) {
	s := open(b, b.TempDir(), filestore.Options{})
	defer s.Close()
	const size = 64 << 20
	data := make([]byte, size)
	done := make(chan error, 3)
	tell := func(_ bool, err error) { done <- err }
	s.Begin("a", "", size, nil, nil, time.Hour, tell)
	s.Append("a", 0, 0, data, tell)
	s.Seal("a", sha256.Sum256(data), 0, tell)
	for range 3 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	blob, _, _ := s.Blob(b.Context(), "a")
	p := make([]byte, 256<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	at := uint64(0)
	for b.Loop() {
		if n, _, err := s.ReadAt(b.Context(), "a", blob.Version, p, at%size); n != len(p) || err != nil {
			b.Fatal(n, err)
		}
		at += uint64(len(p))
	}
}
