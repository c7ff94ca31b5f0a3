package entrances

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/slimwire/swp/daemon/config"
)

// Sockets are the sockets of the addresses of a configuration: those that were passed to the
// process, and for other addresses those that it opens. Connections that nobody accepts wait
// in a passed socket, also while the process restarts. Sockets is used by one goroutine; nil
// has no passed sockets.
type Sockets struct {
	passed []*passed
	kept   []kept
}

// passed is a socket that was opened before the process started.
type passed struct {
	stream net.Listener // TCP or Unix; nil: UDP
	udp    *net.UDPConn
	at     netip.AddrPort // of TCP or UDP
	path   string         // of a Unix socket
}

// NewSockets returns Sockets with the passed ones, and closes the files.
func NewSockets(files []*os.File) (*Sockets, error) {
	s := new(Sockets)
	for _, f := range files {
		p, err := newPassed(f)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		s.passed = append(s.passed, p)
	}
	return s, nil
}

func newPassed(f *os.File) (*passed, error) {
	if ln, err := net.FileListener(f); err == nil {
		if ln.Addr().Network() == "unix" {
			return &passed{stream: ln, path: ln.Addr().String()}, nil
		}
		if at, err := netip.ParseAddrPort(ln.Addr().String()); err == nil {
			return &passed{stream: ln, at: at}, nil
		}
		_ = ln.Close()
	} else if conn, err := net.FilePacketConn(f); err == nil {
		if udp, ok := conn.(*net.UDPConn); ok {
			return &passed{udp: udp, at: udp.LocalAddr().(*net.UDPAddr).AddrPort()}, nil //nolint:errcheck // the address of an UDPConn
		}
		_ = conn.Close()
	}
	return nil, fmt.Errorf("the passed socket %q is neither TCP or Unix that listens nor UDP", f.Name())
}

// Listen returns the passed socket of an address, host:port or unix:PATH, or opens one.
func (s *Sockets) Listen(address string) (net.Listener, error) {
	if s != nil {
		for i, k := range s.kept {
			if k.address == address {
				s.kept = slices.Delete(s.kept, i, i+1)
				return k.Listener, nil
			}
		}
	}
	path, unix := config.UnixSocket(address)
	if p := s.take(func(p *passed) bool {
		return p.stream != nil && (unix && p.path == path || !unix && bound(p.at, address))
	}); p != nil {
		return p.stream, nil
	}
	if unix {
		return ListenUnix(path)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", address)
	return ln, s.explain(address, err)
}

// ListenUDP is Listen for UDP.
func (s *Sockets) ListenUDP(address string) (net.PacketConn, error) {
	if p := s.take(func(p *passed) bool { return p.udp != nil && bound(p.at, address) }); p != nil {
		return p.udp, nil
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(context.Background(), "udp", address)
	return conn, s.explain(address, err)
}

// Keep has Listen return a listener for its address again.
func (s *Sockets) Keep(address string, ln net.Listener) {
	s.kept = append(s.kept, kept{address, ln})
}

// kept is a listener that was opened in this process for an address.
type kept struct {
	address string
	net.Listener
}

// take removes the passed socket that meets a condition.
func (s *Sockets) take(meets func(*passed) bool) *passed {
	if s == nil {
		return nil
	}
	for i, p := range s.passed {
		if meets(p) {
			s.passed = append(s.passed[:i], s.passed[i+1:]...)
			return p
		}
	}
	return nil
}

// bound reports whether a socket at an address is that of host:port.
func bound(at netip.AddrPort, address string) bool {
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil || want.Port != int(at.Port()) {
		return false
	}
	ip, ok := netip.AddrFromSlice(want.IP)
	all := !ok || ip.IsUnspecified()
	return all && at.Addr().IsUnspecified() || !all && ip.Unmap() == at.Addr().Unmap()
}

// explain names the passed socket that has the port of an address which could not be opened.
func (s *Sockets) explain(address string, err error) error {
	if s == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	_, port, _ := net.SplitHostPort(address)
	for _, p := range s.passed {
		if fmt.Sprint(p.at.Port()) == port {
			return fmt.Errorf("the socket that was passed for this port is bound to %s; use the same address for both", p.at)
		}
	}
	return err
}

// Unused closes the passed sockets that no address of the configuration has, and returns an
// error that names them.
func (s *Sockets) Unused() error {
	if s == nil || len(s.passed) == 0 {
		return nil
	}
	var list []string
	for _, p := range s.passed {
		switch {
		case p.udp != nil:
			list = append(list, "udp "+p.at.String())
		case p.path != "":
			list = append(list, "unix:"+p.path)
		default:
			list = append(list, "tcp "+p.at.String())
		}
	}
	return errors.Join(fmt.Errorf("sockets passed by the service manager that no address of the configuration uses: %s; remove them from the socket unit, or set listeners, http.address, metrics.address, health or admin to them (swp+tcp uses none)", strings.Join(list, ", ")), s.Close())
}

// Close closes the sockets that are left.
func (s *Sockets) Close() error {
	if s == nil {
		return nil
	}
	for _, k := range s.kept {
		_ = k.Close()
	}
	s.kept = nil
	for _, p := range s.passed {
		if p.stream != nil {
			_ = p.stream.Close()
		} else {
			_ = p.udp.Close()
		}
	}
	s.passed = nil
	return nil
}
