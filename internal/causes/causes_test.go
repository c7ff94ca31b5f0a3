package causes_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
)

// Names and codes are on the wire, in metrics and in dashboards: each is there once, and every cause has its texts.
func TestEachCauseHasItsNameItsCodeAndItsRemedy(t *testing.T) {
	names, codes := make(map[string]bool), make(map[uint64]bool)
	for i, r := range causes.All() {
		if r.Cause == causes.None || r.Name == "" || names[r.Name] || strings.Count(r.Does, "%s") != 1 || r.Remedy == "" {
			t.Errorf("row %d: %+v", i, r)
		}
		if r.Code != 0 && codes[r.Code] {
			t.Errorf("%s has the code %d of another cause", r.Name, r.Code)
		}
		if r.Partner && r.Code <= 4096 {
			t.Errorf("%s has the code %d, which is not one of a private profile", r.Name, r.Code)
		}
		names[r.Name], codes[r.Code] = true, true
		if r.Code != 0 && causes.Of(r.Code) != r.Cause || r.Cause.Code() != r.Code || r.Cause.String() != r.Name || causes.Named(r.Name) != r.Cause || r.Cause.Remedy() != r.Remedy || r.Cause.ForPartners() != r.Partner {
			t.Errorf("%s is not found by its code", r.Name)
		}
	}
	if causes.Of(0) != causes.None || causes.Of(1<<60) != causes.None || causes.None.Words("it", "this endpoint") != "" {
		t.Error("no cause is one")
	}
	for _, c := range []causes.Cause{causes.None, causes.Suspended, causes.Full, causes.Draining, causes.Unsaid} {
		if !c.Passes() {
			t.Errorf("%s does not pass", c)
		}
	}
	for _, c := range []causes.Cause{causes.Revoked, causes.Ended, causes.Denied, causes.Untrusted} {
		if c.Passes() {
			t.Errorf("%s passes although nobody acts", c)
		}
	}
	if got, want := causes.Suspended.Words("it", "this endpoint"), "it has suspended the partnership with this endpoint"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if causes.Denied.Code() != uint64(profiles.SecurityPolicy) || causes.Full.Code() != uint64(profiles.RateLimitExceeded) {
		t.Error("the codes of Core are others")
	}
}
