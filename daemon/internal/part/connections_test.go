package part

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/slimwire/swp/transport"
)

// Connections, accepted or dialled, are admitted by Admit: a change of trust or rules that comes
// while a peer is judged finds its connection.
func TestTL13AConnectionIsListedBeforeItsPeerIsJudged(t *testing.T) {
	var open Connections
	kept, other := transport.NewPipe(transport.PipeOptions{A: "spiffe://test/kept", B: "spiffe://test/other"})
	defer func() { _, _ = kept.Close(0), other.Close(0) }()
	why := errors.New("it is not trusted any more")
	for _, want := range []error{nil, why} {
		judged := false
		err := open.Admit(kept, func(conn transport.Conn) error {
			judged = conn == kept && slices.Contains(open.List(), kept)
			return want
		})
		if !judged || !errors.Is(err, want) {
			t.Errorf("listed when it was judged: %v; %v, want %v", judged, err, want)
		}
	}
	_ = kept.Close(0)
	<-kept.Context().Done()
	for len(open.List()) > 0 { // another goroutine removes it
		runtime.Gosched()
	}
}
