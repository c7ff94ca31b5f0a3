package telemetry

import (
	"slices"
	"testing"

	"github.com/slimwire/swp/profiles"
)

func TestEveryProfileHasALabelOfItsOwn(t *testing.T) {
	handler := profiles.HandlerFunc(nil)
	reg, err := profiles.NewRegistry(
		&profiles.Profile{ID: 1, Name: "a", Handler: handler}, &profiles.Profile{ID: 31, Name: "b", Handler: handler},
		&profiles.Profile{ID: 32, Name: "c", Handler: handler}, &profiles.Profile{ID: 1 << 40, Name: "d", Handler: handler},
	)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics(reg, "test")
	var got []string
	for _, id := range []uint64{0, 1, 2, 31, 32, 33, 1 << 40, 4096, 1<<64 - 1} {
		got = append(got, m.profile(id).name)
	}
	if want := []string{"other", "a", "other", "b", "c", "other", "d", "error", "other"}; !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
}
