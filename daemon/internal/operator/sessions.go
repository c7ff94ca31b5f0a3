package operator

import (
	"context"
	"fmt"
	"iter"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// SessionID is the id of a session. It is unique for a peer.
func SessionID(s *endpoint.Session) string { return fmt.Sprintf("%d at %s", s.ID(), s.Peer().Addr) }

// EndSession is the action that ends a session.
func EndSession(sessions func() iter.Seq[*endpoint.Session]) Action {
	return Action{
		Name: "sessions.end", Kind: "sessions", Does: "close the connection at once; its calls fail, and its peer may connect again", Final: true,
		Do: func(_ context.Context, on Target) (string, error) {
			for s := range sessions() {
				if s.Peer().Identity == on.Owner && SessionID(s) == on.ID {
					s.Close(profiles.OK)
					return "it is closed", nil
				}
			}
			return "", profiles.Errorf(profiles.NotFound, "there is no such session")
		},
	}
}
