package all

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Present presents the credentials under whose delegation ctx is at the other end of
// a lane, and returns the context in which calls on it name them.
func (s *Set) Present(ctx context.Context, lane profiles.Lane) (context.Context, error) {
	return s.tellCredentials(ctx, lane)
}
