package quicconn_test

import (
	"net"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// A peer that does not answer has shown nothing wrong: the link has failed.
func TestAPeerThatIsAwayIsNoSecurityEvent(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, err = quicconn.Dial(t.Context(), silent.LocalAddr().String(), transporttest.NewCA(t).Policy(t, transporttest.Client), quicconn.Options{
		HandshakeTimeout: 100 * time.Millisecond, OnSecurity: func(e transport.SecurityEvent) { t.Errorf("security event %+v", e) },
	})
	if err == nil {
		t.Error("connected to nobody")
	}
}
