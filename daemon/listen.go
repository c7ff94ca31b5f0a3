package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// listener is a transport.Listener that lets in whom it may, and remembers the
// connections it returned while they last, so that they can be held against new
// trust anchors and rules.
type listener struct {
	transport.Listener
	config   config.Listener
	endpoint *endpoint.Endpoint
	refuse   func(transport.Conn) error // closes a connection that is not let in

	open connections
}

// Accept returns the next connection whose peer is let in.
func (l *listener) Accept(ctx context.Context) (transport.Conn, error) {
	for {
		conn, err := l.Listener.Accept(ctx)
		if err != nil {
			return nil, err
		}
		l.open.add(conn)
		// Remembered first: rules that change now find it.
		if l.refuse(conn) == nil {
			return conn, nil
		}
	}
}

// address is what a peer dials: the configured one with the port that the
// system chose.
func (l *listener) address() string {
	a := l.config.Address.Addr
	if at, err := netip.ParseAddrPort(l.Addr().String()); err == nil {
		a.Port = at.Port()
		if a.Host != "localhost" {
			a.Host = at.Addr().String()
		}
	}
	return a.String()
}

// listeners are those of the configuration.
type listeners struct {
	passive
	d    *daemon
	list []*listener
	far  []*endpoint.Endpoint // of all, by their error path
}

// listen opens every configured listener, or none. Nobody is let in yet.
func (ls *listeners) listen() error {
	policy := &transport.Policy{Credentials: ls.d.credentials.Credentials}
	for i, lc := range ls.d.config.Listeners {
		ln, err := listenOn(lc.Address.Addr, policy, ls.d.observer.Security)
		if err != nil {
			return listenError(fmt.Sprintf("listeners[%d].address", i), lc.Address.String(), err)
		}
		ls.list = append(ls.list, &listener{Listener: ln, config: lc, refuse: ls.d.refuse})
	}
	return nil
}

// open implements part: it makes an endpoint for the listeners with error frames and one
// for those without, because it is the endpoint that has the error path. Both answer to
// the same bound on connections.
func (ls *listeners) open() error {
	byPath := make(map[bool]*endpoint.Endpoint)
	for _, l := range ls.list {
		on := l.config.ErrorFrames
		if byPath[on] == nil {
			o := ls.d.endpointOptions(on)
			o.Observer = adopting{ls.d.observer, &ls.d.partners.directory}
			ep, err := endpoint.New(o)
			if err != nil {
				return err
			}
			byPath[on] = ep
			ls.far = append(ls.far, ep)
		}
		l.endpoint = byPath[on]
	}
	return nil
}

// endpoints implements part.
func (ls *listeners) endpoints() []*endpoint.Endpoint { return ls.far }

// serve implements part.
func (ls *listeners) serve(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for _, l := range ls.list {
		work.Go(func() {
			if err := l.endpoint.Serve(ctx, l); err != nil && ctx.Err() == nil && !errors.Is(err, endpoint.ErrShutdown) {
				ls.d.log.Error("listener failed", zap.String("address", l.address()), zap.Error(err))
			}
		})
	}
}

// recheck implements part.
func (ls *listeners) recheck() (kept, closed int) {
	var open []transport.Conn
	for _, l := range ls.list {
		open = append(open, l.open.list()...)
	}
	return ls.d.held(open)
}

// close implements part.
func (ls *listeners) close() error {
	for _, l := range ls.list {
		_ = l.Close()
	}
	return nil
}

// addresses are where peers really connect: ports that the system chose are
// filled in.
func (ls *listeners) addresses() []string {
	list := make([]string, len(ls.list))
	for i, l := range ls.list {
		list[i] = l.address()
	}
	return list
}

func listenOn(a transport.Addr, policy *transport.Policy, event func(transport.SecurityEvent)) (transport.Listener, error) {
	switch a.Transport {
	case "tls":
		return tlsconn.Listen(a.HostPort(), policy, tlsconn.Options{OnSecurity: event})
	case "quic":
		return quicconn.Listen(a.HostPort(), policy, quicconn.Options{OnSecurity: event})
	default:
		return transport.ListenLoopback(a.HostPort(), transport.PlainOptions{OnSecurity: event})
	}
}

// listenError says what to do about an address that cannot be listened on.
func listenError(key, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s: the port is taken, perhaps by another swpd; stop that program or choose another port (0 lets the system choose)", key, address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %s: not permitted; ports below 1024 need a privilege, choose another", key, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %s: this machine has no such address", key, address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("%s: %s: %w", key, address, err)
}

// endpointOptions are those of an endpoint with or without error path.
func (d *daemon) endpointOptions(errorFrames bool) endpoint.Options {
	o := endpointOptions(d.config)
	o.Identity = d.credentials.identity
	o.Registry, o.Observer, o.Admit, o.ErrorFrames = d.profiles.Registry, d.observer, d.memory.admit, errorFrames
	o.InFlightOf = d.partners.inFlight
	o.Tracer, o.Access = d.traces, d.guard
	return o
}

// limitKeys are the limits that are taken up, which leaves out those that others were
// derived from or told at the start: the sizes of frames and their parts (what is stored,
// the bounds of relay, artifacts and A2A-SDL), the idle time (swp.info, links) and the time
// of a handler (of RPC methods).
func limitKeys() []string {
	return []string{
		"limits.frame_rate", "limits.frame_burst", "limits.connections", "limits.connections_per_identity", "limits.in_flight",
		"limits.long_exchanges", "limits.handlers", "limits.in_flight_bytes", "limits.in_flight_bytes_per_connection",
		"limits.outbound_bytes_per_connection", "limits.outbound_frames_per_connection", "limits.error_budget", "limits.pace_budget",
		"limits.body", "limits.write", "rate", "freshness",
	}
}

// prepareLimits has connections that come from now on be bound by other limits.
func (d *daemon) prepareLimits(c *config.Config) (change, error) {
	o := endpointOptions(c)
	return change{
		fields: []zap.Field{zap.Int("connections", c.Limits.Connections), zap.Int("in_flight", c.Limits.InFlight)},
		commit: func() bool {
			var all []error
			outer, _ := d.parts.endpoints()
			for _, ep := range outer {
				all = append(all, ep.SetLimits(o))
			}
			for _, p := range d.parts {
				all = append(all, p.door().limit(o))
			}
			if err := errors.Join(all...); err != nil {
				d.log.Error("limits not taken up everywhere", zap.Error(err))
			}
			return false
		},
	}, nil
}

func (d *daemon) stats() endpoint.Stats {
	var sum endpoint.Stats
	outer, inner := d.parts.endpoints()
	for _, ep := range slices.Concat(outer, inner) {
		s := ep.Stats()
		sum.Sessions += s.Sessions
		sum.Handlers += s.Handlers
		sum.InFlightBytes += s.InFlightBytes
		sum.DeferredBytes += s.DeferredBytes
	}
	return sum
}

func endpointOptions(c *config.Config) endpoint.Options {
	l := &c.Limits
	o := endpoint.Options{
		FrameLimit: int(l.FrameBytes),
		Rate:       endpoint.Rate{Frames: l.FrameRate, Burst: c.Burst()},
		Window:     endpoint.Window{Frames: c.Rate.Frames, Period: time.Duration(c.Rate.WindowMS) * time.Millisecond},
		Freshness:  endpoint.Freshness{Skew: c.Freshness.Skew, Required: c.Freshness.Required},
		Bounds: endpoint.Bounds{
			Connections:            l.Connections,
			ConnectionsPerIdentity: l.ConnectionsPerIdentity,
			InFlight:               l.InFlight,
			LongExchanges:          l.LongExchanges,
			Handlers:               l.Handlers,
			InFlightBytes:          int(l.InFlightBytes),
			InFlightBytesPerConn:   int(l.InFlightBytesPerConn),
			OutboundBytes:          int(l.OutboundBytes),
			OutboundFrames:         l.OutboundFrames,
			ErrorBudget:            l.ErrorBudget,
			PaceBudget:             l.PaceBudget,
			Idle:                   l.Idle,
			Body:                   l.Body,
			Write:                  l.Write,
			Handler:                l.Handler,
		},
	}
	o.Envelope.MaxPayload, o.Envelope.MaxExtensions = int(l.PayloadBytes), int(l.ExtensionBytes)
	switch c.Freshness.Owner {
	case "core":
		o.Freshness.Owner = endpoint.FreshnessCore
	case "s1":
		o.Freshness.Owner = endpoint.FreshnessS1
	}
	return o
}

// reasonDenied is the reason of a security event: the access rules deny the
// identity.
const reasonDenied = "denied"

var (
	errDenied = errors.New("daemon: access.deny")
	errCaller = errors.New("daemon: the identity of an HTTP caller in a certificate")
	errGone   = errors.New("daemon: a caller that http does not let in any more")
	errTeam   = errors.New("daemon: the identity of a team in a certificate")
)

// refuse closes a connection whose peer the access rules do not let in, or which has
// an identity that no peer may have, and returns why.
func (d *daemon) refuse(conn transport.Conn) error {
	err := errDenied
	switch identity := conn.Peer().Identity; {
	case isCaller(identity):
		err = errCaller
	case isTeam(identity):
		err = errTeam
	case !d.guard.Denied(identity):
		return nil
	}
	d.hangUp(conn, reasonDenied, err)
	return err
}

// hangUp closes a connection for reasons of security and says so.
func (d *daemon) hangUp(conn transport.Conn, reason string, why error) {
	peer := conn.Peer()
	d.observer.Security(transport.SecurityEvent{
		Transport: peer.Transport, Addr: peer.Addr, Identity: peer.Identity, Reason: reason, Err: why,
	})
	_ = conn.Close(uint64(profiles.SecurityPolicy))
}

// recheck closes the connections of those who are not trusted or let in any more.
func (d *daemon) recheck() {
	kept, closed := d.parts.recheck()
	d.log.Info("peers held against the new trust anchors and rules", zap.Int("kept", kept), zap.Int("closed", closed))
}

// held closes those of some connections whose peers are not trusted or let in any more.
func (d *daemon) held(open []transport.Conn) (kept, closed int) {
	for _, conn := range open {
		if d.refuse(conn) != nil {
			closed++
			continue
		}
		if c, ok := conn.(transport.Rechecker); ok {
			if err := c.Recheck(); err != nil {
				d.hangUp(conn, transport.ReasonUntrusted, err)
				closed++
				continue
			}
		}
		kept++
	}
	return kept, closed
}
