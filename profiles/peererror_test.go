package profiles_test

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/profiles"
)

func TestPeerErrorSaysItsProfileOnce(t *testing.T) {
	for want, e := range map[string]profiles.PeerError{
		"state: CONFLICT":                {Profile: "state", Code: "CONFLICT"},
		"state: CONFLICT: other parents": {Profile: "state", Code: "CONFLICT", Message: "state: other parents"},
		"state: CONFLICT: other state":   {Profile: "state", Code: "CONFLICT", Message: "other state"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPeerErrorIsTheCanonicalErrorThatItsCodeNames(t *testing.T) {
	for _, test := range []struct {
		code      string
		later     bool
		canonical profiles.Code // OK: none
		retryable bool
	}{
		{"NOT_FOUND", false, profiles.NotFound, false},
		{"ERR_SECURITY_POLICY", false, profiles.SecurityPolicy, false},
		{"RATE_LIMIT_EXCEEDED", false, profiles.RateLimitExceeded, true},
		{"INTERNAL_ERROR", true, profiles.Internal, true},
		{"SLOW_CONSUMER", true, profiles.OK, true},
		{"CONFLICT", false, profiles.OK, false},
	} {
		e := &profiles.PeerError{Profile: "x", Code: test.code, Message: "text", Later: test.later}
		if e.Retryable() != test.retryable {
			t.Errorf("%s, later %v: Retryable %v", test.code, test.later, e.Retryable())
		}
		fault, ok := errors.AsType[*profiles.Error](error(e))
		switch {
		case ok != (test.canonical != profiles.OK):
			t.Errorf("%s is the canonical error %v", test.code, fault)
		case ok && (fault.Code != test.canonical || fault.Text != "text" || !fault.Domain || fault.Retryable != test.retryable):
			t.Errorf("%s is the canonical error %+v", test.code, fault)
		}
	}
}
