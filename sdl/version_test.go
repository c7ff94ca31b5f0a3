package sdl_test

import (
	"testing"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

func TestParseContentType(t *testing.T) {
	for ct, want := range map[string]struct {
		family  string
		version int64
		ok      bool
	}{
		"task.v3": {"task", 3, true}, "a.v1.v2": {"a.v1", 2, true}, "task.v0": {"task", 0, true},
		"task": {}, "task.vx": {}, "task.v": {}, ".v1": {}, "task.v-1": {}, "task.v+1": {}, "task.v1 ": {}, "task.v99999999999999999999": {}, "": {},
	} {
		family, version, ok := sdl.ParseContentType(ct)
		if ok != want.ok || ok && (family != want.family || version != want.version) {
			t.Errorf("%q: %q, %d, %v", ct, family, version, ok)
		}
	}
}

func TestVersionPolicyOfAFile(t *testing.T) {
	p, err := sdl.ParseVersionPolicy(parse(t, `{"min_peer_protocol":1,"max_peer_protocol":1,"require_peer_version":true,
		"deprecated_content_types":{"state.v1":"2026-03-01T12:00:01Z"},"allowed_content_type_versions":{"state":{"min":1,"max":2},"task":{"min":0,"max":0}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := validate(state(t), sdl.Options{Versions: p}); got != accepted {
		t.Error(got)
	}
	if p, err := sdl.ParseVersionPolicy(canonical.Value{}); err != nil || validate(state(t), sdl.Options{Versions: p}) != accepted {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"min_peer_protocol":0}`:                        accepted,
		`{"min_peer_protocol":-1,"max_peer_protocol":1}`: accepted,
		`{"max_peer_protocol":0}`:                        bad, // every version that is said is above it
		`{"max_peer_protocol":-3}`:                       bad,
		`{"min_peer_protocol":null,"max_peer_protocol":null,"require_peer_version":null,"deprecated_content_types":null,"allowed_content_type_versions":null}`: accepted,
	} {
		p, err := sdl.ParseVersionPolicy(parse(t, text))
		if got := validate(state(t), sdl.Options{Versions: p}); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		`[]`, `{"min_peer_protocol":2,"max_peer_protocol":1}`, `{"min_peer_protocol":"1"}`, `{"min_peer_protocol":1.0}`, `{"max_peer_protocol":true}`, `{"min_peer_protocol":1,"max_peer_protocol":0}`, `{"require_peer_version":1}`,
		`{"deprecated_content_types":[]}`, `{"deprecated_content_types":{"a":"tomorrow"}}`, `{"deprecated_content_types":{"a":"tomorrow","b":"2026-03-01T12:00:00Z"}}`,
		`{"allowed_content_type_versions":[]}`, `{"allowed_content_type_versions":{"a":{"min":1}}}`, `{"allowed_content_type_versions":{"a":{"min":2,"max":1}}}`,
		`{"allowed_content_type_versions":{"a":{"min":-1,"max":1}}}`, `{"typo":1}`,
	} {
		if p, err := sdl.ParseVersionPolicy(parse(t, text)); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

func TestVersionsThatAreRefused(t *testing.T) {
	without := set(t, state(t), "cap.a2a_sdl.v", "")
	for _, test := range []struct {
		v      canonical.Value
		policy sdl.VersionPolicy
		want   string
	}{
		{without, sdl.VersionPolicy{}, accepted},
		{without, sdl.VersionPolicy{MinPeer: 1, MaxPeer: 1}, accepted},
		{without, sdl.VersionPolicy{RequirePeer: true}, bad},
		{state(t), sdl.VersionPolicy{RequirePeer: true}, accepted},
		{state(t), sdl.VersionPolicy{MinPeer: 2}, bad},
		{state(t), sdl.VersionPolicy{MinPeer: 1, MaxPeer: 1}, accepted},
		{state(t), sdl.VersionPolicy{Deprecated: map[string]time.Time{sdl.CTState: noon.Add(time.Second)}}, accepted},
		{state(t), sdl.VersionPolicy{Deprecated: map[string]time.Time{sdl.CTState: noon}}, bad},
		{state(t), sdl.VersionPolicy{Deprecated: map[string]time.Time{sdl.CTTask: noon}}, accepted},
		{state(t), sdl.VersionPolicy{Allowed: map[string]sdl.VersionRange{"state": {1, 2}}}, accepted},
		{state(t), sdl.VersionPolicy{Allowed: map[string]sdl.VersionRange{"state": {2, 3}}}, bad},
		{state(t), sdl.VersionPolicy{Allowed: map[string]sdl.VersionRange{"state": {0, 0}}}, bad},
		{state(t), sdl.VersionPolicy{Allowed: map[string]sdl.VersionRange{"task": {2, 3}}}, accepted},
	} {
		if got := validate(test.v, sdl.Options{Versions: test.policy}); got != test.want {
			t.Errorf("%+v: %s, want %s", test.policy, got, test.want)
		}
	}
}
