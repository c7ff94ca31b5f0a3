// Package client connects to SWP endpoints. It has the functions of swp-client: ping,
// bench, calls to MCP servers, a local MCP server that forwards to a remote one, and so on.
//
// A Client is one connection. It is symmetric: the peer may call back, as legacy MCP
// servers do.
package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Options configure Dial.
type Options struct {
	// Identity is the certificate of this side and the authorities of peers. Not needed for
	// swp+tcp.
	Identity Identity

	// Expect is the identity that the peer must have. Empty means that its
	// certificate must be valid for the host that is dialled.
	Expect string

	// Partner says that the path of the address names partners: of the peer, of that
	// partner and so on. Requests go to the last one. Dial fails if the peer does not
	// forward messages.
	Partner bool

	// Endpoint configures the endpoint that serves the connection. Dial sets its Registry, and
	// Bounds.Write if that is zero: to more than the time that a server may let a large frame wait.
	Endpoint endpoint.Options

	// Stopped is called for each action that a hint of this client has stopped, if Profiles
	// is nil. It must not block. It may be nil.
	Stopped func(*policyhint.ViolationError)

	// Notice is called for deliveries of this side that a relay has given up, if Profiles
	// is nil. Its result says whether the relay can stop repeating the notice. It must not
	// block. It may be nil.
	Notice func(relay.Notice) bool

	// Profiles serve the connection. The caller closes them. Nil uses a new set without
	// backends.
	Profiles *all.Set
}

// Identity is a certificate, its key and the authorities of peers, as PEM files.
type Identity struct {
	Cert, Key, CA string
}

// Client is one connection. It is safe for concurrent use.
type Client struct {
	// Session sends requests to the peer, or to the partner that the address names (see
	// Options.Partner). Its Peer and its Context always belong to the connection.
	profiles.Session

	// Target is the path of the address: the name of a server, or empty.
	Target string

	peer *endpoint.Session // the connection

	address string
	opts    Options
	ep      *endpoint.Endpoint
	set     *all.Set
	end     func()                   // closes set, if Dial made it
	closed  sync.Once                // end was called
	info    atomic.Pointer[rpc.Info] // what the peer offers, if a Kept has asked
	way     *way                     // nil over SWP
	mute    atomic.Bool              // the peer did not answer swp.info, so no message of profile 12 is sent
	lacks   atomic.Bool              // the peer does not serve profile 12

	// inquire asks a peer that did not answer swp.info again; nil without a Kept.
	inquire func(ctx context.Context) error
}

// SplitTarget splits swp+tls://host:port/target. The target is the name of a server or an
// agent, or names of partners followed by that name, joined by slashes. Names are literal:
// no path is resolved, nothing is decoded, and an invalid name is an error. Without a slash
// there is no target.
func SplitTarget(address string) (addr transport.Addr, target string, err error) {
	at := address
	scheme, rest, ok := strings.Cut(address, "://")
	hostport, target, named := strings.Cut(rest, "/")
	if ok && named {
		at = scheme + "://" + hostport
		for name := range strings.SplitSeq(target, "/") {
			if why := noName(name); why != "" {
				return addr, "", fmt.Errorf("client: address %.256q: %s; after the port only a slash and a name may follow, or names separated by slashes", address, why)
			}
		}
	}
	addr, err = transport.ParseAddr(at)
	return addr, target, err
}

// noName returns why a part of a target is not a valid name, or an empty string.
func noName(name string) string {
	switch {
	case name == "":
		return "there is no name where a slash says that there is one"
	case name == "." || name == "..":
		return fmt.Sprintf("%q is no name", name)
	case strings.ContainsAny(name, "?#%") || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return fmt.Sprintf("%.80q has a character that no name after an address has", name)
	}
	return ""
}

// Dial connects to an address in the form of SplitTarget. It returns after this side has
// verified the peer. If the peer refuses this side, the first answer shows it. Explain
// explains errors.
func Dial(ctx context.Context, address string, opts Options) (*Client, error) {
	addr, target, err := SplitTarget(address)
	if err != nil {
		return nil, err
	}
	c := &Client{Target: target, address: addr.String(), opts: opts}
	conn, err := dial(ctx, addr, opts)
	if err != nil {
		return nil, c.Explain(err)
	}
	if err := c.attach(conn); err != nil {
		return nil, errors.Join(err, conn.Close(0))
	}
	if opts.Partner && target != "" {
		if err := c.toward(ctx, target); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// toward sends requests to a partner of the peer.
func (c *Client) toward(ctx context.Context, target string) error {
	if err := profiles.CheckTarget(target); err != nil {
		return err
	}
	passes, err := c.honours(ctx, 0, profiles.ExtTarget)
	switch {
	case err != nil:
		return err
	case !passes:
		return fmt.Errorf("%s does not announce that it forwards messages to partners (extension 52), so it would handle a message for %q itself; leave out /%[2]s if you mean %[1]s", c.address, target)
	}
	c.Session = profiles.Toward(c.peer, target)
	return nil
}

// Attach makes a Client from an existing connection, such as one end of a transport.Pipe.
// Identity and Expect are ignored.
func Attach(conn transport.Conn, opts Options) (*Client, error) {
	c := &Client{address: conn.Peer().Addr, opts: opts}
	if err := c.attach(conn); err != nil {
		return nil, errors.Join(err, conn.Close(0))
	}
	return c, nil
}

// attach makes conn the connection of this client.
func (c *Client) attach(conn transport.Conn) error {
	var err error
	c.set, c.end = c.opts.Profiles, func() {}
	if c.set == nil {
		if c.set, err = all.New(all.Options{Hints: c.opts.hints(), Relay: c.opts.relay()}); err != nil {
			return err
		}
		c.end = c.set.Close
	}
	o := c.opts.Endpoint
	o.Registry = c.set.Registry
	if o.Observer == nil {
		o.Observer = endpoint.Discard // errors are returned to the caller
	}
	if o.Tracer == nil {
		o.Tracer = endpoint.ContextFunc(c.set.Carriers.Attach)
	}
	if c.ep, err = endpoint.New(o); err != nil {
		c.end()
		return err
	}
	c.peer = c.ep.Attach(conn)
	c.peer.AwaitRoom()
	c.Session = c.peer
	return nil
}

func (o *Options) hints() policyhint.Options {
	if o.Stopped == nil {
		return policyhint.Options{}
	}
	return policyhint.Options{Told: func(_ *profiles.Peer, v *policyhint.ViolationError) { o.Stopped(v) }}
}

func (o *Options) relay() relay.Options {
	if o.Notice == nil {
		return relay.Options{}
	}
	return relay.Options{Notice: func(_ *profiles.Peer, n relay.Notice) bool { return o.Notice(n) }}
}

func dial(ctx context.Context, addr transport.Addr, opts Options) (transport.Conn, error) {
	if addr.Transport == "tcp" {
		return transport.DialLoopback(ctx, addr.HostPort())
	}
	creds, err := opts.Identity.load()
	if err != nil {
		return nil, err
	}
	policy := &transport.Policy{Credentials: func() *transport.Credentials { return creds }, Expect: opts.Expect}
	if addr.Transport == "quic" {
		return quicconn.Dial(ctx, addr.HostPort(), policy, quicconn.Options{})
	}
	return tlsconn.Dial(ctx, addr.HostPort(), policy, tlsconn.Options{})
}

func (id Identity) load() (*transport.Credentials, error) {
	creds, err := transport.LoadCredentials(id.Cert, id.Key, id.CA)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	// The peer decides by its clock whether the certificate is valid now.
	if err := id.fault(time.Now()); err != nil && !errors.As(err, new(*transport.ValidityError)) {
		return nil, err
	}
	return creds, nil
}

// MCP returns the calling side of profile 1 on this connection, which sends messages
// unchanged. To call single methods use OpenMCP.
func (c *Client) MCP() *mcpmap.Client { return c.set.MCP.Client(c.Session) }

// Close ends the connection at once. Messages in flight may be lost.
func (c *Client) Close() {
	_ = c.ep.Close()
	c.closed.Do(c.end)
}

// lingerTime is how long Finish waits for exchanges in flight and queued messages.
const lingerTime = 2 * time.Second

// Finish closes the connection gracefully: it gives messages in flight time to arrive.
func (c *Client) Finish() {
	ctx, cancel := context.WithTimeout(context.Background(), lingerTime)
	defer cancel()
	_ = c.ep.Shutdown(ctx)
	c.Close()
}

// Address returns the dialled address without the target.
func (c *Client) Address() string { return c.address }
