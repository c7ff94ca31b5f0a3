// Package workload gets the certificate of this process, and the trust anchors for its peers,
// from the SPIFFE Workload API of the machine.
//
// Specification: SPIFFE Workload API, X.509-SVID profile.
package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/internal/spiffe"
	"github.com/slimwire/swp/transport"
)

// Options say which SVID to get, and where.
type Options struct {
	Address string // as for spiffe.Socket
	ID      string // SPIFFE ID of the SVID; empty: any
	Hint    string // hint of the SVID; empty: any
}

// Given is what the Workload API has given. It must not be changed.
type Given struct {
	Certificate *tls.Certificate // the chosen SVID, leaf first, with its private key and its Leaf
	ID          string           // its identity

	// Authorities are the trust anchors of the own trust domain and of its federated ones, by
	// the name of the domain.
	Authorities map[string][]*x509.Certificate
}

// Fetch returns what the Workload API gives now. It repeats a failed attempt until ctx ends.
func Fetch(ctx context.Context, o Options) (*Given, error) {
	s, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Given(), nil
}

// Source keeps what the Workload API gives, and replaces it when the API gives something else.
// If that cannot be used, or if the API cannot be reached, the last one stays.
type Source struct {
	o      Options
	client *workloadapi.Client
	first  chan struct{} // closed when something was given
	end    context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	given   *Given
	answer  time.Time // the last usable one
	version uint64
	fault   error
	since   time.Time // of fault
}

// Open waits until the Workload API gives a usable SVID, or until ctx ends; the error then says
// why there was none. Call Close to release the Source.
func Open(ctx context.Context, o Options) (*Source, error) {
	address, err := spiffe.Socket(o.Address)
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(context.Background())
	s := &Source{o: o, first: make(chan struct{}), end: cancel}
	s.client, err = workloadapi.New(work, workloadapi.WithAddr(address), workloadapi.WithDialOptions(
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectFor}), grpc.WithIdleTimeout(0),
	))
	if err != nil {
		cancel()
		return nil, err
	}
	s.work.Go(func() { s.watch(work) })
	select {
	case <-s.first:
		return s, nil
	case <-ctx.Done():
		_, why := s.Fault()
		s.Close()
		if why == nil {
			why = errors.New("it does not answer")
		}
		return nil, fmt.Errorf("%s gives no SVID: %w", address, why)
	}
}

const connectFor = 5 * time.Second // for one attempt to connect

// reconnect bounds the pauses between attempts to connect to an agent that is away.
var reconnect = backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}

// watch repeats a watch that the API has ended.
func (s *Source) watch(ctx context.Context) {
	for ctx.Err() == nil {
		_ = s.client.WatchX509Context(ctx, s) // s has noted the error
		select {
		case <-ctx.Done():
		case <-time.After(reconnect.MaxDelay):
		}
	}
}

// OnX509ContextUpdate implements workloadapi.X509ContextWatcher.
func (s *Source) OnX509ContextUpdate(x *workloadapi.X509Context) {
	given, err := s.o.choose(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fail(err)
		return
	}
	s.fault, s.answer = nil, time.Now()
	switch {
	case s.given == nil:
		s.given = given
		close(s.first)
	case !s.given.equal(given):
		s.given = given
		s.version++
	}
}

// OnX509ContextWatchError implements workloadapi.X509ContextWatcher.
func (s *Source) OnX509ContextWatchError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(explained(err))
}

// fail notes a fault. Of several faults in a row, the first one sets the time.
func (s *Source) fail(err error) {
	if s.fault == nil {
		s.since = time.Now()
	}
	s.fault = err
}

// explained returns the error of a call in plain words.
func explained(err error) error {
	const longest = 256
	said := status.Convert(err).Message()
	if at := strings.LastIndex(said, "dial unix "); at >= 0 {
		said = strings.TrimSuffix(said[at:], `"`)
	}
	said = plain.Text(said[:min(len(said), longest)])
	if status.Code(err) == codes.PermissionDenied {
		return fmt.Errorf("it has no identity for this process (%s); register one for it", said)
	}
	return errors.New(said)
}

// Given returns the last usable answer of the Workload API.
func (s *Source) Given() *Given {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// Answered returns when the Workload API gave its last usable answer. It gives one when something
// changes, so an old one is no fault.
func (s *Source) Answered() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer
}

// Version counts the changes of Given since Open.
func (s *Source) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Fault returns why Given may be out of date, and since when; nil if it is up to date.
func (s *Source) Fault() (since time.Time, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.fault
}

// Close ends the watch and waits for its end. Given stays valid.
func (s *Source) Close() {
	s.end()
	s.work.Wait()
	_ = s.client.Close() // nothing is under way
}

// choose returns what the options name in an answer.
func (o *Options) choose(x *workloadapi.X509Context) (*Given, error) {
	var fit []*x509svid.SVID
	for _, one := range x.SVIDs {
		if (o.ID == "" || one.ID.String() == o.ID) && (o.Hint == "" || one.Hint == o.Hint) {
			fit = append(fit, one)
		}
	}
	switch {
	case len(fit) == 0:
		return nil, fmt.Errorf("it gives %s, none of which is the configured one", names(x.SVIDs))
	case len(fit) > 1:
		return nil, fmt.Errorf("it gives %s; configure the SPIFFE ID or the hint of the one to use", names(fit))
	}
	svid := fit[0]
	if err := transport.CheckShown(svid.Certificates, x509.ExtKeyUsageClientAuth, time.Now()); err != nil {
		return nil, fmt.Errorf("it gives an SVID for %s that cannot be used: %w", svid.ID, err)
	}
	identity, err := transport.Identity(svid.Certificates[0])
	if err != nil {
		return nil, err
	}
	g := &Given{
		ID:          identity,
		Certificate: &tls.Certificate{PrivateKey: svid.PrivateKey, Leaf: svid.Certificates[0]},
		Authorities: make(map[string][]*x509.Certificate),
	}
	for _, cert := range svid.Certificates {
		g.Certificate.Certificate = append(g.Certificate.Certificate, cert.Raw)
	}
	for _, b := range x.Bundles.Bundles() {
		g.Authorities[b.TrustDomain().Name()] = b.X509Authorities()
	}
	if own := svid.ID.TrustDomain().Name(); len(g.Authorities[own]) == 0 {
		return nil, fmt.Errorf("it gives no authority of the trust domain %s", own)
	}
	return g, nil
}

// names lists SVIDs, for an operator.
func names(list []*x509svid.SVID) string {
	const most = 8
	var all []string
	for _, one := range list[:min(len(list), most)] {
		name := one.ID.String()
		if one.Hint != "" {
			name += fmt.Sprintf(" (hint %.64q)", one.Hint)
		}
		all = append(all, name)
	}
	if len(list) > most {
		all = append(all, "…")
	}
	return plain.Count(len(list), "SVID") + ": " + strings.Join(all, ", ")
}

// equal reports whether two answers mean the same.
func (g *Given) equal(h *Given) bool {
	same := func(a, b []*x509.Certificate) bool { return slices.EqualFunc(a, b, (*x509.Certificate).Equal) }
	return slices.EqualFunc(g.Certificate.Certificate, h.Certificate.Certificate, slices.Equal) && maps.EqualFunc(g.Authorities, h.Authorities, same)
}
