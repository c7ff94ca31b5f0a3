package suite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// TestMain lets the test binary be the processes that a run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == RoleCommand {
		if err := Role(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEverySystemEchoes has each system answer payloads around the limits of
// gathering, to several callers at once.
func TestEverySystemEchoes(t *testing.T) {
	dir := t.TempDir()
	if err := cert.Make(dir); err != nil {
		t.Fatal(err)
	}
	addrs := make(map[string]string)
	for key, listen := range servers() {
		addr, err := listen(context.Background(), cert.Server(dir))
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		addrs[key] = addr
	}
	for _, s := range Systems() {
		t.Run(s.ID, func(t *testing.T) {
			conn, err := s.Dial(t.Context(), addrs[s.Server], cert.Client(dir))
			if err != nil {
				t.Fatal(err)
			}
			var callers errgroup.Group
			for i := range 4 {
				callers.Go(func() error { return echoAll(conn.Caller(), byte(i)) })
			}
			if err := callers.Wait(); err != nil {
				t.Error(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// echoAll exchanges payloads of many sizes, filled with octets that tell them
// from those of other callers. There are more exchanges than a peer grants
// streams, so that one that is not given back is missed.
func echoAll(c echo.Caller, fill byte) error {
	for _, size := range []int{1, 64, 4 << 10, 16 << 10, 32<<10 - 1, 32 << 10, 64<<10 - 4, 64<<10 - 3, 1 << 20} {
		payload := bytes.Repeat([]byte{fill, byte(size)}, size)[:size]
		times := 2
		if size == 4<<10 {
			times = 500
		}
		for range times {
			err := c.Echo(payload, func(answer []byte) error {
				if !bytes.Equal(answer, payload) {
					return fmt.Errorf("the answer of %d octets is not the request of %d", len(answer), len(payload))
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%d octets: %w", size, err)
			}
		}
	}
	return nil
}

// TestNobodyWithoutCertificateIsServed holds the comparison to its terms: all
// servers authenticate their clients.
func TestNobodyWithoutCertificateIsServed(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		if err := cert.Make(d); err != nil {
			t.Fatal(err)
		}
	}
	// A client that trusts the server and shows a certificate of its own
	// authority, which the server does not know.
	stranger := cert.Client(other)
	stranger.CA = cert.Client(dir).CA
	for _, s := range append(Systems(), idleSystems()...) {
		t.Run(s.ID, func(t *testing.T) {
			addr, err := servers()[s.Server](context.Background(), cert.Server(dir))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			conn, err := s.Dial(ctx, addr, stranger)
			if err != nil {
				return
			}
			defer conn.Close()
			if err := conn.Caller().Echo(make([]byte, 64), func([]byte) error { return nil }); err == nil {
				t.Error("served a client of another authority")
			}
		})
	}
}
