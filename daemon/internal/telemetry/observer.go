package telemetry

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Observer turns the reports of endpoints and listeners into metrics and log lines. It
// never logs payload.
type Observer struct {
	metrics                   atomic.Pointer[Metrics] // nil until Count
	exchanges                 *Exchanges
	explain                   func(ev *transport.SecurityEvent) (why error, do string)
	reject, security, session *zap.Logger
}

// NewObserver makes an Observer without metrics; see Count. explain returns what to log as
// the error of a security event, and the remedy for an operator; do is empty if nothing is known.
func NewObserver(log *zap.Logger, x *Exchanges, explain func(ev *transport.SecurityEvent) (why error, do string)) *Observer {
	return &Observer{
		exchanges: x,
		explain:   explain,
		reject:    log.Named(boundlog.Reject),
		security:  log.Named(boundlog.Security),
		session:   log.Named(boundlog.Session),
	}
}

// Count sets the metrics. Call it before the first session; handshakes may fail before.
func (o *Observer) Count(m *Metrics) { o.metrics.Store(m) }

// Verdict counts each message and logs refused ones.
func (o *Observer) Verdict(v endpoint.Verdict) {
	p := o.metrics.Load().verdict(&v)
	if v.Code == profiles.OK {
		return
	}
	level, text := zapcore.WarnLevel, "message refused"
	if !v.Reject {
		level, text = zapcore.DebugLevel, "message answered with a failure"
	}
	if panicked := (*endpoint.PanicError)(nil); errors.As(v.Err, &panicked) {
		o.panicked(panicked, p.name)
	}
	line := o.reject.Check(level, text)
	if line == nil {
		return
	}
	peer := v.Session.Peer()
	line.Write(
		zap.Stringer("err_code", v.Code),
		zap.String("err_detail", v.Detail),
		zap.String("profile", p.name),
		zap.Uint64("profile_id", v.ProfileID),
		zap.Uint64("msg_type", v.MsgType),
		zap.String("msg_id", hex.EncodeToString(v.MsgID[:min(len(v.MsgID), 64)])),
		zap.Int("bytes", v.Bytes),
		zap.Stringer("action", v.Action),
		zap.String("peer", peer.Identity),
		zap.String("addr", peer.Addr),
		zap.String("transport", peer.Transport),
		zap.Uint64("session", v.Session.ID()),
		zap.Uint64("lane", v.Lane),
		zap.Uint64("seq", v.Seq),
		zap.Error(v.Err),
	)
}

// Exchange implements endpoint.ExchangeObserver.
func (o *Observer) Exchange(r endpoint.Report) { o.exchanges.observe(&r) }

// panicked logs the place of a panic in a handler, once per panic. The panic value may
// contain peer data, so it is truncated like any other.
func (o *Observer) panicked(err *endpoint.PanicError, profile string) {
	fields := []zap.Field{zap.String("profile", profile), zap.Error(err)}
	frames := strings.Split(strings.TrimSpace(string(err.Stack)), "\n")
	const skip, most = 7, 40 // lines of the recovery itself, and lines to keep
	frames = frames[min(skip, len(frames)):min(most, len(frames))]
	for i := 0; i+1 < len(frames); i += 2 {
		fields = append(fields, zap.String(fmt.Sprintf("frame_%02d", i/2), frames[i]+" "+strings.TrimSpace(frames[i+1])))
	}
	o.session.Error("handler panicked", fields...)
}

// Security writes an event to the audit trail.
func (o *Observer) Security(ev transport.SecurityEvent) {
	if m := o.metrics.Load(); m != nil { // a node that stands by has none
		m.event(&ev)
	}
	why, do := o.explain(&ev)
	o.security.Warn("security event",
		zap.Stringer("err_code", profiles.SecurityPolicy),
		zap.String("reason", ev.Reason),
		zap.String("transport", ev.Transport),
		zap.String("addr", ev.Addr),
		zap.String("peer", ev.Identity),
		optional("issuer", ev.Issuer),
		zap.Error(why),
		optional("do", do),
	)
}

// optional is a field that is left out if it is empty.
func optional(key, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(key, value)
}

// Opened implements endpoint.Observer.
func (o *Observer) Opened(s *endpoint.Session) {
	peer := s.Peer()
	o.metrics.Load().sessions.WithLabelValues(peer.Transport).Inc()
	o.metrics.Load().opened.WithLabelValues(peer.Transport).Inc()
	o.session.Info("connection opened",
		zap.Uint64("session", s.ID()),
		zap.String("peer", peer.Identity),
		zap.String("transport", peer.Transport),
		zap.String("addr", peer.Addr),
		zap.String("issuer", peer.Issuer),
		zap.String("subject", peer.Subject),
		zap.String("fingerprint", peer.Fingerprint),
	)
}

// Closed implements endpoint.Observer.
func (o *Observer) Closed(s *endpoint.Session, cause error) {
	peer := s.Peer()
	o.metrics.Load().sessions.WithLabelValues(peer.Transport).Dec()
	o.session.Info("connection closed", zap.Uint64("session", s.ID()), zap.String("peer", peer.Identity), zap.NamedError("cause", cause))
}

// Refused implements endpoint.Observer.
func (o *Observer) Refused(peer *transport.Peer) {
	o.metrics.Load().refused.WithLabelValues(peer.Transport).Inc()
	o.session.Warn("connection refused",
		zap.Stringer("err_code", profiles.RateLimitExceeded),
		zap.String("peer", peer.Identity),
		zap.String("transport", peer.Transport),
		zap.String("addr", peer.Addr),
	)
}
