// Package rpchttp serves RPC methods by HTTP servers that the configuration
// names. A call is one request:
//
//	POST <URL>/<method>
//	Content-Type: application/json, or application/octet-stream
//	Swp-Peer: <identity of the caller, as the channel authenticated it>
//	Swp-For: <the caller for whom that identity acts, if it has asserted one>
//	traceparent, tracestate: <those of the call, if any>
//	Swp-Policy: <its hints, if any, as profiles.FormatHints writes them>
//	Swp-Delegation: <what the credentials say that it is done under, if any, as profiles.FormatDelegation writes it>
//	Idempotency-Key: "<64 hexadecimal digits>"
//
// The method is one path segment, the body is the params, octet for octet.
// Nothing else of the caller is sent. The Idempotency-Key is there if the caller
// gave one: the same for the same key of the same caller, and for no other.
//
// A response with status 2xx is the result, octet for octet. With Content-Type
// application/x-ndjson it is a stream, whose lines are JSON objects of exactly
// one member:
//
//	{"item": …}                                      sent on as a stream item, as it comes
//	{"result": …}                                    ends the call
//	{"error": {"code": …, "message": …, "retryable": …}}   ends the call with ERR
//
// Items and the result are the octets of the member's value. Empty lines show
// that the server is alive. A stream that ends without result or error has
// failed.
//
// Any other status is an ERR: the one of a JSON body that is an error as above,
// else by the status: 400 and other 4xx invalid_request, 401 and 403
// unauthorized, 404 unknown_method, 408 and 504 timeout, 429, 502 and 503
// unavailable, other 5xx internal. Redirects are not followed. An ERR says that
// it is retryable where a second call can do no harm: 408, 429 and 503, requests
// that were never sent, and for repeatable methods also 502, 504 and lost
// connections; 502 also without an idempotency key.
//
// When the caller cancels, or is gone, the request is closed.
package rpchttp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Options configure Methods.
type Options struct {
	Name       string   // of the server, for peers; required
	URL        string   // required; without credentials, query and fragment
	Methods    []string // names, in full
	Repeatable []string // those of Methods that do no harm when they run twice

	// Client makes the requests. Required.
	Client *upstream.Client

	// Places are those of calls at once, which identities share; default 256, as many as a
	// Client makes.
	Places *fair.Slots

	// Trouble gets the reason why a call got no proper response. It is called
	// by many goroutines at once. It may be nil.
	Trouble func(method string, err error)

	// Answered is called when the server has answered, by many goroutines at once. It may be nil.
	Answered func()
}

// Methods returns the methods of one server, for rpc.Options. It fails on a URL
// or a name that is of no use.
func Methods(opts Options) (map[string]rpc.Method, error) {
	if err := upstream.CheckURL(opts.URL); err != nil {
		return nil, err
	}
	if strings.Contains(opts.URL, "?") {
		return nil, fmt.Errorf("rpchttp: URL %q has a query", opts.URL)
	}
	if opts.Name == "" {
		return nil, errors.New("rpchttp: the server has no name")
	}
	if opts.Trouble == nil {
		opts.Trouble = func(string, error) {}
	}
	if opts.Answered == nil {
		opts.Answered = func() {}
	}
	places := cmp.Or(opts.Places, fair.NewSlots(256))
	methods := make(map[string]rpc.Method, len(opts.Methods))
	for _, name := range opts.Methods {
		// A dot segment would be taken for a place in the path.
		if name == "" || name == "." || name == ".." {
			return nil, fmt.Errorf("rpchttp: method %q cannot be a path segment", name)
		}
		m := &method{
			server: opts.Name, name: name, repeatable: slices.Contains(opts.Repeatable, name),
			url: strings.TrimSuffix(opts.URL, "/") + "/" + url.PathEscape(name), client: opts.Client, trouble: opts.Trouble, answered: opts.Answered,
		}
		methods[name] = rpc.Method{Repeatable: m.repeatable, Held: func(p *rpc.Pending, params []byte) error {
			identity := p.Peer().Identity
			if fault := places.Try(identity).Refuse(errCalls); fault != nil {
				return fault
			}
			params = bytes.Clone(params)
			w := &work{p, sync.OnceFunc(func() { places.Give(identity) })}
			go func() {
				defer w.leave()
				m.call(w, params)
			}()
			return nil
		}}
	}
	for _, name := range opts.Repeatable {
		if _, ok := methods[name]; !ok {
			return nil, fmt.Errorf("rpchttp: method %q is repeatable, but is none of the methods", name)
		}
	}
	return methods, nil
}

var errCalls = profiles.Busy("rpc_backend_calls", "too many calls to this server")

type method struct {
	server     string
	name       string
	url        string
	repeatable bool
	client     *upstream.Client
	trouble    func(string, error)
	answered   func()
}

// call makes one call, from its request to its end.
// work is a call with a place at the server. The place is free before the caller has the answer,
// so that its next call finds it.
type work struct {
	*rpc.Pending
	leave func()
}

func (w *work) Return(result []byte) error {
	w.leave()
	return w.Pending.Return(result)
}

func (w *work) Fail(err error) {
	w.leave()
	w.Pending.Fail(err)
}

func (m *method) call(p *work, params []byte) {
	r, err := m.client.Post(p.Context(), m.url, m.header(p, params), params)
	if err != nil {
		m.fail(p, err)
		return
	}
	defer r.Close()
	switch {
	case r.Status < 200 || r.Status > 299:
		failure, own := m.statusError(p, r)
		if own && r.Status >= http.StatusInternalServerError {
			m.trouble(m.name, failure)
		} else {
			m.answered()
		}
		p.Fail(failure)
	case r.MediaType() == "application/x-ndjson":
		err = m.stream(p, r)
	default:
		var result []byte
		if result, err = r.Body(); err == nil {
			m.answered()
			err = p.Return(result)
		}
	}
	if err != nil {
		m.fail(p, err)
	}
}

func (m *method) header(p *work, params []byte) http.Header {
	identity := p.Peer().Identity
	h := http.Header{"Accept": {"application/json, application/x-ndjson, */*"}, "Swp-Peer": {profiles.Link(identity)}}
	if caller := profiles.For(identity); caller != "" {
		h.Set("Swp-For", caller)
	}
	switch {
	case json.Valid(params):
		h.Set("Content-Type", "application/json")
	case len(params) > 0:
		h.Set("Content-Type", "application/octet-stream")
	}
	if key := p.IdempotencyKey(); key != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(identity), identity, key))
		h.Set("Idempotency-Key", `"`+hex.EncodeToString(sum[:])+`"`)
	}
	trace := profiles.TraceOf(p.Context())
	for name, value := range map[string]string{"Traceparent": trace.Parent, "Tracestate": trace.State} {
		if value != "" && printable(value) {
			h.Set(name, value)
		}
	}
	if hints := profiles.HintsOf(p.Context(), m.name); len(hints) > 0 {
		h.Set("Swp-Policy", profiles.FormatHints(hints))
	}
	if d := profiles.DelegationOf(p.Context()); d != nil {
		h.Set("Swp-Delegation", profiles.FormatDelegation(d))
	}
	return h
}

// printable says whether a value of the peer may stand in a header.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// stream sends items on as they come, until the line that ends the call.
func (m *method) stream(p *work, r *upstream.Response) error {
	for {
		line, err := r.Line()
		if err != nil {
			return err // io.EOF, too
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(line, &object); err != nil || len(object) != 1 {
			return fmt.Errorf("%w: a line that is no object with one member", upstream.ErrBroken)
		}
		if item, ok := object["item"]; ok {
			if err := p.Pace(p.Context()); err != nil {
				return err
			}
			if err := p.Item(item); err != nil {
				return err
			}
			continue
		}
		if result, ok := object["result"]; ok {
			m.answered()
			return p.Return(result)
		}
		failure, ok := parseError(object["error"])
		if !ok {
			return fmt.Errorf("%w: a line that is no item, result or error", upstream.ErrBroken)
		}
		m.answered()
		p.Fail(failure)
		return nil
	}
}
