package transport

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// DefaultPort is used where an address names none.
const DefaultPort = 7777

// Addr is an address to listen on or to dial.
type Addr struct {
	Transport string // "tls", "quic" or "tcp"
	Host      string // DNS name or IP address, without brackets; empty means every interface
	Port      uint16 // 0 lets the system choose when listening
}

// ParseAddr reads swp+tls://host:port, swp+quic://host:port or, for plaintext
// on this machine, swp+tcp://127.0.0.1:port. Without a port it is DefaultPort.
func ParseAddr(s string) (Addr, error) {
	fail := func(format string, args ...any) (Addr, error) {
		return Addr{}, fmt.Errorf("transport: address %.256q: "+format, append([]any{s}, args...)...)
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return fail("want swp+tls://host:port, swp+quic://host:port or swp+tcp://127.0.0.1:port")
	}
	a := Addr{Host: u.Hostname(), Port: DefaultPort}
	switch u.Scheme {
	case "swp+tls":
		a.Transport = "tls"
	case "swp+quic":
		a.Transport = "quic"
	case "swp+tcp":
		a.Transport = "tcp"
	default:
		return fail("scheme %q, want swp+tls, swp+quic or swp+tcp", u.Scheme)
	}
	if u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return fail("only host and port may follow the scheme")
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fail("port %q, want 0 to 65535", port)
		}
		a.Port = uint16(n)
	} else if u.Host[len(u.Host)-1] == ':' {
		return fail("no port after the colon")
	}
	if a.Transport == "tcp" && !loopbackHost(a.Host) {
		return fail("%w", ErrNotLoopback)
	}
	return a, nil
}

// HostPort is what package net takes.
func (a Addr) HostPort() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// String is the form that ParseAddr reads.
func (a Addr) String() string { return "swp+" + a.Transport + "://" + a.HostPort() }

// loopbackHost reports whether host is this machine by its form: a loopback address, or the
// name localhost, whose addresses are checked when it is used. Other names are not
// resolved.
func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func loopbackAddr(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.AddrPort().Addr().Unmap().IsLoopback()
}
