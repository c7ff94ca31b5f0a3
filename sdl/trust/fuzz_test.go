package trust

import (
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

// FuzzRegistry proposes whatever it is given: what is taken merges with itself to
// itself, and is made again of what is kept.
func FuzzRegistry(f *testing.F) {
	for _, seed := range []string{
		initial, `{}`, `{"revoked_kids":["a","a"],"sequence":3}`, `{"allowed_kids_by_agent":{"a":["b","a"],"":[]}}`,
		`{"trusted_signing_keys":{"k":"-----BEGIN PUBLIC KEY-----"}}`, `{"kid_not_after":{"k":"2030-01-01T00:00:00.123Z"}}`,
		`{"decrypt_private_keys":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := canonical.ParseJSON(text)
		if err != nil {
			return
		}
		r, err := NewRegistry(canonical.Object(), now, RegistryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := r.Apply(Proposal{ID: "1", Registry: v}, now)
		if err != nil {
			return
		}
		again, err := r.Apply(Proposal{ID: "2", Merge: true, Registry: v.Without(memberSequence).With(memberSequence, canonical.Int(1<<62))}, now)
		if err != nil {
			if _, big := v.Get(memberSequence).Int64(); big {
				return // it may be larger
			}
			t.Fatalf("it does not merge with itself: %v", err)
		}
		if again.Hash != first.Hash {
			t.Errorf("merged with itself: %s, was %s", again.Value.AppendJSON(nil), first.Value.AppendJSON(nil))
		}
		kept, err := canonical.ParseJSON(r.State().AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		other, err := NewRegistry(kept, now, RegistryOptions{})
		if err != nil {
			t.Fatalf("it is not made again: %v", err)
		}
		if !other.State().Equal(r.State()) {
			t.Errorf("made again: %s, was %s", other.State().AppendJSON(nil), r.State().AppendJSON(nil))
		}
	})
}
