//go:build unix

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that free chooses from: below those that systems give to connections.
const firstPort, ports = 12000, 20000

// free opens a port of TCP and UDP that nothing uses.
func free() (*net.TCPListener, *net.UDPConn, error) {
	var failed error
	for range 100 {
		port := firstPort + rand.IntN(ports) //nolint:gosec // no secret
		tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			failed = err
			continue
		}
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			return tcp, udp, nil
		}
		_ = tcp.Close()
		failed = err
	}
	return nil, nil, fmt.Errorf("no free port: %w", failed)
}

// FreeAddress returns a host and port of this machine that no process used a moment ago.
func FreeAddress() (string, error) {
	tcp, udp, err := free()
	if err != nil {
		return "", err
	}
	return tcp.Addr().String(), errors.Join(tcp.Close(), udp.Close())
}
