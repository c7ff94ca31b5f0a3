package quicconn_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// TestPeersOfACrashedListenerAreToldByTheNextOne: without being told they would
// wait for the idle timeout, a minute.
func TestPeersOfACrashedListenerAreToldByTheNextOne(t *testing.T) {
	transporttest.NoLeaks(t)
	ca := transporttest.NewCA(t)
	policy := ca.Policy(t, transporttest.Server)
	first, err := quicconn.Listen("127.0.0.1:0", policy, quicconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	server, client := transporttest.Connect(t, first, ca.Policy(t, transporttest.Client))
	stream, err := client.Open(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	// An answer on a stream comes after the end of the handshake. Before that the
	// client would go on with the handshake, which no reset is an answer to.
	if _, err := stream.Write([]byte("here")); err != nil {
		t.Fatal(err)
	}
	accepted, err := server.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := accepted.Write([]byte("here")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stream, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	first.Crash()
	next, err := quicconn.Listen(first.Addr().String(), policy, quicconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()

	end := time.After(transporttest.Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for client.Context().Err() == nil {
		_, _ = stream.Write([]byte("are you there?")) // a packet that nobody knows
		select {
		case <-client.Context().Done():
		case <-tick.C:
		case <-end:
			t.Fatal("the peer was not told")
		}
	}
	if cause := context.Cause(client.Context()); !errors.As(cause, new(*quic.StatelessResetError)) {
		t.Errorf("the connection ended with %v", cause)
	}
}
