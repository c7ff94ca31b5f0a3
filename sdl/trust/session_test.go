package trust

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// Row 38 of the acceptance list.
func TestBindingIDIsTheHashOfAllThatIsBound(t *testing.T) {
	profile := mustParse(t, `{"mode":"sig","ct":["task.v1"]}`)
	document := BindingDocument(gardener, miller, profile, "nonce-123", "2030-05-01T08:10:00Z")
	const want = `{"expires":"2030-05-01T08:10:00Z","from_agent":"urn:agent:gardener","nonce":"nonce-123","profile":{"ct":["task.v1"],"mode":"sig"},"to_agent":"urn:agent:miller"}`
	if got := string(document.AppendJSON(nil)); got != want {
		t.Errorf("got %s", got)
	}
	id := BindingID(document)
	if !strings.HasPrefix(id, "sha256:") || id != BindingID(mustParse(t, want)) {
		t.Errorf("got %s", id)
	}
	for _, other := range []canonical.Value{
		BindingDocument(stranger, miller, profile, "nonce-123", "2030-05-01T08:10:00Z"),
		BindingDocument(gardener, stranger, profile, "nonce-123", "2030-05-01T08:10:00Z"),
		BindingDocument(gardener, miller, canonical.Object(), "nonce-123", "2030-05-01T08:10:00Z"),
		BindingDocument(gardener, miller, profile, "nonce-124", "2030-05-01T08:10:00Z"),
		BindingDocument(gardener, miller, profile, "nonce-123", "2030-05-01T08:10:01Z"),
	} {
		if BindingID(other) == id {
			t.Errorf("the same id for %s", other.AppendJSON(nil))
		}
	}
}

func register(t testing.TB, s *Sessions, id string, ahead time.Duration) {
	t.Helper()
	if err := s.Register(Session{id, gardener, miller, now.Add(ahead)}, now); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
}

// Rows 39 and 41 of the acceptance list.
func TestASessionIsActiveForItsAgentsUntilItEnds(t *testing.T) {
	s := NewSessions(SessionOptions{})
	register(t, s, "s", time.Minute)
	for name, test := range map[string]struct {
		id, from, to string
		at           time.Time
		want         bool
	}{
		"for its agents":      {"s", gardener, miller, now, true},
		"to another":          {"s", gardener, stranger, now, false},
		"from another":        {"s", stranger, miller, now, false},
		"the other way round": {"s", miller, gardener, now, false},
		"another session":     {"t", gardener, miller, now, false},
		"no session":          {"", gardener, miller, now, false},
		"at its last moment":  {"s", gardener, miller, now.Add(time.Minute - 1), true},
	} {
		if got := s.Active(test.id, test.from, test.to, test.at); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s.Active("s", gardener, miller, now.Add(time.Minute)) {
		t.Error("active when it is over")
	}
	if s.Len() != 0 {
		t.Error("held when it is over")
	}
}

// Row 40 of the acceptance list, and weakness 13 of §13: no session for ever.
func TestRegisterRefusesSessionsThatAreOverOrLastTooLong(t *testing.T) {
	s := NewSessions(SessionOptions{})
	for name, test := range map[string]struct {
		session Session
		ok      bool
	}{
		"a moment":        {Session{"a", gardener, miller, now.Add(1)}, true},
		"now":             {Session{"b", gardener, miller, now}, false},
		"past":            {Session{"c", gardener, miller, now.Add(-time.Hour)}, false},
		"a day":           {Session{"d", gardener, miller, now.Add(24 * time.Hour)}, true},
		"more than a day": {Session{"e", gardener, miller, now.Add(24*time.Hour + 1)}, false},
		"the year 9999":   {Session{"f", gardener, miller, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, false},
		"no id":           {Session{"", gardener, miller, now.Add(1)}, false},
		"from nobody":     {Session{"g", "", miller, now.Add(1)}, false},
		"to nobody":       {Session{"h", gardener, "", now.Add(1)}, false},
	} {
		if err := s.Register(test.session, now); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	register(t, s, "d", time.Hour)
	if err := s.Register(Session{"d", stranger, miller, now.Add(time.Hour)}, now); err == nil {
		t.Error("a known id was registered for other agents")
	}
	if err := s.Register(Session{"d", gardener, stranger, now.Add(time.Hour)}, now); err == nil {
		t.Error("a known id was registered for other agents")
	}
	if !s.Active("d", gardener, miller, now) {
		t.Error("it is lost")
	}
	// Once it is over its id means nothing any more.
	later := now.Add(time.Hour)
	if err := s.Register(Session{"d", stranger, miller, later.Add(1)}, later); err != nil {
		t.Error(err)
	}
	short := NewSessions(SessionOptions{MaxLifetime: time.Minute})
	if err := short.Register(Session{"a", gardener, miller, now.Add(time.Minute + 1)}, now); err == nil {
		t.Error("longer than the limit")
	}
}

func TestSessionsDropTheOneUsedLeastRecently(t *testing.T) {
	s := NewSessions(SessionOptions{Max: 3, PerAgent: 3})
	for _, id := range []string{"a", "b", "c"} {
		register(t, s, id, time.Hour)
	}
	s.Active("a", gardener, miller, now)
	s.Active("b", stranger, miller, now) // is no use of it
	register(t, s, "d", time.Hour)
	for id, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := s.Active(id, gardener, miller, now); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestSessionsDropThoseThatAreOverFirst(t *testing.T) {
	s := NewSessions(SessionOptions{Max: 4, PerAgent: 4})
	register(t, s, "a", time.Hour)
	register(t, s, "b", time.Minute)
	register(t, s, "c", time.Hour)
	register(t, s, "d", time.Minute)
	later := now.Add(2 * time.Minute)
	for _, id := range []string{"e", "f"} {
		if err := s.Register(Session{id, gardener, miller, later.Add(time.Minute)}, later); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "c", "e", "f"} {
		if !s.Active(id, gardener, miller, later) {
			t.Errorf("%s is lost", id)
		}
	}
	// e and f are over next, though a and c were held longer.
	later = later.Add(time.Minute)
	if err := s.Register(Session{"g", gardener, miller, later.Add(time.Minute)}, later); err != nil {
		t.Fatal(err)
	}
	if s.Len() != 3 || !s.Active("a", gardener, miller, later) {
		t.Errorf("%d are held", s.Len())
	}
}

func TestSessionsHoldTenThousand(t *testing.T) {
	s := NewSessions(SessionOptions{PerAgent: maxSessions + 1})
	for i := range maxSessions + 1 {
		register(t, s, fmt.Sprint(i), time.Hour)
	}
	if s.Len() != 10_000 {
		t.Errorf("%d are held", s.Len())
	}
	if s.Active("0", gardener, miller, now) || !s.Active("1", gardener, miller, now) {
		t.Error("it is not the first that was dropped")
	}
}

func TestOneAgentDoesNotDriveOutTheSessionsOfOthers(t *testing.T) {
	s := NewSessions(SessionOptions{Max: 8}) // two for each
	if err := s.Register(Session{"quiet", stranger, miller, now.Add(time.Hour)}, now); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		register(t, s, fmt.Sprint(i), time.Hour)
	}
	if !s.Active("quiet", stranger, miller, now) {
		t.Error("the session of another is lost")
	}
	for id, want := range map[string]bool{"17": false, "18": true, "19": true} {
		if got := s.Active(id, gardener, miller, now); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	if s.Len() != 3 || len(s.from) != 2 {
		t.Errorf("%d sessions of %d agents are held", s.Len(), len(s.from))
	}
}

func TestSessionsAreUsedByManyAtOnce(t *testing.T) {
	s := NewSessions(SessionOptions{Max: 16, PerAgent: 16})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			id := fmt.Sprint(i)
			for range 50 {
				if err := s.Register(Session{id, gardener, miller, now.Add(time.Minute)}, now); err != nil {
					t.Error(err)
				}
				s.Active(id, gardener, miller, now)
			}
		})
	}
	all.Wait()
	if s.Len() != 16 {
		t.Errorf("%d are held", s.Len())
	}
}
