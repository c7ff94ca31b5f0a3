package profiles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
)

// refusal is an error of a store.
type refusal struct {
	detail    string
	retryable bool
}

func (r *refusal) Error() string       { return "store: secret" }
func (r *refusal) StoreDetail() string { return r.detail }
func (r *refusal) Retryable() bool     { return r.retryable }

// A store that is full is no disk that is broken, and says who can change it.
func TestUnavailableTellsFullFromBroken(t *testing.T) {
	for _, test := range []struct {
		err  error
		code profiles.Code
		text string
	}{
		{fmt.Errorf("put: %w", &refusal{"store_quota", true}), profiles.RateLimitExceeded, "operator can raise"},
		{&refusal{"store_unavailable", true}, profiles.RateLimitExceeded, "cannot be written now"},
		{&refusal{"store_full", true}, profiles.RateLimitExceeded, "the volume of this endpoint's store is full"},
		{&refusal{"store_damaged", false}, profiles.Internal, "is damaged in the store"},
		{&refusal{"store_version", false}, profiles.Internal, "cannot be read or written"},
		{fmt.Errorf("secret"), profiles.Internal, "internal error"},
	} {
		got := profiles.Unavailable(test.err)
		if got.Code != test.code || !strings.Contains(got.Text, test.text) || strings.Contains(got.Text, "secret") {
			t.Errorf("%v: %v with %q, want %v with %q", test.err, got.Code, got.Text, test.code, test.text)
		}
	}
}
