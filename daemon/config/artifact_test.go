package config

import (
	"strings"
	"testing"
)

func TestArtifactIsChecked(t *testing.T) {
	for name, test := range map[string]struct{ yaml, want string }{
		"quota":        {"artifact: {quota: {per_identity: 51GiB}}\n", "artifact.quota.per_identity: is 51GiB, want 1MiB to artifact.quota.total, which is 50GiB"},
		"small quota":  {"artifact: {quota: {total: 1KiB, per_identity: 1KiB}}\n", "artifact.quota.total: is 1KiB, want at least 1MiB"},
		"max_size":     {"artifact: {max_size: 11GiB}\n", "artifact.max_size: is 11GiB, more than artifact.quota.per_identity, which is 10GiB"},
		"metadata":     {"artifact: {metadata: 2MiB}\n", "artifact.metadata: is 2MiB, want 1 to 1MiB"},
		"chunk":        {"artifact: {chunk: 5MiB}\n", "artifact.chunk: is 5MiB, want 1 to 4MiB"},
		"chunk, frame": {"artifact: {chunk: 256KiB}\nlimits: {frame_bytes: 128KiB}\n", "artifact.chunk: is 256KiB, want 1 to 127KiB"},
		"window":       {"artifact: {window: 0}\n", "artifact.window: is 0, want 1 to 1024"},
		"items":        {"artifact: {items: 10}\n", "artifact.items_per_identity: is 16384, want 1 to 10"},
		"abandoned":    {"artifact: {abandoned: 0s}\n", "artifact.abandoned: is 0"},
	} {
		_, err := load(t, dir(t), test.yaml)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	c, err := load(t, dir(t), "limits: {payload_bytes: 64KiB}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.ArtifactChunk(); got != 63<<10 {
		t.Errorf("chunks of %s for payloads of 64KiB", got)
	}
}
