// Package fetch loads schemas from the URI of a descriptor, for deployments that enable
// this. It protects against server-side request forgery: it connects to public addresses
// only, and exactly to the address that it has checked. It follows no redirects; time, size
// and number of fetches are bounded.
//
// Specification: A2A-SDL §4.3.
package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// Options limit a Fetcher. The zero value is the strictest.
type Options struct {
	HTTP     bool           // allows addresses without TLS
	Hosts    []string       // the only hosts, in lower case; none: all
	Allow    []netip.Prefix // additional addresses that are not public
	TLS      *tls.Config    // default: the roots of the system, TLS 1.2 or later
	Total    time.Duration  // time limit of a fetch; default 5 s
	MaxBytes int            // of a document; default 1 MiB
	Calls    int            // concurrent fetches; more are refused; default 8
	Resolver Resolver       // default net.DefaultResolver
}

// Resolver finds the addresses of a host. network is "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func (o Options) withDefaults() Options {
	if o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.Total == 0 {
		o.Total = 5 * time.Second
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.Calls == 0 {
		o.Calls = 8
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return o
}

// Errors of Fetch. Network errors are returned as well.
var (
	ErrURI     = errors.New("fetch: the address is not allowed")
	ErrAddress = errors.New("fetch: the host has an address that is not public")
	ErrBusy    = errors.New("fetch: too many fetches at a time")
	ErrStatus  = errors.New("fetch: the server has no document")
	ErrSize    = errors.New("fetch: the document is too large")
)

// Fetcher fetches documents. It is safe for concurrent use.
type Fetcher struct {
	o      Options
	client *http.Client
	calls  chan struct{}
}

// New returns a Fetcher. It holds no connection between two fetches.
func New(o Options) *Fetcher {
	f := &Fetcher{o: o.withDefaults()}
	f.calls = make(chan struct{}, f.o.Calls)
	f.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // never the proxy of the environment
			DialContext:            f.dial,
			TLSClientConfig:        f.o.TLS,
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
			DisableKeepAlives:      true,
			DisableCompression:     true, // so that MaxBytes counts the octets that are read
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return f
}

// Fetch returns the JSON document at an address. The caller must verify its hash. It takes
// at most Options.Total.
func (f *Fetcher) Fetch(uri string) (canonical.Value, error) {
	if err := f.check(uri); err != nil {
		return canonical.Value{}, err
	}
	select {
	case f.calls <- struct{}{}:
		defer func() { <-f.calls }()
	default:
		return canonical.Value{}, ErrBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.o.Total)
	defer cancel()
	body, err := f.get(ctx, uri)
	if err != nil {
		return canonical.Value{}, err
	}
	return canonical.ParseJSON(body)
}

// check refuses an address by its text, before it is resolved.
func (f *Fetcher) check(uri string) error {
	u, err := url.Parse(uri)
	if err != nil {
		return fmt.Errorf("%w: it cannot be read", ErrURI) // the cause would quote it
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !f.o.HTTP):
		return fmt.Errorf("%w: scheme %.20q", ErrURI, u.Scheme)
	case u.User != nil:
		return fmt.Errorf("%w: it has credentials", ErrURI)
	case host == "":
		return fmt.Errorf("%w: it names no host", ErrURI)
	case Here(host):
		return fmt.Errorf("%w: the host is here", ErrURI)
	case len(f.o.Hosts) > 0 && !slices.Contains(f.o.Hosts, host):
		return fmt.Errorf("%w: the host is not listed", ErrURI)
	}
	return nil
}

// Here reports whether a host, in lower case, is a name of this machine or of its link. A Fetcher
// never asks such a host.
func Here(host string) bool { return within(host, "localhost") || within(host, "local") }

// within reports whether host is name or a subdomain of it.
func within(host, name string) bool { return host == name || strings.HasSuffix(host, "."+name) }

func (f *Fetcher) get(ctx context.Context, uri string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be asked for", ErrURI)
	}
	request.Header.Set("Accept", "application/schema+json, application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d", ErrStatus, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(f.o.MaxBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if len(body) > f.o.MaxBytes {
		return nil, fmt.Errorf("%w: limit %d octets", ErrSize, f.o.MaxBytes)
	}
	return body, nil
}

// dial connects to an address of a host, if no address of the host is refused. It resolves
// the host itself, so that it connects to the address that it has checked.
func (f *Fetcher) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	addrs, err := f.o.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if !f.allowed(addr) {
			return nil, fmt.Errorf("%w: %v", ErrAddress, addr)
		}
	}
	failure := fmt.Errorf("fetch: %q has no address", host)
	for _, addr := range addrs {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failure = err
	}
	return nil, failure
}

func (f *Fetcher) allowed(addr netip.Addr) bool {
	for _, prefix := range f.o.Allow {
		if prefix.Contains(addr.Unmap()) {
			return true
		}
	}
	return Public(addr)
}
