package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// owned stores data of each kind, and returns which identities own some.
func owned(t *testing.T, s *Storage) map[string]bool {
	t.Helper()
	const records, log, caller, upload, beside = "spiffe://a.example/records", "spiffe://a.example/log", "spiffe://a.example/caller", "spiffe://a.example/upload", "spiffe://a.example/recor"
	told(t, func(done func(bool, error)) {
		s.Put("test", "a", 0, records, []byte("value"), time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
	})
	told(t, func(done func(bool, error)) {
		s.Append("test", "a", "", log, []byte("value"), time.Time{}, func(r store.AppendResult) { done(r.Fresh, r.Err) })
	})
	told(t, func(done func(bool, error)) {
		s.Put("test", "b", 0, profiles.OnBehalf(caller, "http:bob"), []byte("value"), time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
	})
	told(t, func(done func(bool, error)) {
		s.blobs.Begin("id\x00\x01"+upload, upload, 4, nil, nil, time.Hour, done)
	})
	return map[string]bool{
		records: true, log: true, caller: true, upload: true,
		beside: false, records + "/": false, "spiffe://a.example/recordt": false, "spiffe://b.example/swpd": false, "http:bob": false, "": false,
	}
}

func claimed(t *testing.T, s *Storage, owners map[string]bool) {
	t.Helper()
	for identity, want := range owners {
		if c, err := s.Claim(t.Context(), identity); err != nil || c.Data != want {
			t.Errorf("open store: %s: %+v, %v, want %v", identity, c, err, want)
		}
	}
}

func TestTL11TheStoreSaysWhoseDataItHas(t *testing.T) {
	data := t.TempDir()
	s := openIn(t, data)
	owners := owned(t, s)
	claimed(t, s, owners)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for identity, want := range owners {
		if c, err := ClaimIn(t.Context(), &config.Config{Data: data}, identity); err != nil || c.Data != want {
			t.Errorf("closed store: %s: %+v, %v, want %v", identity, c, err, want)
		}
	}
	if c, err := ClaimIn(t.Context(), &config.Config{Data: t.TempDir()}, "spiffe://a.example/records"); err != nil || c.Data {
		t.Errorf("no store: %+v, %v", c, err)
	}
}

func TestTL11VouchersAreRecordedForPartnersThatMayHaveTheirData(t *testing.T) {
	s := openIn(t, t.TempDir())
	owns := func(identity string) {
		told(t, func(done func(bool, error)) {
			s.Put("test", identity, 0, identity, []byte("value"), time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
		})
	}
	want := func(identity, source string, foreign bool) {
		t.Helper()
		c, err := s.Claim(t.Context(), identity)
		if err != nil || !c.Recorded || c.Foreign([]string{source}) != foreign {
			t.Errorf("%s by %s: %+v, %v, want foreign %v", identity, source, c, err, foreign)
		}
	}
	const before, client, fresh = "before.example", "client.example", "fresh.example"
	owns(before)
	owns(client)
	names := &claims.Registry{Partners: []claims.Partner{{Name: "before", Identity: before, Source: "one"}}}
	s.Vouch(names) // the first start: the data is that of the partners that there are
	want(before, "one", false)
	want(before, "other", true)
	names.Partners = append(names.Partners, claims.Partner{Name: "client", Identity: client, Source: "one"}, claims.Partner{Name: "fresh", Identity: fresh, Source: "one"})
	s.Vouch(names)
	want(client, "one", true)
	owns(fresh) // after it was a partner
	want(fresh, "one", false)
	warned := func(names ...string) {
		t.Helper()
		var h part.Health
		s.Look(&h)
		if len(h.Warnings) != len(names) || len(h.Reasons) > 0 {
			t.Fatalf("warnings %q, reasons %q, want warnings about %q", h.Warnings, h.Reasons, names)
		}
		for i, name := range names {
			if !strings.HasPrefix(h.Warnings[i], "partners."+name+": ") || !strings.Contains(h.Warnings[i], "owns_data") || strings.Contains(h.Open()[i], ".example") {
				t.Errorf("warning %q, of which all may read %q", h.Warnings[i], h.Open()[i])
			}
		}
	}
	warned("client")
	names.Partners[0].Source = "other"
	s.Vouch(names)
	warned("before", "client")
	names.Partners[1].OwnsData = true
	s.Vouch(names)
	warned("before")
	want(before, "one", false)
	want(before, "other", true)
	want(client, "one", false)
}
