package transport

// Releaser is implemented by streams of transports that limit how many streams a peer may
// have open (QUIC, MuxPipe).
//
// Such a stream counts against the peer's limit until it has ended in both directions and
// the accepting side has called Release, in either order. Call Release when the work for
// the stream is done, not when the stream ends: otherwise a peer could open and reset
// streams to cause more concurrent work than the limit allows. Release does nothing on
// streams opened here, and a second call does nothing.
type Releaser interface {
	Release()
}

// Concluder is implemented by connections whose streams can end with a code behind the
// octets written before (QUIC, MuxPipe).
type Concluder interface {
	// Conclude ends a stream of the connection like Stream.Reset, but the peer first receives
	// what was written, as long as it reads. Conclude returns false and does nothing if the
	// peer does not support this (RESET_STREAM_AT, an extension of QUIC), or if the stream
	// is of another connection.
	Conclude(s Stream, code uint64) bool
}
