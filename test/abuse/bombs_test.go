//go:build abuse

package abuse

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/transport"
)

// rpcRequest is a frame of profile 12 with a payload of the caller's making.
func rpcRequest(payload []byte) []byte {
	env := e1.Envelope{Version: 1, ProfileID: 12, MsgType: 1, MsgID: []byte("bomb-id-"), Payload: payload}
	return frame.Append(nil, env.Append(nil))
}

// untilAnswered sends a frame and an echo on a connection of its own and returns
// how long it took until the echo's answer, or the end, came: the frame itself
// may be refused without a word.
func (v *victim) untilAnswered(octets []byte) time.Duration {
	v.t.Helper()
	conn := v.dial(1)[0]
	defer func() { _ = conn.Close(0) }()
	s, err := conn.Open(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	_ = s.SetReadDeadline(time.Now().Add(10 * time.Second))
	began := time.Now()
	_, _ = s.Write(octets)
	_, _ = s.Write(echo("after-it", nil))
	_, err = s.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		v.t.Fatal("no answer within 10 s")
	}
	return time.Since(began)
}

// TestAbuseRS06 sends 8 MiB of the smallest elements there are. What they take
// beyond the same octets as one opaque field is the price of looking at them.
func TestAbuseRS06ElementBombsCostNoMoreThanTheirOctets(t *testing.T) {
	const size = 8<<20 - 16<<10
	wrapped := func(content []byte) []byte { return e1.AppendBytes([]byte{0x0a}, content) }
	bombs := []struct {
		name    string
		payload []byte
	}{
		{"4 million empty fields", wrapped(bytes.Repeat([]byte{0x7a, 0}, size/2))},
		{"4 million unknown numbers", wrapped(bytes.Repeat([]byte{0x78, 1}, size/2))},
		{"8 million groups, one in the other", wrapped(bytes.Repeat([]byte{0x7b}, size))},
		{"4 million wrappers", bytes.Repeat([]byte{0x0a, 0}, size/2)},
		{"4 million occurrences of one field", wrapped(bytes.Repeat([]byte{0x0a, 0}, size/2))},
	}
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		plain := rpcRequest(wrapped(e1.AppendBytes([]byte{0x7a}, make([]byte, size-16))))
		v.untilAnswered(plain) // the buffers are there
		begin := v.memory()
		g := v.meanwhile(4 * time.Second)
		for _, b := range bombs {
			octets := rpcRequest(b.payload)
			bomb, one := time.Hour, time.Hour
			for range 5 {
				bomb, one = min(bomb, v.untilAnswered(octets)), min(one, v.untilAnswered(plain))
			}
			o.say("%s: %v, as one field %v", b.name, bomb.Round(100*time.Microsecond), one.Round(100*time.Microsecond))
			o.must(bomb-one <= 20*time.Millisecond, "%s took %v more than one field, want 20 ms at most", b.name, bomb-one)
		}
		grown := v.memory() - begin
		o.must(grown <= 2*8<<20+16<<20, "%d MiB more after bombs of 8 MiB, want 32 at most", grown>>20)
		o.invariants(v, g.report(), begin)
	})
}

// TestAbuseRS04 has one principal open more connections than it may.
func TestAbuseRS04OnePrincipalHasALimit(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		const limit, all = 256, 300
		v := start(t, nil, "connections_per_identity: 256")
		begin := v.memory()
		conns := v.dial(all)
		served := 0
		for _, c := range conns {
			s, err := c.Open(t.Context())
			if err != nil {
				continue
			}
			_, _ = s.Write(echo("crowd-id", nil))
			_ = s.SetReadDeadline(time.Now().Add(5 * time.Second))
			if n, _ := s.Read(make([]byte, 1)); n == 1 {
				served++
			}
		}
		o.say("%d of %d connections of one principal are served", served, all)
		o.must(served == limit, "%d connections are served, want %d", served, limit)
		closeAll(conns)
		o.must(v.memory()-begin <= resident, "I4: %d MiB more", (v.memory()-begin)>>20)
		r := v.meanwhile(time.Second).report() // the places are free again
		o.say("afterwards p99 %v", r.Latency.P99)
	})
}

// TestAbuseFR05 sends one octet of a prefix, then nothing.
func TestAbuseFR05SlowPrefixesAreCutOff(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		conns := v.dial(500)
		for _, c := range conns {
			write(t, c, echo("warm-up-", nil))
		}
		files := v.descriptors()
		begin := v.memory()
		g := v.meanwhile(9 * time.Second)
		began := time.Now()
		for _, c := range conns {
			write(t, c, []byte{0})
		}
		grown := v.memory() - begin
		o.say("500 peers with one octet of a prefix: %+d MiB", grown>>20)
		o.must(grown <= 40<<20, "%d MiB for 500 slow peers, want 40 at most", grown>>20)
		var last time.Duration
		for _, c := range conns {
			last = max(last, untilEnd(t, c).Sub(began))
		}
		o.say("the last is gone after %v", last.Round(10*time.Millisecond))
		o.must(last <= 7*time.Second, "the last is gone after %v, want 5 s and a little", last)
		closeAll(conns)
		o.must(v.settle(files-500), "I3: %d descriptors are left, %d before", v.descriptors(), files-500)
		o.invariants(v, g.report(), begin)
	})
}

// untilEnd reads until the victim has ended the connection.
func untilEnd(t *testing.T, c transport.Conn) time.Time {
	t.Helper()
	s, err := c.Open(t.Context())
	if err != nil {
		return time.Now()
	}
	_ = s.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, reader{s}); err != nil {
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal("never ended")
		}
	}
	return time.Now()
}
