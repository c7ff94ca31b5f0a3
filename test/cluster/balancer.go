//go:build unix

// Package cluster runs several swpd that share a PostgreSQL database behind one address, for the
// demonstration, the upgrade test and the benchmark.
package cluster

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of a Balancer.
const (
	lookEvery = 100 * time.Millisecond // between two requests for the health of a node
	lookTime  = time.Second            // for the answer
	dialTime  = time.Second
	maxFlows  = 4096        // of UDP
	idleFlow  = time.Minute // after which a flow of UDP ends
	datagram  = 64 << 10
)

// Backend is a node behind a Balancer.
type Backend struct {
	Address string // host:port of TCP and UDP
	Health  string // host:port of /readyz
}

// Balancer passes connections of TCP and flows of UDP on to nodes that are ready. A connection, and all
// datagrams of one client address, go to one node, and new ones to the ready nodes in turn. Its methods
// are safe for concurrent use.
type Balancer struct {
	tcp    *net.TCPListener
	udp    *net.UDPConn
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	nodes map[string]*backend
	next  int // turn of the next connection
	conns map[net.Conn]struct{}
	flows map[netip.AddrPort]*flow
}

type backend struct {
	Backend
	end   context.CancelFunc
	ready bool
	taken int // connections and flows
}

// flow is the datagrams of one client.
type flow struct {
	*net.UDPConn
	last time.Time // of a datagram of the client
}

// Listen opens a Balancer on one free port of TCP and UDP of this machine. The caller closes it.
func Listen() (*Balancer, error) {
	tcp, udp, err := free()
	if err != nil {
		return nil, err
	}
	b := &Balancer{tcp: tcp, udp: udp, nodes: make(map[string]*backend), conns: make(map[net.Conn]struct{}), flows: make(map[netip.AddrPort]*flow)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.work.Go(b.accept)
	b.work.Go(b.receive)
	return b, nil
}

// Address returns the host and port of both protocols.
func (b *Balancer) Address() string { return b.tcp.Addr().String() }

// Add adds a node, which gets connections when its /readyz answers 200.
func (b *Balancer) Add(name string, node Backend) {
	ctx, end := context.WithCancel(b.ctx)
	n := &backend{Backend: node, end: end}
	b.mu.Lock()
	b.nodes[name] = n
	b.mu.Unlock()
	b.work.Go(func() { b.watch(ctx, n) })
}

// Remove removes a node. Its connections continue.
func (b *Balancer) Remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[name]; n != nil {
		n.end()
		delete(b.nodes, name)
	}
}

// Ready returns the names of the nodes that are ready, sorted.
func (b *Balancer) Ready() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, n := range b.nodes {
		if n.ready {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Taken returns how many connections and flows each present node got.
func (b *Balancer) Taken() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := make(map[string]int)
	for name, n := range b.nodes {
		taken[name] = n.taken
	}
	return taken
}

// Close ends all connections and returns when nothing runs.
func (b *Balancer) Close() {
	b.cancel()
	_, _ = b.tcp.Close(), b.udp.Close()
	b.mu.Lock()
	for c := range b.conns {
		_ = c.Close()
	}
	for _, f := range b.flows {
		_ = f.Close()
	}
	b.mu.Unlock()
	b.work.Wait()
}

// watch asks a node for its health until ctx ends.
func (b *Balancer) watch(ctx context.Context, n *backend) {
	asker := &http.Client{Timeout: lookTime, Transport: &http.Transport{}}
	defer asker.CloseIdleConnections()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		ready := healthy(ctx, asker, n.Health)
		b.mu.Lock()
		n.ready = ready
		b.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func healthy(ctx context.Context, asker *http.Client, health string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := asker.Do(request)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, datagram))
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// turn returns the ready nodes, the one whose turn it is first.
func (b *Balancer) turn() (list []*backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		if b.nodes[name].ready {
			list = append(list, b.nodes[name])
		}
	}
	if len(list) == 0 {
		return nil
	}
	first := b.next % len(list)
	b.next++
	return append(list[first:], list[:first]...)
}

// dial connects to the node whose turn it is, or to the next one that accepts.
func (b *Balancer) dial(network string) (net.Conn, error) {
	failed := errors.New("no node is ready")
	for _, n := range b.turn() {
		ctx, cancel := context.WithTimeout(b.ctx, dialTime)
		c, err := new(net.Dialer).DialContext(ctx, network, n.Address)
		cancel()
		if err == nil {
			b.mu.Lock()
			n.taken++
			b.mu.Unlock()
			return c, nil
		}
		failed = err
	}
	return nil, failed
}

// keep notes a connection that Close ends. It reports whether the Balancer is open.
func (b *Balancer) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
	return b.ctx.Err() == nil
}

func (b *Balancer) drop(c net.Conn) {
	_ = c.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

func (b *Balancer) accept() {
	for {
		client, err := b.tcp.AcceptTCP()
		if err != nil {
			return
		}
		b.work.Go(func() { b.pass(client) })
	}
}

// pass passes one connection on, each direction until its end, and both after an error.
func (b *Balancer) pass(client *net.TCPConn) {
	defer b.drop(client)
	if !b.keep(client) {
		return
	}
	dialled, err := b.dial("tcp")
	if err != nil {
		return
	}
	node := dialled.(*net.TCPConn)
	defer b.drop(node)
	if !b.keep(node) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { forward(client, node) })
	forward(node, client)
	back.Wait()
}

// forward copies one direction.
func forward(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	_ = to.CloseWrite()
}

// receive passes the datagrams of clients on.
func (b *Balancer) receive() {
	buf := make([]byte, datagram)
	for {
		n, client, err := b.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		for range 2 { // the node of a flow may have ended
			f := b.flow(client)
			if f == nil {
				break
			}
			if _, err := f.Write(buf[:n]); err == nil {
				break
			}
			b.end(client, f)
		}
	}
}

// flow returns the flow of a client, nil if there is no node for it.
func (b *Balancer) flow(client netip.AddrPort) *flow {
	now := time.Now()
	b.mu.Lock()
	f := b.flows[client]
	if f != nil {
		f.last = now
		b.mu.Unlock()
		return f
	}
	for _, other := range b.flows {
		if now.Sub(other.last) > idleFlow {
			_ = other.Close() // its reader removes it
		}
	}
	full := len(b.flows) >= maxFlows
	b.mu.Unlock()
	if full {
		return nil
	}
	dialled, err := b.dial("udp")
	if err != nil {
		return nil
	}
	f = &flow{UDPConn: dialled.(*net.UDPConn), last: now}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		_ = f.Close()
		return nil
	}
	b.flows[client] = f
	b.work.Go(func() { b.answer(client, f) })
	return f
}

// answer passes the datagrams of a node back, until the node has ended.
func (b *Balancer) answer(client netip.AddrPort, f *flow) {
	defer b.end(client, f)
	buf := make([]byte, datagram)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return // closed, or no process has the port
		}
		if _, err := b.udp.WriteToUDPAddrPort(buf[:n], client); err != nil {
			return
		}
	}
}

func (b *Balancer) end(client netip.AddrPort, f *flow) {
	_ = f.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flows[client] == f {
		delete(b.flows, client)
	}
}
