package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionNamesTheReleaseAndTheRevision(t *testing.T) {
	built := func(main string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: main}, Settings: settings}
	}
	rev := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for want, info := range map[string]*debug.BuildInfo{
		"1.2.3":                            built("v1.2.3"),
		release:                            built("(devel)"),
		release + "+0123456789ab":          built("v0.0.0-20260101000000-0123456789ab", rev),
		release + "+0123456789ab.modified": built("v0.0.0-20260101000000-0123456789ab+dirty", rev, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
	} {
		if got := versionOf(info); got != want {
			t.Errorf("%+v: version %q, want %q", info, got, want)
		}
	}
	if got := Version("9.9.9"); got != "9.9.9" {
		t.Errorf("version %q, not the one that the build was told", got)
	}
}
