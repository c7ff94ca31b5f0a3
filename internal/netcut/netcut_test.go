//go:build linux

package netcut_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/netcut"
)

func TestMain(m *testing.M) { os.Exit(netcut.Run(m.Run)) }

const patient = time.Minute

// soon is the wait for octets that must not come.
const soon = 300 * time.Millisecond

func host(t *testing.T) *netcut.Host {
	t.Helper()
	h, err := netcut.NewHost()
	if errors.Is(err, netcut.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// joined returns both ends of a connection between two hosts.
func joined(t *testing.T, from, to *netcut.Host) (near, far net.Conn, address string) {
	t.Helper()
	var l net.Listener
	err := to.Do(func() (err error) {
		l, err = net.Listen("tcp", to.Addr()+":0") //nolint:noctx // a test
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	if near, err = from.Dial(ctx, l.Addr().String()); err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far, l.Addr().String()
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func receives(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_ = c.SetReadDeadline(time.Now().Add(patient))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("%q, %v", got, err)
	}
}

func receivesNothing(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(soon))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d octets, %v", n, err)
	}
}

func TestACutLinkDropsOneDirectionUntilItIsMended(t *testing.T) {
	a, b, c := host(t), host(t), host(t)
	atA, atB, address := joined(t, a, b)
	atC, farC, _ := joined(t, c, b)
	send(t, atA, "before")
	receives(t, atB, "before")

	mend, err := netcut.Cut(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := netcut.Cut(a, b); err == nil {
		t.Error("one link was cut twice")
	}
	send(t, atA, "held up")
	send(t, atB, "other direction")
	receives(t, atA, "other direction")
	receivesNothing(t, atB)
	send(t, atC, "other host")
	receives(t, farC, "other host")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := a.Dial(ctx, address); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection over a cut link: %v, want no answer", err)
	}
	if err := mend(); err != nil {
		t.Fatal(err)
	}
	receives(t, atB, "held up")
}

func TestAProcessRunsAtItsHost(t *testing.T) {
	h := host(t)
	out := new(strings.Builder)
	cmd := exec.Command("ip", "-o", "addr") //nolint:noctx // a test
	cmd.Stdout = out
	if err := h.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), h.Addr()) {
		t.Errorf("%v, addresses of the process: %s", err, out)
	}
}

func TestHostsReachTheTest(t *testing.T) {
	h := host(t)
	l, err := net.Listen("tcp", netcut.Here()+":0") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := h.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}
