package endpoint

import (
	"context"
	"errors"
	"log/slog"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Observer is told what happens. Its methods are called from many goroutines
// at once, often on a read loop, and must not block. What they are given is
// valid until they return.
type Observer interface {
	// Verdict is called exactly once for every frame received, good or bad,
	// when it is known how it ended: at once for what is refused or answered
	// inline, at the end of the exchange for detached and held requests. So
	// verdicts of one stream need not arrive in the order of Seq.
	Verdict(v Verdict)

	// Security is called for each S1 failure on an established connection.
	// What fails before that is reported by the listener.
	Security(ev transport.SecurityEvent)

	// Opened is called when a session starts, Closed when it ended, with why.
	// Every Opened is followed by one Closed.
	Opened(s *Session)
	Closed(s *Session, cause error)

	// Refused is called for a connection that was closed unserved: a bound was
	// reached, Options.Admit said no, or the endpoint is shutting down.
	Refused(peer *transport.Peer)
}

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
