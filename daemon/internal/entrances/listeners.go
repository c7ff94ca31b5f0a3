// Package entrances admits peers: it listens for connections, makes the options of the
// endpoints that serve them, and refuses new ones while memory is short.
package entrances

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// listener is a transport.Listener that returns only connections of admitted peers. It
// records its open connections, so that they can be checked again after a change of trust
// anchors or rules.
type listener struct {
	transport.Listener
	config   config.Listener
	endpoint *endpoint.Endpoint
	refuse   func(transport.Conn) error // closes a connection whose peer is not admitted

	open part.Connections
}

// Accept returns the next connection of an admitted peer.
func (l *listener) Accept(ctx context.Context) (transport.Conn, error) {
	for {
		conn, err := l.Listener.Accept(ctx)
		if err != nil {
			return nil, err
		}
		if l.open.Admit(conn, l.refuse) == nil {
			return conn, nil
		}
	}
}

// address is the address to dial: the configured one with the port that the system chose.
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

// Listeners are the listeners of the configuration.
type Listeners struct {
	part.Passive
	o        Options
	observer endpoint.Observer
	list     []*listener
	passed   []*listener          // of connections that other nodes pass
	far      []*endpoint.Endpoint // with and without error path
}

// Options configure Listeners.
type Options struct {
	Config      *config.Config
	Log         *zap.Logger
	Sockets     *Sockets
	Credentials func() *transport.Credentials
	Endpoints   *Endpoints
	Security    func(transport.SecurityEvent) // called for failed handshakes

	// Cluster returns the node whose passed connections are served, too, or nil.
	Cluster func() *Cluster

	// Keeper closes the connections of peers that are not admitted.
	Keeper interface {
		Refuse(conn transport.Conn) error
		RecheckAll(open []transport.Conn) (kept, closed int)
	}
}

// NewListeners does not listen yet.
func NewListeners(o Options) *Listeners { return &Listeners{o: o} }

// Policy verifies the peers of the listeners.
func (ls *Listeners) Policy() *transport.Policy {
	return &transport.Policy{Credentials: ls.o.Credentials}
}

// Observe sets the observer of the endpoints behind the listeners. It is called before Open.
func (ls *Listeners) Observe(observer endpoint.Observer) { ls.observer = observer }

// Listen opens every configured listener, or none; a second call does nothing. It accepts no
// connection yet.
func (ls *Listeners) Listen() error {
	if len(ls.list) > 0 {
		return nil
	}
	policy := ls.Policy()
	for i, lc := range ls.o.Config.Listeners {
		ln, err := ls.listenOn(lc.Address.Addr, policy)
		if err != nil {
			return ListenError(fmt.Sprintf("listeners[%d].address", i), lc.Address.String(), err)
		}
		ls.list = append(ls.list, &listener{Listener: ln, config: lc, refuse: ls.o.Keeper.Refuse})
	}
	return nil
}

// Open implements part.Part: it makes an endpoint for the listeners with error frames and
// one for those without, because the error path is an option of the endpoint. The bound on
// connections applies to both together.
func (ls *Listeners) Open() error {
	byPath := make(map[bool]*endpoint.Endpoint)
	for _, on := range []bool{false, true} {
		if from := ls.o.Cluster().Peers(on); from != nil {
			ls.passed = append(ls.passed, &listener{Listener: from, config: config.Listener{ErrorFrames: on}, refuse: ls.o.Keeper.Refuse})
		}
	}
	for _, l := range slices.Concat(ls.list, ls.passed) {
		on := l.config.ErrorFrames
		if byPath[on] == nil {
			o := ls.o.Endpoints.Options(on)
			o.Observer = ls.observer
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

// Endpoints implements part.Part.
func (ls *Listeners) Endpoints() []*endpoint.Endpoint { return ls.far }

// Serve implements part.Part.
func (ls *Listeners) Serve(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for _, l := range slices.Concat(ls.list, ls.passed) {
		work.Go(func() {
			if err := l.endpoint.Serve(ctx, l); err != nil && ctx.Err() == nil && !errors.Is(err, endpoint.ErrShutdown) {
				ls.o.Log.Error("listener failed", zap.String("address", l.address()), zap.Error(err))
			}
		})
	}
}

// Recheck implements part.Part.
func (ls *Listeners) Recheck() (kept, closed int) {
	var open []transport.Conn
	for _, l := range slices.Concat(ls.list, ls.passed) {
		open = append(open, l.open.List()...)
	}
	return ls.o.Keeper.RecheckAll(open)
}

// Close implements part.Part.
func (ls *Listeners) Close() error {
	for _, l := range ls.list {
		_ = l.Close()
	}
	return nil
}

// Addresses returns the actual addresses, with the ports that the system chose.
func (ls *Listeners) Addresses() []string {
	list := make([]string, len(ls.list))
	for i, l := range ls.list {
		list[i] = l.address()
	}
	return list
}

// WriteAddresses writes the addresses into a file, one a line. The last is admin, unless it is empty.
func (ls *Listeners) WriteAddresses(file, admin string) error {
	lines := ls.Addresses()
	if admin != "" {
		lines = append(lines, admin)
	}
	return disk.Replace(file, []byte(strings.Join(lines, "\n")+"\n"), nil)
}

func (ls *Listeners) listenOn(a transport.Addr, policy *transport.Policy) (transport.Listener, error) {
	switch a.Transport {
	case "tls":
		ln, err := ls.o.Sockets.Listen(a.HostPort())
		if err != nil {
			return nil, err
		}
		return tlsconn.On(ln, policy, tlsconn.Options{OnSecurity: ls.o.Security, Pending: ls.pending(), Shared: ls.o.Endpoints.Proxies.Shared}), nil
	case "quic":
		udp, err := ls.o.Sockets.ListenUDP(a.HostPort())
		if err != nil {
			return nil, err
		}
		return quicconn.On(udp, policy, quicconn.Options{
			OnSecurity: ls.o.Security, Pending: ls.pending(), Shared: ls.o.Endpoints.Proxies.Shared, Windows: ls.windows(),
		})
	default:
		return transport.ListenLoopback(a.HostPort(), transport.PlainOptions{OnSecurity: ls.o.Security})
	}
}

// shakeOctets is what a handshake holds.
const shakeOctets = 32 << 10

// pending is how many handshakes of a listener may be under way: together they hold an eighth
// of the budget for octets in flight, or less.
func (ls *Listeners) pending() int {
	return int(min(1024, max(64, ls.o.Config.Limits.InFlightBytes/strangePart/shakeOctets)))
}

// windows is how many octets the windows of QUIC connections may grow together.
func (ls *Listeners) windows() int { return int(ls.o.Config.Limits.InFlightBytes / 16) }
