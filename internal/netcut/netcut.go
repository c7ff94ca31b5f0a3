//go:build linux

package netcut

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrMissing says that there can be no hosts, and why.
var ErrMissing = errors.New("netcut: no hosts")

// outsideVariable tells a program the network of the machine, in which it does not run.
const outsideVariable = "SWP_NETCUT_OUTSIDE"

// ownNetwork is a link that names the network of this process.
const ownNetwork = "/proc/self/ns/net"

// network is what Run has found.
var network struct {
	missing error    // why there are no hosts
	home    *os.File // the namespace of this process
	hosts   atomic.Int32
}

// here is the address of this process for hosts.
const here = "192.0.2.1"

// Run runs tests in a network that has nothing but them, and returns their exit status; TestMain calls
// it. It starts the program again for that. Where this is not permitted, or the program ip is missing,
// the tests run in the network of the machine, and NewHost fails.
func Run(tests func() int) int {
	own, _ := os.Readlink(ownNetwork)
	if outside := os.Getenv(outsideVariable); outside != "" && outside != own {
		network.missing = route()
		return tests()
	}
	status, err := inside(own)
	if err != nil {
		network.missing = fmt.Errorf("%w: %w", ErrMissing, err)
		return tests()
	}
	return status
}

// inside runs this program in a new network.
func inside(outside string) (status int, err error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return 0, err
	}
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(path, os.Args[1:]...) //nolint:gosec // this program
	cmd.Env = append(os.Environ(), outsideVariable+"="+outside)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes at the end of the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("a network namespace cannot be made: %w", err)
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	_, _ = fmt.Fprintln(os.Stderr, "netcut:", err)
	return 1, nil
}

// route makes this process the router of hosts.
func route() error {
	var err error
	if network.home, err = os.Open(ownNetwork); err == nil {
		err = errors.Join(ip("link", "set", "lo", "up"), ip("addr", "add", here+"/32", "dev", "lo"),
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return nil
}

// Here returns the address of this process for hosts, or a loopback address without them.
func Here() string {
	if network.home == nil || network.missing != nil {
		return "127.0.0.1"
	}
	return here
}

// Host is a host. It is safe for concurrent use.
type Host struct {
	addr  string
	link  string
	space *os.File
}

// NewHost makes a host, of at most 65,535. An error ErrMissing says that there can be none.
func NewHost() (*Host, error) {
	if network.missing != nil {
		return nil, network.missing
	}
	if network.home == nil {
		return nil, fmt.Errorf("%w: TestMain does not call Run", ErrMissing)
	}
	n := network.hosts.Add(1)
	if n > 1<<16-1 {
		return nil, errors.New("netcut: there are 65,535 hosts")
	}
	prefix := fmt.Sprintf("10.%d.%d.", n>>8, n&255)
	router := prefix + "1"
	h := &Host{addr: prefix + "2", link: "host" + strconv.Itoa(int(n))}
	err := apart(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			h.space, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netcut: %w", err)
	}
	space := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.space.Fd())
	err = ip("link", "add", h.link, "type", "veth", "peer", "name", "eth0", "netns", space)
	if err == nil {
		err = errors.Join(ip("addr", "add", router+"/24", "dev", h.link), ip("link", "set", h.link, "up"), h.Do(func() error {
			return errors.Join(ip("link", "set", "lo", "up"), ip("addr", "add", h.addr+"/24", "dev", "eth0"), ip("link", "set", "eth0", "up"),
				ip("route", "add", "default", "via", router))
		}))
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Addr returns the address of the host, which all others reach.
func (h *Host) Addr() string { return h.addr }

// Narrow sets the MTU of the hop before the host. A packet to the host that is larger and must not be
// divided is answered by ICMP; a larger packet from the host is lost without a notice.
func (h *Host) Narrow(mtu int) error { return ip("link", "set", h.link, "mtu", strconv.Itoa(mtu)) }

// Do calls a function on a thread that is in the network of the host: a process that the function starts
// runs there, and a socket that it opens is of there. Goroutines that the function starts are elsewhere.
func (h *Host) Do(f func() error) error {
	return apart(func() error {
		if err := unix.Setns(int(h.space.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("netcut: %w", err)
		}
		return f()
	})
}

// apart calls a function on a thread that may leave the network of this process, and brings the thread
// back. The thread must not end before the processes that it has started, because some ask for a signal
// at its end.
func apart(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := f()
		if back := unix.Setns(int(network.home.Fd()), unix.CLONE_NEWNET); back != nil {
			done <- errors.Join(err, back)
			return // and the thread ends
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

// Dial connects from the host to a TCP address, host:port.
func (h *Host) Dial(ctx context.Context, address string) (c net.Conn, err error) {
	err = h.Do(func() error {
		c, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return err
	})
	return c, err
}

// Close removes the link of the host. Its network ends with its last process.
func (h *Host) Close() error {
	err := ip("link", "delete", h.link)
	return errors.Join(err, h.space.Close())
}

// Cut drops all packets from one host to another, until mend is called. Packets of the other direction
// arrive. A second cut of the same direction fails.
func Cut(from, to *Host) (mend func() error, err error) {
	rule := []string{"from", from.addr, "to", to.addr, "blackhole", "pref", "100"}
	if err := ip(append([]string{"rule", "add"}, rule...)...); err != nil {
		return nil, err
	}
	return func() error { return ip(append([]string{"rule", "delete"}, rule...)...) }, nil
}

// ip runs the program ip on this thread.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil { //nolint:gosec // a test
		return fmt.Errorf("netcut: ip %q: %w: %s", args, err, out)
	}
	return nil
}
