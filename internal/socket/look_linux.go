package socket

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Look returns the State of a connection. ok is false if it is not known, as for a connection that
// is closed here or has no socket.
func Look(conn net.Conn) (s State, ok bool) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return State{}, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return State{}, false
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if s.Unread, failed = unix.IoctlGetInt(int(fd), unix.SIOCINQ); failed != nil {
			return
		}
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		for {
			if _, failed = unix.Poll(look, 0); !errors.Is(failed, unix.EINTR) {
				break
			}
		}
		if failed != nil {
			return
		}
		s.Ended = look[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
		s.Lost = look[0].Revents&unix.POLLERR != 0
		// One may just be on its way.
		if tcp, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && (tcp.Retransmits > 1 || tcp.Probes > 1) {
			s.Unacknowledged = time.Duration(tcp.Last_ack_recv) * time.Millisecond
		}
	})
	return s, err == nil && failed == nil
}
