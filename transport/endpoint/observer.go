package endpoint

import (
	"context"
	"errors"
	"log/slog"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Discard is the Observer that is told everything and does nothing.
var Discard Observer = discard{}

type discard struct{}

func (discard) Verdict(Verdict)                  {}
func (discard) Security(transport.SecurityEvent) {}
func (discard) Opened(*Session)                  {}
func (discard) Closed(*Session, error)           {}
func (discard) Refused(*transport.Peer)          {}

// logging is the Observer of an Endpoint that was given none: it writes what went
// wrong to the default logger of log/slog, which is standard error unless the program
// says otherwise. Error budgets bound how much peers can have it write.
type logging struct{ discard }

func (logging) Verdict(v Verdict) {
	if !v.Reject {
		return
	}
	level, text := slog.LevelWarn, "endpoint: a message was refused"
	attrs := []slog.Attr{
		slog.String("peer", v.Session.Peer().Identity), slog.Uint64("profile_id", v.ProfileID), slog.Uint64("msg_type", v.MsgType),
		slog.String("code", v.Code.String()), slog.Any("err", v.Err),
	}
	if v.Code == profiles.Internal {
		level, text = slog.LevelError, "endpoint: a handler failed"
	}
	if panicked, ok := errors.AsType[*PanicError](v.Err); ok {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	slog.LogAttrs(context.Background(), level, text, attrs...)
}

func (logging) Security(ev transport.SecurityEvent) {
	slog.Warn("endpoint: security event", "event", ev)
}

func (logging) Refused(peer *transport.Peer) {
	slog.Warn("endpoint: a connection was refused", "peer", peer.Identity)
}
