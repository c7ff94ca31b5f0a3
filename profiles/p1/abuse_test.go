//go:build abuse

package p1_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/p1"
)

func TestAbuseRS06ElementBombsCostNoTime(t *testing.T) {
	const size, bound = 8<<20 - 8<<10, 20 * time.Millisecond
	wrap := func(content []byte) []byte { return append(p1.AppendHeader(nil, 1, len(content)), content...) }
	for name, payload := range map[string][]byte{
		"4 million empty records":           wrap(bytes.Repeat([]byte("\x0a\x00"), size/2)),
		"1 million nested groups":           wrap(bytes.Repeat([]byte("\x53"), 1_000_000)),
		"4 million unknown fields":          append(wrap(nil), bytes.Repeat([]byte("\x52\x00"), size/2)...),
		"4 million occurrences of the body": bytes.Repeat([]byte("\x0a\x00"), size/2),
	} {
		best := time.Hour
		for range 3 {
			start := time.Now()
			body, err := p1.Body(payload, 1, 5)
			if err == nil {
				err = p1.Check(body, p1.Limit{Field: 1, Max: 1024})
			}
			best = min(best, time.Since(start))
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		if best > bound {
			t.Errorf("%s: refused in %v, want %v at most", name, best, bound)
		}
		t.Logf("%s: refused in %v", name, best)
	}
}
