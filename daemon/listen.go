package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// listen opens every configured listener, or none.
func (d *daemon) listen() error {
	policy := &transport.Policy{Credentials: d.credentials.Credentials}
	for i, lc := range d.config.Listeners {
		ln, err := listenOn(lc.Address.Addr, policy, d.observer.Security)
		if err != nil {
			return listenError(fmt.Sprintf("listeners[%d].address", i), lc.Address.String(), err)
		}
		d.listeners = append(d.listeners, &listener{Listener: ln, config: lc, refuse: d.refuse})
	}
	return nil
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

// openEndpoints makes an endpoint for the listeners with error frames and one
// for those without: it is the endpoint that has the error path. Both answer to
// the same bound on connections.
func (d *daemon) openEndpoints() error {
	byPath := make(map[bool]*endpoint.Endpoint)
	for _, l := range d.listeners {
		on := l.config.ErrorFrames
		if byPath[on] == nil {
			o := d.endpointOptions(on)
			o.Observer = adopting{d.observer, &d.partners.directory}
			ep, err := endpoint.New(o)
			if err != nil {
				return err
			}
			byPath[on] = ep
			d.endpoints = append(d.endpoints, ep)
		}
		l.endpoint = byPath[on]
	}
	// What is dialled has bounds of its own: many peers must not keep a partner
	// from being reached.
	for _, on := range []bool{false, true} {
		ep, err := endpoint.New(d.endpointOptions(on))
		if err != nil {
			return err
		}
		d.partners.endpoints[on] = ep
		d.endpoints = append(d.endpoints, ep)
	}
	if err := d.fronts.openEndpoints(); err != nil {
		return err
	}
	if err := d.teams.openEndpoints(); err != nil {
		return err
	}
	if err := d.sdl.openEndpoints(); err != nil {
		return err
	}
	d.metrics.watch(d.stats)
	return nil
}

// endpointOptions are those of an endpoint with or without error path.
func (d *daemon) endpointOptions(errorFrames bool) endpoint.Options {
	o := endpointOptions(d.config)
	o.Identity = d.credentials.identity
	o.Registry, o.Observer, o.Admit, o.ErrorFrames = d.profiles.Registry, d.observer, d.memory.admit, errorFrames
	o.InFlightOf = d.partners.inFlight
	o.Tracer = hinted{d.traces, d.profiles.Hints, d.profiles.Cred}
	return o
}

func (d *daemon) stats() endpoint.Stats {
	var sum endpoint.Stats
	for _, ep := range d.endpoints {
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

// recheck closes the connections whose peers are not trusted or let in any
// more.
func (d *daemon) recheck() {
	kept, closed := d.fronts.recheck()
	teamsKept, teamsClosed := d.teams.recheck()
	sdlKept, sdlClosed := d.sdl.recheck()
	kept, closed = kept+teamsKept+sdlKept, closed+teamsClosed+sdlClosed
	open := d.partners.dialled.list()
	for _, l := range d.listeners {
		open = append(open, l.open.list()...)
	}
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
	d.log.Info("peers held against the new trust anchors and rules", zap.Int("kept", kept), zap.Int("closed", closed))
}
