package mcpfront

import (
	"testing"

	"github.com/slimwire/swp/internal/fair/fairtest"
)

// The messages that are kept for clients that come back have one bound for all callers.
func TestRS32KeptMessagesOfOneCallerLeaveRoomForAnother(t *testing.T) {
	const size = 100
	kept := func(flooded bool) int {
		f := New(Options{MaxStored: 10 * size})
		sessions := map[string][]*frontSession{}
		for range 64 {
			for _, who := range []string{fairtest.Alice, fairtest.Mallory} {
				s, ok := f.open(t.Context(), who, "", nil)
				if !ok {
					t.Fatal("no session")
				}
				t.Cleanup(func() { s.drop() })
				sessions[who] = append(sessions[who], s)
			}
		}
		say := func(who string) {
			for _, s := range sessions[who] {
				s.append(s.feeds[0], make([]byte, size))
			}
		}
		for range 20 {
			if flooded {
				say(fairtest.Mallory)
			}
		}
		for range 20 {
			say(fairtest.Alice)
			if flooded {
				say(fairtest.Mallory)
				say(fairtest.Mallory)
			}
		}
		if used := f.stored.Used(); used > 64*10*size {
			t.Errorf("%d octets are kept", used)
		}
		n := 0
		for _, s := range sessions[fairtest.Alice] {
			n += len(s.entries)
		}
		return n
	}
	fairtest.Row(t, "mcp: messages kept over HTTP", "messages of 640", kept(false), kept(true))
}
