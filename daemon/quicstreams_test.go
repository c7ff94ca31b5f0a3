package daemon

import (
	"testing"

	"github.com/slimwire/swp/profiles/rpc"
)

// Over QUIC the status and the metrics say how many streams of the link are in use, over TLS there is no bound.
func TestRS31TheStreamsOfALinkAreCounted(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, yaml := newFar(t)
		a, _ := pair(t, transport, yaml)
		s := a.mustDial(a.addrs[transport])
		const used, limit = `swpd_partner_streams{partner="b"}`, `swpd_partner_streams_limit{partner="b"}`
		stream, err := rpc.Open(t.Context(), s.Session, "b/hang", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-f.asked
		if transport == 0 {
			if streams, got := a.link("b").Streams, a.metric(used)+a.metric(limit); streams != nil || got != "" {
				t.Errorf("over TLS: %+v, metrics %q", streams, got)
			}
			stream.Close()
			return
		}
		a.counts(used, "1")
		if got := a.metric(limit); got == "" || got == "0" {
			t.Errorf("limit %q", got)
		}
		a.until("its caller", func() bool {
			streams := a.link("b").Streams
			return streams.Used == 1 && len(streams.Most) == 1 && streams.Most[0].Used == 1
		})
		stream.Close()
		a.counts(used, "0")
	})
}
