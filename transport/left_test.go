package transport_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/slimwire/swp/transport"
)

func TestOnlyThePeerCanGiveItsHandshakeUp(t *testing.T) {
	for _, err := range []error{&transport.CloseError{Code: 4097, Remote: true}, fmt.Errorf("read: %w", syscall.ECONNRESET)} {
		if !transport.PeerLeft(err) {
			t.Errorf("%v: the peer has left", err)
		}
	}
	for _, err := range []error{&transport.CloseError{Code: 4097}, &transport.CloseError{Remote: true, Stream: true}, errors.New("tls: bad record"), &transport.RefusedError{}} {
		if transport.PeerLeft(err) {
			t.Errorf("%v: the peer has not left", err)
		}
	}
}
