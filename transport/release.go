package transport

// Releaser is implemented by streams of transports that limit how many streams
// a peer may have open (QUIC, MuxPipe).
//
// Such a stream keeps counting against the peer's limit until it is over in
// both directions and the side that accepted it has called Release, in either
// order. So a peer that opens, resets and opens again never has more work
// running here than the limit allows: call Release when the work of the stream
// is over, not when the stream is. It does nothing on streams opened here, and
// a second call does nothing.
type Releaser interface {
	Release()
}
