package entrances

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/internal/part"
)

func TestMemoryGuardRefusesWhileMemoryIsShort(t *testing.T) {
	used := uint64(0)
	g := &Memory{limit: 100, used: func() uint64 { return used }}
	for _, step := range []struct {
		used  uint64
		short bool
	}{{0, false}, {89, false}, {90, true}, {100, true}, {89, false}} {
		used = step.used
		g.measure()
		if got := g.Admit() != nil; got != step.short {
			t.Errorf("%d of 100 in use: refused %v, want %v", used, got, step.short)
		}
	}
}

func TestRS03ShortMemoryIsNotReadyAndRecovers(t *testing.T) {
	guard := &Memory{}
	guard.short.Store(true)
	look := func() (h part.Health) {
		guard.Look(&h)
		return h
	}
	if v := look(); len(v.Reasons) != 1 || !strings.HasPrefix(v.Reasons[0], "memory: ") {
		t.Errorf("health %+v", v)
	}
	guard.short.Store(false)
	if v := look(); len(v.Reasons) > 0 {
		t.Errorf("health %+v", v)
	}
}
