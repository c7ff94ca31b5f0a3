package command

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon"
)

func TestPinsAreNotRemovedWithTheLastTool(t *testing.T) {
	gone := []daemon.PinnedTool{{Tool: "s/old", State: daemon.ToolGone}}
	pins := map[string]string{"s/old": "sha256:0"}
	for name, try := range map[string]func() (map[string]string, error){
		"all of none":           func() (map[string]string, error) { return pinned(nil, nil, nil, true) },
		"all, and all are gone": func() (map[string]string, error) { return pinned(pins, gone, nil, true) },
		"the last one is gone":  func() (map[string]string, error) { return pinned(pins, gone, []string{"s/old"}, false) },
	} {
		if next, err := try(); err == nil || !strings.Contains(err.Error(), "every tool of the partner may be called") {
			t.Errorf("%s: %v, %v", name, next, err)
		}
	}
	next, err := pinned(pins, append(gone, daemon.PinnedTool{Tool: "s/new", Digest: "sha256:1"}), nil, true)
	if err != nil || len(next) != 1 || next["s/new"] != "sha256:1" {
		t.Errorf("%v, %v", next, err)
	}
}
