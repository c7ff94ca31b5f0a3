package transporttest_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestPairCarriesOctetsBothWays(t *testing.T) {
	for _, kind := range transporttest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			server, client := transporttest.Pair(t, kind)
			want := [2]string{transporttest.Server, transporttest.Client}
			if kind == "tcp" {
				want = [2]string{transport.LoopbackIdentity, transport.LoopbackIdentity}
			}
			if got := [2]string{client.Peer().Identity, server.Peer().Identity}; got != want {
				t.Errorf("identities %q, want %q", got, want)
			}
			out, in := transporttest.Streams(t, client, server)
			data := bytes.Repeat([]byte("slimwire"), 100_000)
			go func() {
				_, _ = out.Write(data)
				_ = out.CloseWrite()
			}()
			got, err := io.ReadAll(in)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("server read %d octets, %v", len(got), err)
			}
			go func() {
				_, _ = in.Write(data)
				_ = in.CloseWrite()
			}()
			got, err = io.ReadAll(out)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("client read %d octets, %v", len(got), err)
			}
		})
	}
}

func TestRawSpeaksFrames(t *testing.T) {
	for _, kind := range transporttest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			server, client := transporttest.Pair(t, kind)
			out, in := transporttest.Streams(t, client, server)
			a := transporttest.RawOn(t, client, out)
			b := transporttest.RawOn(t, server, in)
			a.WriteFrame([]byte("hello"))
			if got := b.ReadFrame(); string(got) != "hello" {
				t.Errorf("read %q", got)
			}
			a.CloseWrite()
			if err := b.ExpectEnd(); err != io.EOF {
				t.Errorf("end: %v", err)
			}
		})
	}
}
