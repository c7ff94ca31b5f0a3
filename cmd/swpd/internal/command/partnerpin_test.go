package command

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/check"
)

// A server that cannot be read hides no others.
func TestToolsArePinnedBesideAServerThatCannotBeRead(t *testing.T) {
	tools := []daemon.PinnedTool{
		{Tool: "hangs/kept", State: daemon.ToolUnread, Why: "it does not answer"}, {Tool: "s/new", Digest: "sha256:1", State: daemon.ToolUnpinned},
		{Tool: "hangs/", State: daemon.ToolUnread, Why: "it does not answer"},
	}
	pins := map[string]string{"hangs/kept": "sha256:0"}
	for name, next := range map[string]func() (map[string]string, error){
		"by name": func() (map[string]string, error) { return pinned(pins, tools, []string{"s/new"}, false) },
		"all":     func() (map[string]string, error) { return pinned(pins, tools, nil, true) },
	} {
		if got, err := next(); err != nil || len(got) != 2 || got["s/new"] != "sha256:1" || got["hangs/kept"] != "sha256:0" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for tool, want := range map[string]string{"hangs/kept": "cannot be read now: it does not answer", "hangs/other": "it cannot read the servers hangs now"} {
		if _, err := pinned(pins, tools, []string{tool}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	var out, told strings.Builder
	if err := printTools(&out, tools, false); !errors.Is(err, errNo) || !strings.Contains(out.String(), "hangs/") || !strings.Contains(out.String(), "it does not answer") {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := unread(&told, tools); !errors.Is(err, errNo) || !strings.Contains(told.String(), "hangs/ cannot be read: it does not answer") {
		t.Errorf("%v: %s", err, told.String())
	}
	if err := unread(&told, tools[1:2]); err != nil {
		t.Error(err)
	}
}

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

func TestTheAnswerIsNoWhileAPinnedToolDiffers(t *testing.T) {
	var s daemon.Status
	if err := json.Unmarshal([]byte(`{"partners":[{"name":"west","drifted":["m/echo"]},{"name":"east","drifted":["m/echo"]}]}`), &s); err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]bool{"m/echo": false, "m/other": true} {
		a := &check.Answer{Allowed: true, Pinned: tool, Partner: &check.AtPartner{Name: "east"}}
		judgePin("swpd.yaml", &s, a)
		if a.Allowed != want || !want && !strings.Contains(a.Barred, "swpd partner pin east --config swpd.yaml --accept m/echo") {
			t.Errorf("%s: %v %q", tool, a.Allowed, a.Barred)
		}
	}
}
