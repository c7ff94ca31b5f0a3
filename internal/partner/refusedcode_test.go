package partner

import (
	"testing"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
)

// What only an operator can end is not offered for a retry.
func TestARefusalForGoodIsNotRetryable(t *testing.T) {
	for _, row := range causes.All() {
		l := &Link{opts: Options{Name: "b"}}
		got := l.unreachable(refusal(row.Cause, profiles.Errorf(profiles.Internal, "closed")))
		if got.Retryable != row.Passes || (got.Code == profiles.RateLimitExceeded) != row.Passes {
			t.Errorf("%s: %+v", row.Name, got)
		}
	}
}
