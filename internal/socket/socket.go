// Package socket looks at the socket of a TCP connection without reading from it.
package socket

// State is what is known of the octets that a peer sends.
type State struct {
	// Unread is how many have arrived and were not read.
	Unread int

	// Ended reports that the peer sends nothing behind them.
	Ended bool

	// Lost reports that the connection has failed, as after a reset.
	Lost bool
}
