package crash

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// route is the way from one swpd to another: a TCP and a UDP port that stay where they are,
// and lead to where the other one listens now. It can be disturbed.
type route struct {
	to      func(scheme string) string // address now; empty: none
	tcp     net.Listener
	udp     net.PacketConn
	carried map[string]int // connections and flows, by scheme
	work    sync.WaitGroup

	mu     sync.Mutex
	now    fault
	over   string        // scheme by which something new may come
	calm   chan struct{} // closed when now ends
	conns  map[*carriage]struct{}
	flows  map[string]net.Conn // to the other end, by the address here
	opened []net.Conn          // all flows
	turn   bool                // which end of a connection is closed next
	ended  bool
}

// fault is what happens to a route.
type fault string

const (
	quiet   fault = ""
	cut     fault = "cut"       // what is open is reset, what is dialled is refused
	halfCut fault = "half-open" // one end of a connection is closed, and the other hears nothing more; a flow comes from another port
	stalled fault = "stalled"   // nothing gets through, not even an end; later TCP goes on
	slow    fault = "slow"      // everything comes later
)

// allFaults are those that a link has to survive.
var allFaults = []fault{cut, halfCut, stalled, slow}

// longestDelay is how much later things come on a slow route.
const longestDelay = 30 * time.Millisecond

// newRoute opens a route. It is closed with the test.
func newRoute(t *testing.T, to func(scheme string) string) *route {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &route{over: tlsScheme, to: to, tcp: tcp, udp: udp, carried: make(map[string]int), conns: make(map[*carriage]struct{}), flows: make(map[string]net.Conn)}
	r.work.Go(r.accept)
	r.work.Go(r.receive)
	t.Cleanup(r.close)
	return r
}

// addresses are those that the route is dialled at, TCP first: that it refuses shows at once.
func (r *route) addresses() string {
	return tlsScheme + "://" + r.tcp.Addr().String() + ", " + quicScheme + "://" + r.udp.LocalAddr().String()
}

func (r *route) close() {
	_, _ = r.tcp.Close(), r.udp.Close()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.disturb(cut)
	r.disturb(quiet)
	r.mu.Lock()
	for _, f := range r.opened {
		_ = f.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}

// disturb has a fault begin, in place of the one there is.
func (r *route) disturb(f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calm != nil {
		close(r.calm)
		r.calm = nil
	}
	r.now = f
	switch f {
	case stalled:
		r.calm = make(chan struct{})
	case cut:
		for c := range r.conns {
			c.reset()
		}
	case halfCut:
		for c := range r.conns {
			c.halve(r.turn)
		}
		r.turn = !r.turn
		clear(r.flows)
	}
}

// turnOver has what is dialled from now on come over the other transport alone.
func (r *route) turnOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == tlsScheme {
		r.over = quicScheme
	} else {
		r.over = tlsScheme
	}
}

// opens reports whether something new may come by a transport.
func (r *route) opens(scheme string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over == scheme && r.now != cut && !r.ended
}

// hindered reports whether nothing gets through, how long it is held up, and by how much it
// comes later.
func (r *route) hindered() (lost bool, until <-chan struct{}, late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.now {
	case cut:
		lost = true
	case slow:
		late = rand.N(longestDelay) //nolint:gosec // what the scheduler decides is not repeated either
	}
	return lost, r.calm, late
}

// target is where a scheme leads now, as host:port.
func (r *route) target(scheme string) string {
	_, host, _ := strings.Cut(r.to(scheme), "://")
	return host
}

// carriage is a TCP connection that is passed on.
type carriage struct {
	in, out *net.TCPConn
	halved  bool // guarded by the mu of the route
}

// reset ends both ends at once.
func (c *carriage) reset() {
	for _, end := range []*net.TCPConn{c.in, c.out} {
		_ = end.SetLinger(0)
		_ = end.Close()
	}
}

// halve ends one end; the other one stays open, and nobody reads it.
func (c *carriage) halve(in bool) {
	end := c.out
	if in {
		end = c.in
	}
	c.halved = true
	_ = end.SetLinger(0)
	_ = end.Close()
}

func (r *route) accept() {
	for {
		in, err := r.tcp.Accept()
		if err != nil {
			return
		}
		if !r.opens(tlsScheme) {
			_ = in.(*net.TCPConn).SetLinger(0)
			_ = in.Close()
			continue
		}
		out, err := net.Dial("tcp", r.target(tlsScheme))
		if err != nil {
			_ = in.Close()
			continue
		}
		c := &carriage{in: in.(*net.TCPConn), out: out.(*net.TCPConn)}
		r.mu.Lock()
		r.carried[tlsScheme]++
		r.conns[c] = struct{}{}
		if r.ended {
			c.reset()
		}
		r.mu.Unlock()
		r.work.Go(func() { r.copy(c, c.out, c.in) })
		r.work.Go(func() { r.copy(c, c.in, c.out) })
	}
}

// copy passes on one direction of a connection.
func (r *route) copy(c *carriage, to, from *net.TCPConn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		_, until, late := r.hindered()
		time.Sleep(late) // the fault is that it comes late
		if until != nil {
			<-until
		}
		if n > 0 && err == nil {
			_, err = to.Write(buf[:n])
		}
		if err == nil {
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case c.halved && !r.ended:
			return // the other end is to hear nothing
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite()
		default:
			c.reset()
			delete(r.conns, c)
		}
		return
	}
}

// receive passes on what comes over UDP.
func (r *route) receive() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := r.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		f := r.flow(from)
		r.pass(buf[:n], func(packet []byte) {
			if f != nil {
				_, _ = f.Write(packet) // QUIC sends again what is lost
			}
		})
	}
}

// pass passes a packet on, unless it is lost; some come out of order.
func (r *route) pass(packet []byte, on func([]byte)) {
	lost, until, late := r.hindered()
	switch {
	case lost || until != nil:
	case late > 0:
		packet = slices.Clone(packet)
		time.AfterFunc(late, func() { on(packet) })
	default:
		on(packet)
	}
}

// flow returns the way to the other end of what comes from an address; nil if there is none.
func (r *route) flow(from net.Addr) net.Conn {
	target := r.target(quicScheme)
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flows[from.String()]
	if f != nil || target == "" || r.ended || r.over != quicScheme {
		return f
	}
	f, err := net.Dial("udp", target)
	if err != nil {
		return nil
	}
	r.flows[from.String()] = f
	r.opened = append(r.opened, f)
	r.carried[quicScheme]++
	r.work.Go(func() { r.back(f, from) })
	return f
}

// back passes on what comes back in a flow, as long as it is that of its address.
func (r *route) back(f net.Conn, from net.Addr) {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		r.mu.Lock()
		current := r.flows[from.String()] == f
		r.mu.Unlock()
		if err == nil && current { // else nobody listens there now
			r.pass(buf[:n], func(packet []byte) { _, _ = r.udp.WriteTo(packet, from) })
		}
	}
}
