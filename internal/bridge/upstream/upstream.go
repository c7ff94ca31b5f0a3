// Package upstream is how bridges speak to HTTP servers that the configuration
// names. It trusts them with the request and with nothing else: a server that
// is slow, gone, or answers without end costs the call, not this process.
//
//   - Only the URL that was configured is dialled, at whatever addresses its
//     host has: no redirect is followed, no proxy of the environment is used.
//   - Nothing is sent but what the caller gives: no cookies, no
//     credentials.
//   - Each message of a call, which is the head of the response, a line of it or
//     a whole body, must be complete within Options.Silence; the call as a whole
//     within Options.Total. Time that the caller lets pass between two lines
//     does not count as silence.
//   - Sizes are those after decompression.
//   - Each call has a connection to itself while it lasts (HTTP/1.1), and Close
//     closes it unless the response was read to its end: that is what tells the
//     server that nobody waits any more.
package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
)

// Options configure a Client. The zero value is ready for use.
type Options struct {
	Dial    time.Duration // to connect, TLS included; default 10 s
	Silence time.Duration // for each message of a call; default 60 s
	Total   time.Duration // of a call; default profiles.WholeWork of Silence

	Calls    int   // at once, default 256; above it Post fails with ErrBusy
	MaxBody  int   // octets of a body read whole, default 8 MiB
	MaxLine  int   // octets of a line, default 8 MiB
	MaxLines int64 // octets of all lines of a response, or of all that is Read of it, default 1 GiB

	// Memory is the budget for answers above 64 KiB, until their Response is closed. In it
	// a host is an identity. Nil: one of 256 MiB.
	Memory *memory.Budget

	// TLS is for https. Nil means the authorities of the system and TLS 1.2 at
	// least.
	TLS *tls.Config
}

// maxHeader bounds the head of a response.
const maxHeader = 64 << 10

// idleConn is how long a connection is kept for the next call: less than
// servers keep theirs, because a request on a connection that the server is
// just closing is lost, and must not be sent twice.
const idleConn = time.Second

func (o Options) withDefaults() Options {
	orDefault(&o.Dial, 10*time.Second)
	orDefault(&o.Silence, time.Minute)
	orDefault(&o.Total, profiles.WholeWork(o.Silence))
	orDefault(&o.Calls, 256)
	orDefault(&o.MaxBody, 8<<20)
	orDefault(&o.MaxLine, 8<<20)
	orDefault(&o.MaxLines, 1<<30)
	if o.Memory == nil {
		o.Memory = memory.New(256 << 20)
	}
	return o
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Client makes calls to servers. It is safe for concurrent use.
type Client struct {
	opts      Options
	transport *http.Transport
	calls     atomic.Int64
}

// New returns a Client. Close it in the end.
func New(opts Options) *Client {
	opts = opts.withDefaults()
	conf := opts.TLS
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	dialer := &net.Dialer{Timeout: opts.Dial}
	return &Client{opts: opts, transport: &http.Transport{
		Proxy:                  nil, // never the proxy of the environment
		DialContext:            dialer.DialContext,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    opts.Dial,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
		MaxIdleConnsPerHost:    opts.Calls,
		IdleConnTimeout:        idleConn,
		MaxResponseHeaderBytes: maxHeader,
	}}
}

// Close closes the connections that no call is using.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// CheckURL reports what is wrong with a URL to post to.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("upstream: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("upstream: URL %q, want http or https", u.Redacted())
	case u.Hostname() == "":
		return fmt.Errorf("upstream: URL %q names no host", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("upstream: URL %q contains credentials", u.Redacted())
	case u.Fragment != "":
		return fmt.Errorf("upstream: URL %q has a fragment, which is not sent", u.Redacted())
	}
	return nil
}

// Post sends body to a URL of the configuration and returns the response once
// its head has arrived, with any status: 3xx like any other. The caller closes
// it. header and body must not change until then.
//
// The call ends with ctx; the error is then its cause. Otherwise the error wraps
// one of the errors of this package.
func (c *Client) Post(ctx context.Context, rawURL string, header http.Header, body []byte) (*Response, error) {
	return c.Do(ctx, http.MethodPost, rawURL, header, body)
}

// Do is Post by another method. A body of nil is none.
func (c *Client) Do(ctx context.Context, method, rawURL string, header http.Header, body []byte) (*Response, error) {
	if c.calls.Add(1) > int64(c.opts.Calls) {
		c.calls.Add(-1)
		return nil, fmt.Errorf("%w: %d", ErrBusy, c.opts.Calls)
	}
	r := &Response{client: c}
	ctx, endTotal := context.WithTimeoutCause(ctx, c.opts.Total, fmt.Errorf("%w: %v", ErrTotal, c.opts.Total))
	r.ctx, r.stop = context.WithCancelCause(ctx)
	r.end = func() {
		if r.held != nil {
			r.held.Release()
		}
		r.stop(nil)
		endTotal()
		c.calls.Add(-1)
	}
	if err := r.send(method, rawURL, header, body); err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

func (r *Response) send(method, rawURL string, header http.Header, body []byte) error {
	if err := CheckURL(rawURL); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(r.ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, rawURL, content)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	req.Header = onlyOnce(header)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "swpd")
	}
	defer r.Await()()
	// Not through an http.Client, which would follow redirects.
	r.http, err = r.client.transport.RoundTrip(req) //nolint:bodyclose // by Close
	switch {
	case err == nil:
	case !sent.Load() && context.Cause(r.ctx) == nil:
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	default:
		return r.failed(err)
	}
	if coding := r.http.Header.Get("Content-Encoding"); coding != "" {
		_ = r.http.Body.Close()
		return fmt.Errorf("%w: Content-Encoding %.40q was not asked for", ErrBroken, coding)
	}
	r.Status, r.Header = r.http.StatusCode, r.http.Header
	r.held = r.client.opts.Memory.Hold("server at " + req.URL.Host)
	r.lineRoom.held = r.held
	return nil
}

// onlyOnce copies a header so that net/http does not take an Idempotency-Key
// for a permission to send the request again by itself: it looks for the
// canonical spelling, servers for any.
func onlyOnce(header http.Header) http.Header {
	h := header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
	return h
}

// failed says why the response came to an early end.
func (r *Response) failed(err error) error {
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}
