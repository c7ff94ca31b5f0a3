package cred_test

import (
	"testing"
	"time"

	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles/cred"
)

// BenchmarkUse is what an exchange costs that names a chain.
func BenchmarkUse(b *testing.B) {
	c := new(clock)
	s, err := cred.New(b.Context(), cred.Options{Tokens: token.New(trusted(b)), Digests: digests{}, Audience: []string{here}, Now: c.now, Elapsed: c.elapsed})
	if err != nil {
		b.Fatal(err)
	}
	w := &world{Service: s, clock: c}
	p := &peer{w: w, until: b.Context()}
	p.who.Identity = alice
	show := (&cred.Present{Type: []byte("jwt"), Credential: issued(b, idp, alice, "read", time.Hour, nil), ChainID: []byte("c")}).Append(nil)
	b.Run("present", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := w.Profile().Handler.Serve(p.until, p.request(cred.TypePresent, show), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("use", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Delegation(&p.who, []byte("c")); err != nil {
				b.Fatal(err)
			}
		}
	})
}
