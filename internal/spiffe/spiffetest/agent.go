// Package spiffetest has a Workload API for tests: a real server on a Unix socket.
package spiffetest

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slimwire/swp/transport/transporttest"
)

// SVID is an identity that an Agent gives.
type SVID struct {
	ID        string
	Hint      string
	Authority *transporttest.CA // that issues the certificate
	Beside    *transporttest.CA // another authority in the bundle; nil: none
	Leaf      transporttest.Leaf
}

// Agent serves the Workload API. It gives nothing until Give is called.
type Agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	t      testing.TB
	socket string

	mu      sync.Mutex
	answer  *workload.X509SVIDResponse // nil: PermissionDenied
	changed chan struct{}              // closed when answer changes
	server  *grpc.Server               // nil while stopped
	done    chan struct{}              // closed when server has ended
}

// NewAgent starts an Agent, which ends with the test.
func NewAgent(t testing.TB) *Agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{t: t, socket: filepath.Join(dir, "api.sock"), changed: make(chan struct{})}
	t.Cleanup(func() {
		a.Stop()
		_ = os.RemoveAll(dir)
	})
	a.Start()
	return a
}

// Address returns the address of the Workload API.
func (a *Agent) Address() string { return "unix://" + a.socket }

// Start starts a stopped Agent, which gives what it gave before.
func (a *Agent) Start() {
	a.t.Helper()
	ln, err := net.Listen("unix", a.socket)
	if err != nil {
		a.t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	server, done := grpc.NewServer(), make(chan struct{})
	workload.RegisterSpiffeWorkloadAPIServer(server, a)
	a.server, a.done = server, done
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
}

// Stop ends all calls and removes the socket.
func (a *Agent) Stop() {
	a.mu.Lock()
	server, done := a.server, a.done
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.Stop()
		<-done
	}
}

// Give makes the Agent give new certificates for identities, and the authorities of other
// trust domains, by SPIFFE ID of the domain.
func (a *Agent) Give(federated map[string]*transporttest.CA, list ...SVID) {
	a.t.Helper()
	answer := &workload.X509SVIDResponse{FederatedBundles: make(map[string][]byte)}
	for id, ca := range federated {
		answer.FederatedBundles[id] = ca.Cert.Raw
	}
	for _, one := range list {
		leaf := one.Leaf
		leaf.URIs = []string{one.ID}
		cert := one.Authority.Issue(a.t, leaf)
		bundle := one.Authority.Cert.Raw
		if one.Beside != nil {
			bundle = slices.Concat(bundle, one.Beside.Cert.Raw)
		}
		answer.Svids = append(answer.Svids, &workload.X509SVID{
			SpiffeId: one.ID, Hint: one.Hint, X509Svid: chain(cert), X509SvidKey: a.key(cert), Bundle: bundle,
		})
	}
	a.set(answer)
}

// Deny makes the Agent answer that there is no identity for the caller.
func (a *Agent) Deny() { a.set(nil) }

func (a *Agent) set(answer *workload.X509SVIDResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
	close(a.changed)
	a.changed = make(chan struct{})
}

func chain(cert *tls.Certificate) (der []byte) {
	for _, one := range cert.Certificate {
		der = append(der, one...)
	}
	return der
}

func (a *Agent) key(cert *tls.Certificate) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

// FetchX509SVID implements the Workload API.
func (a *Agent) FetchX509SVID(_ *workload.X509SVIDRequest, stream workload.SpiffeWorkloadAPI_FetchX509SVIDServer) error {
	if md, _ := metadata.FromIncomingContext(stream.Context()); len(md.Get("workload.spiffe.io")) == 0 {
		return status.Error(codes.InvalidArgument, "the security header is missing")
	}
	for {
		a.mu.Lock()
		answer, changed := a.answer, a.changed
		a.mu.Unlock()
		if answer == nil {
			return status.Error(codes.PermissionDenied, "no identity issued")
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}
