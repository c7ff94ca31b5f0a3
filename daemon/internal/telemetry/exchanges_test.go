package telemetry

import (
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestARefusalNamesItsCodeAndAnHTTPCallerItsTransport(t *testing.T) {
	refused := endpoint.Report{Outcome: profiles.OutcomeRefused, Verdict: endpoint.Verdict{Code: profiles.InvalidEnvelope}}
	if got, want := OutcomeOf(&refused), "refused:"+profiles.InvalidEnvelope.String(); got != want {
		t.Errorf("outcome %q, want %q", got, want)
	}
	if got := OutcomeOf(&endpoint.Report{Outcome: profiles.OutcomeOK}); got != "ok" {
		t.Errorf("outcome %q, want ok", got)
	}
	for identity, want := range map[string]string{"http:anonymous": "http", "spiffe://a.example/swpd": "tls"} {
		if got := TransportOf(&profiles.Peer{Identity: identity, Transport: "tls"}); got != want {
			t.Errorf("transport of %s %q, want %s", identity, got, want)
		}
	}
}
