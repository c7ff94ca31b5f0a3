package addr

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Addr{
		"swp+tls://host.example:1":        {Scheme: TLS, Host: "host.example", Port: 1},
		"swp+tls://host.example":          {Scheme: TLS, Host: "host.example", Port: DefaultPort},
		"swp+quic://[::1]:0":              {Scheme: QUIC, Host: "::1", Port: 0},
		"swp+quic://[2001:db8::1]/files":  {Scheme: QUIC, Host: "2001:db8::1", Port: DefaultPort, Target: "files"},
		"swp+tcp://127.0.0.1:65535":       {Scheme: TCP, Host: "127.0.0.1", Port: 65535},
		"swp+tcp://localhost:5/a/b":       {Scheme: TCP, Host: "localhost", Port: 5, Target: "a/b"},
		"swp+tls://:7777":                 {Scheme: TLS, Port: 7777},
		"swp+tcp://[::ffff:127.0.0.1]:80": {Scheme: TCP, Host: "::ffff:127.0.0.1", Port: 80},
	} {
		got, err := Parse(in)
		if err != nil {
			t.Errorf("Parse(%q): %v", in, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q): %s", in, diff)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("Parse(%q) again: %v, %v", got, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		"", "127.0.0.1:7777", "tcp://127.0.0.1:1", "swp+tls://h:65536", "swp+tls://h:-1", "swp+tls://::1:1", "swp+tls://u@h:1",
		"swp+tcp://0.0.0.0:7777", "swp+tcp://:7777", "swp+tcp://192.0.2.1:7777", "swp+tcp://127.0.0.1.example:7777", "swp+tls://h o:1",
	} {
		if a, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, a)
		}
	}
}

func TestAtTakesThePortOfTheListener(t *testing.T) {
	a := Addr{Scheme: QUIC, Host: "localhost", Port: 0}
	got := a.At(&net.UDPAddr{IP: net.IPv6loopback, Port: 4242})
	if want := "swp+quic://[::1]:4242"; got.String() != want {
		t.Errorf("At = %s, want %s", got, want)
	}
}
