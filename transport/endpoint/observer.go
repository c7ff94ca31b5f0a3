package endpoint

import (
	"context"
	"errors"
	"log/slog"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Observer receives the events of an endpoint. Its methods are called from many goroutines
// at once, often on a read loop, and must not block. Their arguments are valid until they
// return.
type Observer interface {
	// Verdict is called exactly once for every received frame, when its outcome is known:
	// at once for a frame that is refused or answered inline, at the end of the exchange
	// for detached and held requests. So the verdicts of one stream need not be in the
	// order of Seq.
	Verdict(v Verdict)

	// Security is called for each S1 failure on an established connection. The listener
	// reports earlier failures.
	Security(ev transport.SecurityEvent)

	// Opened is called when a session starts, Closed with the reason when it has ended.
	// Every Opened is followed by one Closed.
	Opened(s *Session)
	Closed(s *Session, cause error)

	// Refused is called for a connection that is closed without being served: at a bound,
	// by Options.Admit, or because the endpoint is shutting down.
	Refused(peer *transport.Peer)
}

// Discard is an Observer that does nothing.
var Discard Observer = discard{}

type discard struct{}

func (discard) Verdict(Verdict)                  {}
func (discard) Security(transport.SecurityEvent) {}
func (discard) Opened(*Session)                  {}
func (discard) Closed(*Session, error)           {}
func (discard) Refused(*transport.Peer)          {}

// logging is the Observer of an Endpoint without one: it writes failures to the default
// logger of log/slog, which is standard error unless the program changes it. Error budgets
// bound how many lines peers can cause.
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
