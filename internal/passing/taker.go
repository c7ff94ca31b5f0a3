package passing

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/pipes"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// TakerOptions configure a Taker. All fields are required but Work.
type TakerOptions struct {
	Address string           // host:port to listen on, with TCP and UDP
	Own     *tls.Certificate // from NewKey

	// Policy verifies the peers, as it verifies those that this process accepts itself.
	Policy *transport.Policy

	// OnSecurity is told of handshakes that failed, and of passed peers that are refused. It must not block.
	OnSecurity func(transport.SecurityEvent)

	// Work serves the connections of Passer.Work; nil refuses them.
	Work Work
}

// Taker takes connections over from the Passers of other processes. Until Take it refuses them.
type Taker struct {
	o       TakerOptions
	inner   []transport.Listener
	taking  atomic.Bool
	queues  map[bool]*transport.Queue // connections of peers, by whether they get error frames
	raw     *pipes.Listener
	at      net.Addr
	tasks   sync.WaitGroup
	stop    context.CancelFunc
	working context.Context

	mu        sync.Mutex
	processes map[string]*process // by the fingerprint of their certificate
	trusted   *transport.Credentials
	shown     []*tls.Certificate // of the endpoint, in their order of time
}

// maxShown is how many certificates of the endpoint are remembered.
const maxShown = 4

// certificate returns the certificate of the endpoint with a leaf that a peer was shown. Processes read a new
// one at different times: without that certificate it returns the present one.
func (t *Taker) certificate(leaf []byte) *tls.Certificate {
	now := t.o.Policy.Credentials().Certificate
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.shown); n == 0 || t.shown[n-1] != now {
		t.shown = append(t.shown, now)
		t.shown = t.shown[max(0, len(t.shown)-maxShown):]
	}
	for _, one := range t.shown {
		if slices.Equal(one.Certificate[0], leaf) {
			return one
		}
	}
	return now
}

// process is a process that passes connections.
type process struct {
	departing context.Context // ends when it is about to end
	depart    context.CancelFunc
	passed    int // connections of it
}

// Trust replaces the certificates of the processes allowed to connect. A Taker begins with none.
func (t *Taker) Trust(certificates [][]byte) {
	trusted := trusting(t.o.Own, certificates...)
	known := make(map[string]bool)
	for _, der := range certificates {
		known[fingerprint(der)] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trusted = trusted
	maps.DeleteFunc(t.processes, func(name string, p *process) bool { return !known[name] && p.passed == 0 })
}

func (t *Taker) credentials() *transport.Credentials {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trusted
}

// Departing returns a context that ends when the process with a certificate is about to end.
func (t *Taker) Departing(certificate []byte) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.process(fingerprint(certificate)).departing
}

func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// process returns a process by the fingerprint of its certificate. The caller holds mu.
func (t *Taker) process(name string) *process {
	p := t.processes[name]
	if p == nil {
		p = new(process)
		p.departing, p.depart = context.WithCancel(context.Background())
		t.processes[name] = p
	}
	return p
}

// departs notes that the process at the other end of a connection is about to end.
func (t *Taker) departs(conn transport.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.process(conn.Peer().Fingerprint).depart()
}

// joins counts a connection that a process passes, until it ends, and returns when the process is about to end.
func (t *Taker) joins(conn transport.Conn) (departing context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.process(conn.Peer().Fingerprint)
	p.passed++
	context.AfterFunc(conn.Context(), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		p.passed--
	})
	return p.departing
}

// Listen opens the sockets of a Taker.
func Listen(o TakerOptions) (*Taker, error) {
	t := &Taker{o: o, processes: make(map[string]*process), trusted: trusting(o.Own), queues: map[bool]*transport.Queue{false: transport.NewQueue(), true: transport.NewQueue()}}
	t.raw = pipes.Listen()
	t.working, t.stop = context.WithCancel(context.Background())
	ln, udp, err := listen(t.working, o.Address)
	if err != nil {
		return nil, err
	}
	t.at = ln.Addr()
	policy := &transport.Policy{Credentials: t.credentials}
	every := func(netip.Addr) bool { return true } // a process passes many
	t.inner = append(t.inner, tlsconn.On(ln, policy, tlsconn.Options{OnSecurity: o.OnSecurity, Shared: every}))
	quic, err := quicconn.On(udp, policy, quicconn.Options{OnSecurity: o.OnSecurity, Shared: every})
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	t.inner = append(t.inner, quic)
	for _, l := range t.inner {
		t.tasks.Go(func() { t.accept(l) })
	}
	return t, nil
}

// tries bounds how often listen takes another port.
const tries = 16

// listen listens on one port of TCP and UDP. The port that the system chooses for TCP in place of 0 can be in use for
// UDP; then it takes another one.
func listen(ctx context.Context, address string) (ln net.Listener, udp net.PacketConn, err error) {
	var lc net.ListenConfig
	for range tries {
		if ln, err = lc.Listen(ctx, "tcp", address); err != nil {
			return nil, nil, err
		}
		if udp, err = lc.ListenPacket(ctx, "udp", ln.Addr().String()); err == nil {
			return ln, udp, nil
		}
		_ = ln.Close()
		if _, port, _ := net.SplitHostPort(address); port != "0" {
			break
		}
	}
	return nil, nil, err
}

// Addr is the address listened on.
func (t *Taker) Addr() net.Addr { return t.at }

// Take says whether connections are taken from now on. Those that were taken stay.
func (t *Taker) Take(taking bool) { t.taking.Store(taking) }

// Peers returns a listener for the connections of peers with or without error frames. To close it does
// nothing.
func (t *Taker) Peers(errorFrames bool) transport.Listener {
	return peers{t.queues[errorFrames], t}
}

type peers struct {
	*transport.Queue
	t *Taker
}

func (p peers) Addr() net.Addr { return p.t.Addr() }
func (p peers) Close() error   { return nil }

// Raw returns a listener for connections of TCP, whose RemoteAddr is the address of the peer. After its
// Close the Taker refuses such connections.
func (t *Taker) Raw() net.Listener { return t.raw }

// Keep has a connection that this process accepted itself be served as one that was passed. It does not
// wait.
func (t *Taker) Keep(conn transport.Conn, errorFrames bool) {
	t.tasks.Go(func() { t.queues[errorFrames].Put(conn, handed) })
}

// KeepRaw is Keep for a connection of TCP.
func (t *Taker) KeepRaw(conn net.Conn) { t.tasks.Go(func() { t.raw.Give(conn, handed) }) }

// Close ends the listeners. Connections that were accepted stay.
func (t *Taker) Close() error {
	t.stop()
	var failed []error
	for _, l := range t.inner {
		failed = append(failed, l.Close())
	}
	for _, q := range t.queues {
		q.Close()
	}
	_ = t.raw.Close()
	t.tasks.Wait()
	return errors.Join(failed...)
}

func (t *Taker) accept(l transport.Listener) {
	for {
		conn, err := l.Accept(t.working)
		if err != nil {
			return
		}
		t.tasks.Go(func() {
			if err := t.take(conn); err != nil {
				_ = conn.Close(0)
			}
		})
	}
}

// handed is how long a connection waits to be accepted. A process that has begun to take connections may
// still be starting.
const handed = 30 * time.Second

// errAsked ends a connection that has nothing behind its answer.
var errAsked = errors.New("passing: answered")

// take reads the first frame of a connection and hands it on.
func (t *Taker) take(conn transport.Conn) error {
	ctx, cancel := context.WithTimeout(t.working, attempt)
	defer cancel()
	s, err := conn.Accept(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if conn.Multiplexed() {
			release(s)
		}
	}()
	var h hello
	late := time.Now().Add(attempt)
	if err := within(s, late, func() error { return receive(s, &h) }); err != nil {
		return err
	}
	if h.Kind == kindWork {
		return t.work(ctx, conn, s, &h)
	}
	taken, result := t.judge(conn, s, &h)
	err = within(s, late, func() error {
		if err := send(s, result); err != nil || !conn.Multiplexed() {
			return err
		}
		// A close of the connection could overtake the answer: wait until the other side has it.
		_, err := io.ReadFull(s, make([]byte, 1))
		if err == io.EOF {
			err = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if !result.OK {
		return refused(ctx, conn, s, result)
	}
	switch {
	case h.Kind == kindAsk, h.Kind == kindGo:
		return errAsked
	case h.Kind == kindHold:
		hold(t.working, conn, s)
		return errAsked
	case taken == nil:
		t.raw.Give(newRaw(conn, s, h.Addr), handed)
		return nil
	case conn.Multiplexed():
		_ = s.CloseWrite()
	}
	t.queues[h.ErrorFrames].Put(taken, handed)
	return nil
}

// refused waits until the other side has read its refusal, and closed.
func refused(ctx context.Context, conn transport.Conn, s transport.Stream, result answer) error {
	_ = s.CloseWrite()
	select {
	case <-conn.Context().Done():
	case <-ctx.Done():
	}
	return fmt.Errorf("passing: refused: %s", result.Why)
}

// judge decides whether a connection is taken. A connection of TCP has no transport.Conn.
func (t *Taker) judge(conn transport.Conn, s transport.Stream, h *hello) (transport.Conn, answer) {
	switch {
	case h.Kind == kindHold && !conn.Multiplexed():
		return nil, answer{OK: true}
	case !t.taking.Load() && h.Kind != kindGo:
		return nil, answer{Why: "passing: this process takes no connections now"}
	case h.Kind == kindAsk:
		return nil, answer{OK: true}
	case h.Kind == kindGo:
		t.departs(conn)
		return nil, answer{OK: true}
	case h.Kind == kindRaw && !conn.Multiplexed():
		if t.raw.Closed() {
			return nil, answer{Why: "passing: no HTTP here", Final: true}
		}
		return nil, answer{OK: true}
	case h.Kind != kindPeer:
		return nil, answer{Why: fmt.Sprintf("passing: unknown kind %.20q", h.Kind), Final: true}
	case conn.Multiplexed() != (h.Transport == "quic"):
		return nil, answer{Why: "passing: over another transport than that of the peer", Final: true}
	}
	peer, state, err := h.peerOf(t.o.Policy)
	if err != nil {
		t.o.OnSecurity(transport.NewSecurityEvent(conn.Peer().Transport, h.Addr, err))
		return nil, answer{Why: err.Error(), Final: true}
	}
	p := passed{
		Conn: conn, peer: peer, state: state, policy: t.o.Policy, departing: t.joins(conn),
		own: func() *tls.Certificate { return t.certificate(h.Own) },
	}
	p.own() // it is remembered from now on
	if !conn.Multiplexed() {
		return &single{passed: p, stream: s}, answer{OK: true}
	}
	m, ok := conn.(interface {
		transport.Bounded
		transport.Concluder
	})
	if !ok {
		return nil, answer{Why: "passing: not a QUIC connection", Final: true}
	}
	return &multiplexed{passed: p, Bounded: m, Concluder: m}, answer{OK: true}
}
