package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/transport"
)

func openPair(t *testing.T, a, b transport.Conn) (sa, sb transport.Stream) {
	t.Helper()
	sa, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sb, err = b.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sa, sb
}

func TestPipeCarriesMoreThanItsBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.NewPipe(transport.PipeOptions{Buffer: 7})
		sa, sb := openPair(t, a, b)
		want := bytes.Repeat([]byte("0123456789"), 1000)
		go func() {
			if n, err := sa.Write(want); n != len(want) || err != nil {
				t.Errorf("Write: %d, %v", n, err)
			}
			if err := sa.CloseWrite(); err != nil {
				t.Error(err)
			}
		}()
		got, err := io.ReadAll(sb)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d octets, %v; want %d", len(got), err, len(want))
		}
	})
}

func TestPipeWriteWaitsForRoomExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.NewPipe(transport.PipeOptions{Buffer: 8})
		sa, sb := openPair(t, a, b)
		if n, err := sa.Write(make([]byte, 8)); n != 8 || err != nil {
			t.Fatalf("write of what fits: %d, %v", n, err)
		}
		_ = sa.SetWriteDeadline(time.Now().Add(time.Second))
		start := time.Now()
		if n, err := sa.Write(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write without room: %d, %v", n, err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("waited %v", d)
		}
		_ = sa.SetWriteDeadline(time.Time{})
		if n, err := sb.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := sa.Write(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("write after room was made: %d, %v", n, err)
		}
	})
}

func TestPipeReadDeadlineLeavesTheStreamUsable(t *testing.T) {
	for _, mux := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := transport.NewPipe(transport.PipeOptions{Multiplexed: mux})
			sa, sb := openPair(t, a, b)
			_ = sb.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := sb.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			_ = sb.SetReadDeadline(time.Time{})
			if _, err := sa.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			var p [1]byte
			if n, err := sb.Read(p[:]); n != 1 || err != nil || p[0] != 'x' {
				t.Errorf("Read: %d, %v, %q", n, err, p)
			}
			// A deadline that was replaced before it passed has no effect.
			_ = sb.SetReadDeadline(time.Now().Add(time.Second))
			_ = sb.SetReadDeadline(time.Now().Add(time.Hour))
			time.AfterFunc(time.Minute, func() { _, _ = sa.Write([]byte("y")) })
			if n, err := sb.Read(p[:]); n != 1 || err != nil || p[0] != 'y' {
				t.Errorf("Read: %d, %v, %q", n, err, p)
			}
			_ = a.Close(0)
		})
	}
}

func TestPipeCloseLetsThePeerReadTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.Pipe()
		sa, sb := openPair(t, a, b)
		if _, err := sa.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		_ = a.Close(7)
		_ = a.Close(8)
		if got, err := io.ReadAll(sb); string(got) != "last words" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		<-sb.Context().Done()
		if _, err := sb.Write([]byte("x")); !isCloseError(err, 0, true) {
			t.Errorf("write to a closed peer: %v", err)
		}
		if _, err := sa.Read(make([]byte, 1)); !isCloseError(err, 7, false) {
			t.Errorf("read after own close: %v", err)
		}
		if err := context.Cause(b.Context()); !isCloseError(err, 0, true) {
			t.Errorf("cause: %v", err)
		}
		if err := context.Cause(a.Context()); !isCloseError(err, 7, false) {
			t.Errorf("cause: %v", err)
		}
		if _, err := a.Open(t.Context()); !isCloseError(err, 7, false) {
			t.Errorf("open: %v", err)
		}
	})
}

func TestPipeEndsWhenBothHalvesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.Pipe()
		sa, sb := openPair(t, a, b)
		_ = sa.CloseWrite()
		if _, err := sb.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if a.Context().Err() != nil || b.Context().Err() != nil {
			t.Fatal("ended with one half open")
		}
		_ = sb.CloseWrite()
		<-b.Context().Done()
		if _, err := sa.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		<-a.Context().Done()
	})
}

func TestPipeIsItsOnlyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.Pipe()
		s1, _ := a.Open(t.Context())
		s2, _ := a.Accept(t.Context())
		if s1 != s2 || a.Multiplexed() {
			t.Error("open and accept disagree")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second accept: %v", err)
		}
		_ = b.Close(0)
		if _, err := a.Accept(t.Context()); !isCloseError(err, 0, true) {
			t.Errorf("accept after the end: %v", err)
		}
		if a.Peer().Identity == b.Peer().Identity || a.Peer().Transport != "pipe" {
			t.Errorf("peers %+v, %+v", a.Peer(), b.Peer())
		}
	})
}

// Whoever reads a stream finds it reset, and gives it up in its own way.
func TestMuxPipeResetCarriesItsCodeThoughTheReaderResetsToo(t *testing.T) {
	for range 1000 {
		a, b := transport.MuxPipe()
		sa, sb := openPair(t, a, b)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = sa.Read(make([]byte, 1))
			sa.Reset(0)
		}()
		sa.Reset(5)
		if _, err := sb.Read(make([]byte, 1)); !isCloseError(err, 5, true) {
			t.Fatalf("the peer reads %v, want code 5", err)
		}
		<-gone
		_ = a.Close(0)
	}
}

func TestMuxPipeConcludeDeliversWhatWasWrittenAndThenItsCode(t *testing.T) {
	a, b := transport.MuxPipe()
	sa, sb := openPair(t, a, b)
	if _, err := sb.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if a.(transport.Concluder).Conclude(sb, 9) {
		t.Error("concluded a stream of the other end")
	}
	if !b.(transport.Concluder).Conclude(sb, 9) {
		t.Fatal("not concluded")
	}
	<-sa.Context().Done()
	if got, err := io.ReadAll(sa); string(got) != "answer" || !isCloseError(err, 9, true) {
		t.Errorf("%q, then %v, want the answer and code 9", got, err)
	}
	if _, err := sa.Write([]byte("x")); !isCloseError(err, 9, true) {
		t.Errorf("write: %v", err)
	}
	if _, err := sb.Read(make([]byte, 1)); !isCloseError(err, 9, false) {
		t.Errorf("read after own end: %v", err)
	}
	only, _ := transport.Pipe()
	stream, _ := only.Open(t.Context())
	if only.(transport.Concluder).Conclude(stream, 9) {
		t.Error("concluded the only stream of a connection")
	}
	_ = only.Close(0)
}

func TestMuxPipeResetCarriesItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.MuxPipe()
		sa, sb := openPair(t, a, b)
		other, otherB := openPair(t, a, b)
		blocked := make(chan error)
		go func() {
			_, err := sa.Read(make([]byte, 1))
			blocked <- err
		}()
		synctest.Wait()
		sb.Reset(9)
		if err := <-blocked; !isCloseError(err, 9, true) {
			t.Errorf("read: %v", err)
		}
		<-sa.Context().Done()
		if _, err := sa.Write([]byte("x")); !isCloseError(err, 9, true) {
			t.Errorf("write: %v", err)
		}
		if _, err := sb.Write([]byte("x")); !isCloseError(err, 9, false) {
			t.Errorf("write after own reset: %v", err)
		}
		// Another stream of the connection is not affected.
		if _, err := other.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if n, err := otherB.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Error(n, err)
		}
		_ = a.Close(3)
		if _, err := otherB.Read(make([]byte, 1)); !isCloseError(err, 3, true) {
			t.Errorf("read: %v", err)
		}
		<-otherB.Context().Done()
		if _, err := b.Accept(t.Context()); !isCloseError(err, 3, true) {
			t.Errorf("accept: %v", err)
		}
	})
}

func TestMuxPipeStreamCountsUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.NewPipe(transport.PipeOptions{Multiplexed: true, Streams: 2})
		sa, sb := openPair(t, a, b)
		openPair(t, a, b)
		full := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := a.Open(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("open over the limit: %v", err)
			}
		}
		full()
		sa.Reset(1) // over, but its work may still run at b
		full()
		sb.(transport.Releaser).Release()
		sb.(transport.Releaser).Release()
		sa, sb = openPair(t, a, b)
		full()

		sb.(transport.Releaser).Release() // before the stream is over
		full()
		_ = sa.CloseWrite()
		_ = sb.CloseWrite()
		full() // b has not read the end
		if _, err := sb.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if _, err := sa.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		openPair(t, a, b)
		full()
		// The limit of one end is not the other's.
		openPair(t, b, a)
		_ = b.Close(0)
	})
}

func isCloseError(err error, code uint64, remote bool) bool {
	var c *transport.CloseError
	return errors.As(err, &c) && c.Code == code && c.Remote == remote
}

// The read loop of an endpoint resets the stream when it sees that somebody else has
// concluded it.
func TestMuxPipeResetBehindConcludeTakesNothingBack(t *testing.T) {
	a, b := transport.MuxPipe()
	sa, sb := openPair(t, a, b)
	if _, err := sb.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if !b.(transport.Concluder).Conclude(sb, 9) {
		t.Fatal("not concluded")
	}
	sb.Reset(0)
	got := make([]byte, 6)
	if _, err := io.ReadFull(sa, got); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	var closed *transport.CloseError
	if _, err := sa.Read(got); !errors.As(err, &closed) || closed.Code != 9 || !closed.Remote {
		t.Errorf("the stream ends with %v, want code 9", err)
	}
}
