package partner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Callers use all streams of a link for calls that do not end. The link asks the partner
// nevertheless whether it is there.
func TestRS31CallersThatUseAllStreamsLeaveTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Int32
		there, err := rpc.New(rpc.Options{
			Info: func(profiles.Session) rpc.Info { return rpc.Info{Profiles: []rpc.ProfileInfo{{ID: rpc.ProfileID}}} },
			Methods: map[string]rpc.Method{"hang": {Long: true, Held: func(p *rpc.Pending, _ []byte) error {
				held.Add(1)
				context.AfterFunc(p.Context(), func() { p.Fail(nil) })
				return nil
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		calls, err := rpc.New(rpc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		far, near := only(t, endpoint.Options{}, there), only(t, endpoint.Options{}, calls)
		l, err := partner.New(partner.Options{
			Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" },
			Addresses: []transport.Addr{{Transport: "quic", Host: "b.example", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				ours, theirs := transport.NewPipe(transport.PipeOptions{Multiplexed: true, Streams: 16})
				far.Attach(theirs)
				return ours, nil
			},
			Attach: near.Attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		up := connected(t, l)
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		for _, who := range []string{"mallory", "eve"} {
			for range 20 {
				go func() { _, _ = rpc.Call(profiles.WithCaller(ctx, who), up.Session, "hang", nil) }()
			}
			synctest.Wait()
		}
		if n := held.Load(); n < 15 {
			t.Errorf("%d calls use a stream, want 15", n)
		}
		for range 12 {
			if _, err := l.Ready(t.Context()); err != nil { // as for a message
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
		}
		if l.Now() != up {
			t.Error("the link was lost")
		}
		cancel()
		synctest.Wait()
	})
}
