//go:build unix

package cluster

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// standIn is a node that answers each line with its name, over TCP and UDP.
type standIn struct {
	Backend
	ready atomic.Bool
	close func()
}

func newStandIn(t *testing.T, name string) *standIn {
	t.Helper()
	tcp, udp, err := free()
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{Backend: Backend{Address: tcp.Addr().String()}}
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	s.Health = strings.TrimPrefix(health.URL, "http://")
	s.close = func() {
		health.Close()
		_, _ = tcp.Close(), udp.Close()
	}
	t.Cleanup(s.close)
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				octets, _ := io.ReadAll(c)
				_, _ = c.Write(append([]byte(name+" "), octets...))
			}()
		}
	}()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(append([]byte(name+" "), buf[:n]...), from)
		}
	}()
	return s
}

func newBalancer(t *testing.T) *Balancer {
	t.Helper()
	b, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// awaitReady waits until a balancer knows which nodes are ready.
func awaitReady(t *testing.T, b *Balancer, names string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); strings.Join(b.Ready(), " ") != names; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("ready are %q, want %q", b.Ready(), names)
		}
	}
}

// overTCP sends a line over a new connection, closes that direction and returns the answer.
func overTCP(t *testing.T, b *Balancer) string {
	t.Helper()
	c, err := net.Dial("tcp", b.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write([]byte("hello"))
	_ = c.(*net.TCPConn).CloseWrite()
	octets, _ := io.ReadAll(c)
	return string(octets)
}

// overUDP asks until there is an answer: datagrams may be lost.
func overUDP(t *testing.T, c net.Conn, want string) {
	t.Helper()
	buf := make([]byte, 100)
	var got string
	for late := time.Now().Add(time.Minute); got != want && time.Now().Before(late); {
		_, _ = c.Write([]byte("hello"))
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := c.Read(buf); err == nil {
			got = string(buf[:n])
		}
	}
	if got != want {
		t.Fatalf("the answer is %q, want %q", got, want)
	}
}

func TestConnectionsGoToReadyNodesInTurn(t *testing.T) {
	b, one, two := newBalancer(t), newStandIn(t, "one"), newStandIn(t, "two")
	if got := overTCP(t, b); got != "" {
		t.Errorf("without a node: %q", got)
	}
	b.Add("one", one.Backend)
	b.Add("two", two.Backend)
	one.ready.Store(true)
	awaitReady(t, b, "one")
	for range 3 {
		if got := overTCP(t, b); got != "one hello" {
			t.Errorf("while one is ready: %q", got)
		}
	}
	two.ready.Store(true)
	awaitReady(t, b, "one two")
	seen := make(map[string]int)
	for range 6 {
		seen[overTCP(t, b)]++
	}
	if seen["one hello"] != 3 || seen["two hello"] != 3 {
		t.Errorf("while both are ready: %v", seen)
	}
	one.ready.Store(false)
	awaitReady(t, b, "two")
	b.Remove("two")
	if got := overTCP(t, b); got != "" {
		t.Errorf("after the last ready node was removed: %q", got)
	}
	if taken := b.Taken(); len(taken) != 1 || taken["one"] != 6 {
		t.Errorf("taken: %v", taken)
	}
}

func TestANodeThatHasJustEndedIsPassedBy(t *testing.T) {
	b, one, two := newBalancer(t), newStandIn(t, "one"), newStandIn(t, "two")
	one.ready.Store(true)
	two.ready.Store(true)
	b.Add("one", one.Backend)
	b.Add("two", two.Backend)
	awaitReady(t, b, "one two")
	b.mu.Lock()
	b.nodes["one"].end() // its health is not asked for again
	b.mu.Unlock()
	one.close()
	for range 4 {
		if got := overTCP(t, b); got != "two hello" {
			t.Errorf("the answer is %q", got)
		}
	}
}

func TestDatagramsOfAClientGoToOneNodeUntilItEnds(t *testing.T) {
	b, one, two := newBalancer(t), newStandIn(t, "one"), newStandIn(t, "two")
	one.ready.Store(true)
	b.Add("one", one.Backend)
	awaitReady(t, b, "one")
	c, err := net.Dial("udp", b.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	overUDP(t, c, "one hello")
	two.ready.Store(true)
	b.Add("two", two.Backend)
	one.ready.Store(false) // it drains
	awaitReady(t, b, "two")
	for range 3 {
		overUDP(t, c, "one hello")
	}
	one.close()
	overUDP(t, c, "two hello")
	other, err := net.Dial("udp", b.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	overUDP(t, other, "two hello")
}
