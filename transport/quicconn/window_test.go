package quicconn_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// However many connections there are, their windows grow within one bound, and
// without room to grow everything still arrives.
func TestQU03WindowsOfAllConnectionsGrowWithinOneBound(t *testing.T) {
	effort.Unwatched(t)
	for _, limit := range []int{1, 3 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			const size = 8 << 20
			ca := transporttest.NewCA(t)
			ln, err := quicconn.Listen("127.0.0.1:0", ca.Policy(t, transporttest.Server), quicconn.Options{Windows: limit})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			defer cancel()
			grown := uint64(0)
			for range 3 {
				server, client := transporttest.Connect(t, ln, ca.Policy(t, transporttest.Client))
				out, err := client.Open(ctx)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					_, _ = out.Write(make([]byte, size))
					_ = out.CloseWrite()
				}()
				in, err := server.Accept(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, in); n != size || err != nil {
					t.Errorf("%d octets arrived, %v; want %d", n, err, size)
				}
				grown = max(grown, ln.WindowsGrown())
				defer func() { _ = client.Close(0) }()
			}
			if grown > uint64(limit) {
				t.Errorf("windows grew by %d octets, want at most %d", grown, limit)
			}
		})
	}
}

func TestQU03WindowsOfAClosedConnectionAreGivenBack(t *testing.T) {
	effort.Unwatched(t)
	ca := transporttest.NewCA(t)
	ln, err := quicconn.Listen("127.0.0.1:0", ca.Policy(t, transporttest.Server), quicconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	server, client := transporttest.Connect(t, ln, ca.Policy(t, transporttest.Client))
	out, in := transporttest.Streams(t, client, server)
	go func() {
		_, _ = out.Write(make([]byte, 32<<20))
		_ = out.CloseWrite()
	}()
	_, _ = io.Copy(io.Discard, in)
	_ = client.Close(0)
	<-server.Context().Done()
	for ln.WindowsGrown() > 0 {
		runtime.Gosched() // its function runs after the context ended
	}
}
