package entrances

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread reports whether octets wait to be read from the socket of a connection. It does not block.
func unread(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	octets := 0
	err = raw.Control(func(fd uintptr) { octets, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return err == nil && octets > 0
}
