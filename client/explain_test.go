package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// TestWhatThePeerSaidIsNotExplainedByTheEndOfTheConnection has each profile's error
// explained after the connection has ended for another reason.
func TestWhatThePeerSaidIsNotExplainedByTheEndOfTheConnection(t *testing.T) {
	s := newStage(t, "quic")
	c, err := Dial(t.Context(), s.turnAway(profiles.RateLimitExceeded), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case <-c.Context().Done():
	case <-time.After(patience):
		t.Fatal("the connection did not end")
	}
	full := c.Explain(errors.New("no answer")).Error()
	if !strings.Contains(full, "is full") {
		t.Fatalf("an error of this side is explained by %q, want the end of the connection", full)
	}
	for _, err := range []error{
		&agdisc.PeerError{Code: "UNAVAILABLE"},
		&artifact.PeerError{Code: "TOO_LARGE"},
		&cred.PeerError{Code: "INVALID_CREDENTIAL"},
		&events.PeerError{Code: "TOO_MANY"},
		&policyhint.PeerError{Code: "TOO_MANY_HINTS"},
		&relay.PeerError{Code: "REJECTED"},
		&rpc.Error{Code: "ERR_NOT_FOUND"},
		&slip.PeerError{Code: "BUSY"},
		&state.PeerError{Code: "NOT_FOUND"},
		&tooldisc.PeerError{Code: "UNAVAILABLE"},
	} {
		got := c.Explain(err)
		if !errors.Is(got, err) || strings.Contains(got.Error(), "is full") {
			t.Errorf("%T is explained by %q, want what the peer said", err, got)
		}
	}
}
