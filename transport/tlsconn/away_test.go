package tlsconn_test

import (
	"net"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// A peer that is away, silent or cuts the connection during the handshake has shown nothing wrong: the link has failed.
func TestAPeerThatIsAwayIsNoSecurityEvent(t *testing.T) {
	transporttest.NoLeaks(t)
	for name, does := range map[string]func(net.Conn){
		"silent": func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<16)); _, _ = c.Read(make([]byte, 1)) },
		"cut":    func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) },
		"no TLS": nil,
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := ln.Accept()
				if err != nil {
					return
				}
				if does == nil {
					_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
					_, _ = c.Read(make([]byte, 1<<16))
				} else {
					does(c)
				}
				_ = c.Close()
			}()
			events := 0
			_, err = tlsconn.Dial(t.Context(), ln.Addr().String(), transporttest.NewCA(t).Policy(t, transporttest.Client), tlsconn.Options{
				HandshakeTimeout: 100 * time.Millisecond, OnSecurity: func(transport.SecurityEvent) { events++ },
			})
			_ = ln.Close()
			<-done
			if want := map[bool]int{true: 1}[does == nil]; err == nil || events != want {
				t.Errorf("%v, and %d security events, want %d", err, events, want)
			}
		})
	}
}
