// Package proxyecho is the neighbour of a gateway of two swpd: two reverse proxies of
// Go's library, one at the caller's and one at the server's organisation, with HTTP/2
// over mutual TLS between them. They pass requests on and do nothing else: no rules,
// no limits, no counting.
package proxyecho

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
)

// Near serves over plain HTTP what the proxy at a URL has, which Far has returned, and
// returns the URL of the same path.
func Near(ctx context.Context, target string, files cert.Files) (string, error) {
	config, err := files.ClientTLS("h2")
	if err != nil {
		return "", err
	}
	return serve(ctx, target, &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, nil)
}

// Far serves the server at a URL over mutual TLS, and returns the URL.
func Far(ctx context.Context, target string, files cert.Files) (string, error) {
	config, err := files.ServerTLS("h2")
	if err != nil {
		return "", err
	}
	return serve(ctx, target, new(http.Transport), config)
}

// serve passes on what comes, over TLS if config is not nil.
func serve(ctx context.Context, target string, over *http.Transport, config *tls.Config) (string, error) {
	to, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport: over,
			ErrorLog:  log.New(io.Discard, "", 0), // the caller sees the status
		},
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
	}
	if config == nil {
		go func() { _ = s.Serve(ln) }()
		return "http://" + ln.Addr().String(), nil
	}
	go func() { _ = s.ServeTLS(ln, "", "") }()
	return "https://" + ln.Addr().String(), nil
}
