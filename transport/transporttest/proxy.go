package transporttest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a TLS client and a server on TCP and damages what the
// client sends. It carries one connection.
type Proxy struct {
	ln    net.Listener
	tasks sync.WaitGroup

	flip   atomic.Int64 // 1 + octet of the next record to damage; 0 means none
	mu     sync.Mutex
	conns  []*net.TCPConn
	server *net.TCPConn
}

// NewProxy starts a Proxy in front of target. It stops when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{ln: ln}
	p.tasks.Go(func() { p.run(target) })
	t.Cleanup(func() {
		_ = ln.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.tasks.Wait()
	})
	return p
}

// Addr is what the client dials.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// FlipNext damages one bit of the given octet of the next record from the
// client: 0 to 4 are its header, -1 is its last octet.
func (p *Proxy) FlipNext(octet int) {
	if octet < 0 {
		p.flip.Store(-1)
		return
	}
	p.flip.Store(int64(octet) + 1)
}

// Cut ends what the server receives with FIN, with no close_notify before it.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.server.CloseWrite()
}

func (p *Proxy) run(target string) {
	client, err := p.ln.Accept()
	if err != nil {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.server = server.(*net.TCPConn)
	p.conns = append(p.conns, client.(*net.TCPConn), p.server)
	p.mu.Unlock()
	p.tasks.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.(*net.TCPConn).CloseWrite()
	})
	if errors.Is(p.records(server, client), io.EOF) {
		_ = p.server.CloseWrite()
	}
}

// records copies TLS records from the client, one by one.
func (p *Proxy) records(to io.Writer, from io.Reader) error {
	buf := make([]byte, 5+1<<16)
	for {
		if _, err := io.ReadFull(from, buf[:5]); err != nil {
			return err
		}
		record := buf[:5+int(binary.BigEndian.Uint16(buf[3:]))]
		if _, err := io.ReadFull(from, record[5:]); err != nil {
			return err
		}
		switch at := p.flip.Swap(0); {
		case at < 0:
			record[len(record)-1] ^= 1
		case at > 0 && int(at) <= len(record):
			record[at-1] ^= 1
		}
		if _, err := to.Write(record); err != nil {
			return err
		}
	}
}
