package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/spiffe/spiffetest"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

const ownSVID = "spiffe://a.example/swpd"

// workload is a daemon whose certificate comes from an agent.
type workload struct {
	*running
	agent *spiffetest.Agent
}

func startWorkload(t *testing.T, authority *transporttest.CA) *workload {
	t.Helper()
	agent := spiffetest.NewAgent(t)
	agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: authority})
	return &workload{start(t, fmt.Sprintf("identity: {spiffe: %q}\naccess: {rules: [{identity: '**'}]}\n", agent.Address())), agent}
}

// join connects with a certificate, and trusts any of some authorities for the daemon.
func (w *workload) join(address string, cert *tls.Certificate, trusted ...*transporttest.CA) (*session, *x509.Certificate, error) {
	w.t.Helper()
	roots := x509.NewCertPool()
	for _, ca := range trusted {
		roots.AddCert(ca.Cert)
	}
	policy := transporttest.PolicyOf(cert, roots)
	policy.Expect = ownSVID
	a, err := transport.ParseAddr(address)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var conn transport.Conn
	if a.Transport == "quic" {
		conn, err = quicconn.Dial(ctx, a.HostPort(), policy, quicconn.Options{})
	} else {
		conn, err = tlsconn.Dial(ctx, a.HostPort(), policy, tlsconn.Options{})
	}
	if err != nil {
		return nil, nil, err
	}
	set, err := all.New(all.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	s := &session{ep.Attach(conn), set.MCP, set.A2A, set.Relay}
	return s, conn.(transport.Certified).Leaves().Peer, echo(w.t, s)
}

// The agent replaces the SVID, then the authority. Connections stand through it, until the bundle
// is without the authority that their peers were verified by.
func TestAnSVIDIsRotatedWithoutALostCall(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, over int) {
		before, after := transporttest.NewCA(t), transporttest.NewCA(t)
		a := startWorkload(t, before)
		old := before.Issue(t, transporttest.Named("spiffe://a.example/old"))
		s, first, err := a.join(a.addrs[over], old, before)
		if err != nil {
			t.Fatal(err)
		}
		shown := func(cert *tls.Certificate) *x509.Certificate {
			_, leaf, err := a.join(a.addrs[over], cert, before, after)
			if err != nil {
				return nil
			}
			return leaf
		}
		a.agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: before})
		a.eventually("the next SVID", func() bool { return !shown(old).Equal(first) })
		a.agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: after, Beside: before})
		young := after.Issue(t, transporttest.Named("spiffe://a.example/young"))
		a.eventually("the next authority", func() bool { return shown(young) != nil })
		if err := echo(t, s); err != nil {
			t.Errorf("a connection from before the rotation: %v", err)
		}
		a.agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: after})
		a.eventually("the end of the connection of the old authority", func() bool { return s.Context().Err() != nil })
		if shown(old) != nil {
			t.Error("the old authority is still trusted")
		}
		if shown(young) == nil {
			t.Error("the new authority is not trusted")
		}
	})
}

func TestTheTrustDomainOfTheWorkloadAPIVouchesForItsIdentitiesOnly(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, over int) {
		ca, acme := transporttest.NewCA(t), transporttest.NewCA(t)
		a := startWorkload(t, ca)
		a.agent.Give(map[string]*transporttest.CA{"spiffe://acme.example": acme}, spiffetest.SVID{ID: ownSVID, Authority: ca})
		for name, cert := range map[string]*tls.Certificate{
			"own authority, other domain":       ca.Issue(t, transporttest.Named("spiffe://b.example/agent")),
			"own authority, no SPIFFE ID":       ca.Issue(t, transporttest.Named("https://a.example/agent")),
			"federated domain, not a partner":   acme.Issue(t, transporttest.Named("spiffe://acme.example/swpd")),
			"federated authority, own identity": acme.Issue(t, transporttest.Named("spiffe://a.example/agent")),
		} {
			if _, _, err := a.join(a.addrs[over], cert, ca); err == nil {
				t.Errorf("%s was let in", name)
			}
		}
		if _, _, err := a.join(a.addrs[over], ca.Issue(t, transporttest.Named("spiffe://a.example/agent")), ca); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAgentThatIsAwayIsSaidAndTheCertificateStays(t *testing.T) {
	t.Parallel()
	ca := transporttest.NewCA(t)
	a := startWorkload(t, ca)
	a.agent.Stop()
	a.await("the SPIFFE Workload API cannot be used, the last certificate stays")
	if status, body := a.get("/readyz"); status != 200 || !strings.Contains(body, "warning: the SPIFFE Workload API cannot be used since ") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if got := a.metric("swpd_workload_api_up"); got != "0" {
		t.Errorf("swpd_workload_api_up is %q", got)
	}
	if _, _, err := a.join(a.addrs[0], ca.Issue(t, transporttest.Named("spiffe://a.example/agent")), ca); err != nil {
		t.Errorf("without the agent: %v", err)
	}
	a.agent.Start()
	a.await("the SPIFFE Workload API can be used again")
	if _, body := a.get("/readyz"); strings.Contains(body, "Workload API") {
		t.Errorf("/readyz: %s", body)
	}
	if got := a.metric("swpd_workload_api_up"); got != "1" {
		t.Errorf("swpd_workload_api_up is %q", got)
	}
	var status Status
	if _, body := a.get("/status"); json.Unmarshal([]byte(body), &status) != nil || status.Identity != ownSVID || status.Certificates[0].File != a.agent.Address() {
		t.Errorf("/status: %s", body)
	}
}

// An SVID that ends while the agent is away makes the endpoint not ready: no peer accepts it.
func TestAnSVIDThatEndsWithoutItsAgentIsAReasonNotToBeReady(t *testing.T) {
	t.Parallel()
	ca := transporttest.NewCA(t)
	a := startWorkload(t, ca)
	a.agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: ca, Leaf: transporttest.Leaf{
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(time.Hour), // a twenty-fifth of its life is left
	}})
	a.eventually("not ready", func() bool { status, _ := a.get("/readyz"); return status == 503 })
	if _, body := a.get("/readyz"); !strings.Contains(body, "certificate "+a.agent.Address()+" ends at ") {
		t.Errorf("/readyz: %s", body)
	}
}

func TestCheckSaysWhatItCannotProveWithoutTheWorkloadAPI(t *testing.T) {
	t.Parallel()
	agent, ca := spiffetest.NewAgent(t), transporttest.NewCA(t)
	c := config.Default()
	c.Identity.SPIFFE, c.Data = agent.Address(), filepath.Join(t.TempDir(), "data")
	agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: ca})
	plan, err := check.Read(c)
	if err != nil || plan.Identity != ownSVID || plan.Trust[0] != agent.Address() {
		t.Errorf("%+v, %v", plan, err)
	}
	bundle, err := check.Bundle(c, time.Now())
	if err != nil || len(bundle.Authorities) != 1 || !bundle.Authorities[0].Equal(ca.Cert) || bundle.Identity != ownSVID {
		t.Errorf("%+v, %v", bundle, err)
	}
	agent.Stop()
	plan, err = check.Read(c)
	if err != nil || plan.Identity != "unknown" || !strings.Contains(strings.Join(plan.Warnings, "\n"), "Not checked: the certificate") {
		t.Errorf("%+v, %v", plan, err)
	}
}
