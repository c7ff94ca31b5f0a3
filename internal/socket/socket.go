// Package socket looks at the socket of a TCP connection without reading from it.
package socket

import "time"

// State is what is known of the octets that a peer sends, and of its host.
type State struct {
	// Unread is how many have arrived and were not read.
	Unread int

	// Ended reports that the peer sends nothing behind them.
	Ended bool

	// Lost reports that the connection has failed, as after a reset.
	Lost bool

	// Unacknowledged is for how long the host of the peer has acknowledged nothing, if it has left
	// several repetitions unanswered: of octets, or of the question whether it reads again. A host
	// that lives answers them also while nobody reads there.
	Unacknowledged time.Duration
}
