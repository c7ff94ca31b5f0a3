// Package suite is the comparison: the systems, the loads, the number of rounds, and the
// promises that are checked.
//
// Each server and each client is a process of its own. All run during the whole comparison
// and are idle except for the pair being measured. In a round every system has its turn, in
// an order that rotates from round to round. Only figures of the same round are compared:
// over minutes, the figures of a shared machine drift by more than the differences of
// interest.
package suite

import (
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/grpcecho"
	"github.com/slimwire/swp/test/bench/grpcmove"
	"github.com/slimwire/swp/test/bench/mcpecho"
	"github.com/slimwire/swp/test/bench/natsecho"
	"github.com/slimwire/swp/test/bench/rawquic"
	"github.com/slimwire/swp/test/bench/rawtls"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// System is one way to make an exchange.
type System struct {
	ID     string // as flags spell it
	Name   string // as the table prints it
	Server string // key of servers; empty for work that needs none
	Dial   echo.Dial

	// Subject is the ID of the system of ours that is compared with this one;
	// empty for ours.
	Subject string
}

// Keys of servers under test. As in the systems beside it, another process moves artifacts, because its
// memory is measured.
const (
	swpdKey     = "swpd"
	swpdMoveKey = "swpd-move"
)

// Systems returns all systems in the order of the table.
func Systems() []System {
	return []System{
		{"swpd-tls", "swpd TLS", swpdKey, swpecho.DialTLS, ""},
		{"raw-tls", "raw TLS, gathered", "raw-tls", rawtls.Dial, "swpd-tls"},
		{"grpc-stream", "gRPC stream", "grpc", grpcecho.DialStream, "swpd-tls"},
		{"grpc-unary", "gRPC unary", "grpc", grpcecho.DialUnary, "swpd-tls"},
		{"nats", "NATS request-reply", "nats", natsecho.Dial, "swpd-tls"},
		{"swpd-quic", "swpd QUIC, one stream", swpdKey, swpecho.DialQUIC, ""},
		{"raw-quic", "quic-go, one stream", "raw-quic", rawquic.Dial, "swpd-quic"},
		{"swpd-quic-each", "swpd QUIC, a stream each", swpdKey, swpecho.DialQUICEach, ""},
		{"raw-quic-each", "quic-go, a stream each", "raw-quic-each", rawquic.DialEach, "swpd-quic-each"},
	}
}

// idleSystems are those whose idle connections are weighed.
func idleSystems() []System {
	return []System{
		{"swpd-tls", "swpd TLS", swpdKey, swpecho.DialTLS, ""},
		{"bare-tls", "bare mutual TLS", "bare-tls", rawtls.DialBare, ""},
	}
}

// servers are the servers that a process of this program can be.
func servers() map[string]echo.Listen {
	return map[string]echo.Listen{
		"raw-tls":       rawtls.Listen,
		"bare-tls":      rawtls.ListenBare,
		"raw-quic":      rawquic.ListenLong,
		"raw-quic-each": rawquic.ListenEach,
		"grpc":          grpcecho.Listen,
		"nats":          natsecho.Listen,
		natsDurableKey:  natsecho.ListenDurable,
		rawSyncedKey:    rawtls.ListenSynced,
		rawMoveKey:      rawtls.ListenMove,
		grpcMoveKey:     grpcmove.Listen,
		mcpKey:          mcpecho.Listen,
		swpdKey:         swpecho.Listen,
		swpdMoveKey:     swpecho.Listen,
	}
}

func find(list []System, id string) (System, bool) {
	for _, s := range list {
		if s.ID == id {
			return s, true
		}
	}
	return System{}, false
}
