package transport_test

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/transport"
)

func TestParseAddr(t *testing.T) {
	for _, c := range []struct {
		in   string
		want transport.Addr
	}{
		{"swp+tls://example.org:7777", transport.Addr{Transport: "tls", Host: "example.org", Port: 7777}},
		{"swp+tls://example.org", transport.Addr{Transport: "tls", Host: "example.org", Port: transport.DefaultPort}},
		{"swp+quic://[2001:db8::1]:65535/", transport.Addr{Transport: "quic", Host: "2001:db8::1", Port: 65535}},
		{"swp+tls://:0", transport.Addr{Transport: "tls"}},
		{"swp+tcp://127.0.0.1:1", transport.Addr{Transport: "tcp", Host: "127.0.0.1", Port: 1}},
		{"swp+tcp://[::1]:1", transport.Addr{Transport: "tcp", Host: "::1", Port: 1}},
		{"swp+tcp://localhost:1", transport.Addr{Transport: "tcp", Host: "localhost", Port: 1}},
	} {
		got, err := transport.ParseAddr(c.in)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.in, got, err, c.want)
		}
		if again, err := transport.ParseAddr(got.String()); err != nil || again != got {
			t.Errorf("%s: read back from %s as %+v, %v", c.in, got, again, err)
		}
	}
}

func TestParseAddrRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, in := range []string{
		"", "example.org:7777", "127.0.0.1:7777", "swp://h:1", "https://h:1", "swp+tls:h:1", "swp+tls://",
		"swp+tls://h:", "swp+tls://h:65536", "swp+tls://h:-1", "swp+tls://h:http",
		"swp+tls://u@h:1", "swp+tls://h:1/path", "swp+tls://h:1?q", "swp+tls://h:1?", "swp+tls://h:1#f", "swp+tls://h\n:1",
	} {
		if got, err := transport.ParseAddr(in); err == nil {
			t.Errorf("%q was read as %+v", in, got)
		}
	}
}

func TestParseAddrRefusesPlaintextBeyondLoopback(t *testing.T) {
	for _, in := range []string{
		"swp+tcp://0.0.0.0:1", "swp+tcp://:1", "swp+tcp://[::]:1", "swp+tcp://192.0.2.1:1", "swp+tcp://example.org:1",
		"swp+tcp://localhost.example.org:1", "swp+tcp://128.0.0.1:1", "swp+tcp://2130706433:1",
	} {
		if _, err := transport.ParseAddr(in); !errors.Is(err, transport.ErrNotLoopback) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
