// Package addr reads the addresses that configuration and command lines use:
//
//	swp+tls://host:port     mutual TLS 1.3 over TCP
//	swp+quic://host:port    QUIC
//	swp+tcp://127.0.0.1:port plaintext, this machine only
//
// A path, where one is allowed, names a target behind the address:
// swp+tls://host:port/server.
package addr

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Scheme is how an address is reached.
type Scheme string

// The schemes there are.
const (
	TLS  Scheme = "swp+tls"
	QUIC Scheme = "swp+quic"
	TCP  Scheme = "swp+tcp"
)

// DefaultPort is used by Parse where an address names none.
const DefaultPort = 7777

// Network is the network of net.Listen and net.Dial: "udp" for QUIC, else "tcp".
func (s Scheme) Network() string {
	if s == QUIC {
		return "udp"
	}
	return "tcp"
}

// Addr is an address. The zero value is none.
type Addr struct {
	Scheme Scheme
	Host   string // name or IP address without brackets; empty means every interface
	Port   int    // 0 lets the system choose where a listener is meant
	Target string // what follows the slash, without it
}

// Parse reads an address. The port may be left out; it is then DefaultPort.
// Plaintext to anything but loopback is refused: "localhost" and loopback IP
// addresses are the only hosts that count as this machine (SWP Core §13).
func Parse(s string) (Addr, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	a := Addr{Scheme: Scheme(scheme)}
	switch {
	case !ok:
		return Addr{}, fmt.Errorf("addr: %q has no scheme, want swp+tls://, swp+quic:// or swp+tcp://", s)
	case a.Scheme != TLS && a.Scheme != QUIC && a.Scheme != TCP:
		return Addr{}, fmt.Errorf("addr: %q: unknown scheme %q, want swp+tls, swp+quic or swp+tcp", s, scheme)
	}
	hostport, target, _ := strings.Cut(rest, "/")
	a.Target = target
	var err error
	if a.Host, a.Port, err = splitHostPort(hostport); err != nil {
		return Addr{}, fmt.Errorf("addr: %q: %w", s, err)
	}
	if strings.ContainsAny(a.Host, "@?# \t\r\n\\") {
		return Addr{}, fmt.Errorf("addr: %q: %q is not a host", s, a.Host)
	}
	if a.Scheme == TCP && !a.Loopback() {
		return Addr{}, fmt.Errorf("addr: %q: plaintext is for loopback addresses only, use swp+tls:// or swp+quic://", s)
	}
	return a, nil
}

func splitHostPort(hostport string) (string, int, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		// Without a port: a name, an IPv4 address, or an IPv6 address in brackets.
		host, port = hostport, strconv.Itoa(DefaultPort)
		if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
			host = host[1 : len(host)-1]
		} else if strings.Contains(host, ":") {
			return "", 0, fmt.Errorf("%q is not host:port; an IPv6 address needs brackets", hostport)
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q, want 0 to 65535", port)
	}
	return host, int(n), nil
}

// HostPort is the address as net.Dial and net.Listen take it.
func (a Addr) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// String is the address as Parse reads it.
func (a Addr) String() string {
	s := string(a.Scheme) + "://" + a.HostPort()
	if a.Target != "" {
		s += "/" + a.Target
	}
	return s
}

// At returns the address with the host and port that a listener really has.
func (a Addr) At(actual net.Addr) Addr {
	if ap, err := netip.ParseAddrPort(actual.String()); err == nil {
		a.Host, a.Port = ap.Addr().String(), int(ap.Port())
	}
	return a
}

// Loopback reports whether the host is this machine: "localhost" or a loopback
// IP address. No name is looked up.
func (a Addr) Loopback() bool { return Loopback(a.Host) }

// Loopback reports whether a host is "localhost" or a loopback IP address.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
