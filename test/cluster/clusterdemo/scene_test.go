//go:build unix

package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/internal/programs"
)

// TestTheDemonstrationFindsALoss plants an event that is acknowledged and never arrives.
func TestTheDemonstrationFindsALoss(t *testing.T) {
	effort.Release(t)
	dir, err := programs.Build("cmd/swpd")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	s := &scene{out: &said, swpd: filepath.Join(dir, "swpd"), settle: time.Second, dir: t.TempDir(), began: time.Now()}
	err = s.play(t.Context(), func(ctx context.Context) error {
		lost := s.work[0].kind
		lost.Acked(lost.Next())
		return s.goesOn(ctx, "work of all kinds goes on")
	})
	if errors.Is(err, pgtest.ErrMissing) {
		t.Skip(err)
	}
	if err == nil || !strings.Contains(err.Error(), "events to a subscriber: 1 acknowledged and lost") {
		t.Errorf("found: %v\n%s", err, &said)
	}
	if strings.Contains(said.String(), "nothing lost") {
		t.Errorf("it said:\n%s", &said)
	}
}
