package suite

import (
	"fmt"
	"time"
)

// Cell is one load that all systems are put under.
type Cell struct {
	Payload  int `json:"payload"`   // octets
	InFlight int `json:"in_flight"` // on each connection
	Conns    int `json:"conns"`
}

// String is the cell as flags spell it: 64B/64x1 is 64 octets, 64 in flight on
// each of 1 connection.
func (c Cell) String() string {
	return fmt.Sprintf("%s/%dx%d", sizeName(c.Payload), c.InFlight, c.Conns)
}

// single reports whether one exchange is in flight in all: then times are compared, else rates.
func (c Cell) single() bool { return c.InFlight == 1 && c.Conns == 1 }

func (c Cell) title() string {
	conns := "1 connection"
	if c.Conns > 1 {
		conns = fmt.Sprintf("%d connections", c.Conns)
	}
	s := fmt.Sprintf("%s · %s · %d in flight", sizeName(c.Payload), conns, c.InFlight)
	if c.Conns > 1 {
		s += " on each"
	}
	return s
}

func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// Cells returns every load of the comparison.
func Cells() []Cell {
	var cells []Cell
	for _, conns := range []int{1, 8} {
		for _, payload := range []int{64, 4 << 10, 1 << 20} {
			many := 64
			if payload == 1<<20 {
				many = 4
			}
			cells = append(cells, Cell{payload, 1, conns}, Cell{payload, many, conns})
		}
	}
	return cells
}

// Promise is what we promise about echoes and durable work: how one of our systems must
// compare with another under one load. Where one exchange is in flight in all the times are
// compared and the ratio is at most Bound; elsewhere the rates, and it is at least Bound.
type Promise struct {
	Cell    Cell
	Subject string
	Peer    string
	Bound   float64
}

// Promises returns the promises about echoes and durable work.
func Promises() []Promise {
	var (
		small  = Cell{64, 64, 1}
		single = Cell{64, 1, 1}
		wide   = Cell{4 << 10, 64, 8}
		large  = Cell{1 << 20, 4, 1}

		pair  = Cell{256, 1, 1}
		pairs = Cell{256, 1, 64}
	)
	return []Promise{
		{small, "swpd-tls", "raw-tls", 0.6},
		{small, "swpd-tls", "grpc-unary", 8},
		{small, "swpd-tls", "grpc-stream", 2.5},
		{small, "swpd-tls", "nats", 5},
		{small, "swpd-quic", "raw-quic", 0.8},
		{small, "swpd-quic-each", "raw-quic-each", 0.8},
		{wide, "swpd-tls", "raw-tls", 0.75},
		{single, "swpd-tls", "raw-tls", 1.25},
		{large, "swpd-tls", "raw-tls", 0.9},
		{large, "swpd-tls", "grpc-unary", 1.3},
		{large, "swpd-tls", "grpc-stream", 1.3},
		{pair, "swpd-publish", "nats-publish", 0.95},
		{pair, "swpd-publish", "raw-synced", 1.3},
		{pairs, "swpd-publish", "nats-publish", 6},
		{pair, "swpd-tasks", "bare-synced", 6},
	}
}

func promised(c Cell) bool {
	for _, p := range Promises() {
		if p.Cell == c {
			return true
		}
	}
	return false
}

func promiseFor(c Cell, subject, peer string) (Promise, bool) {
	for _, p := range Promises() {
		if p.Cell == c && p.Subject == subject && p.Peer == peer {
			return p, true
		}
	}
	return Promise{}, false
}

// What the other promises say.
const (
	codecBound   = 5.0                    // protobuf decode ÷ E1 decode, at least
	idleBound    = 24 << 10               // octets a connection, at most, where
	idlePromised = 10_000                 // are held
	startBound   = 250 * time.Millisecond // first request served, at most
	moveBound    = 0.95                   // rate ÷ that of raw TLS and SHA-256, at least
	moveMemory   = 64                     // MiB resident in swpd during it, at most
	connsBound   = 1.2                    // ratio to raw TLS ÷ that at one connection, at most
)
