// Package gate admits and authenticates HTTP requests from local programs: it checks
// Host and Origin against lists first, then the bearer token or the client certificate
// identifies the caller.
//
// A web page must not reach a front on its visitor's machine, neither by a
// cross-origin request (Origin) nor by DNS rebinding (Host).
//
// Specification: mcp-a2a mapping §5, ABUSE GW-09.
package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Gate. The zero value lets nobody in.
type Options struct {
	// Callers are by name the bearer tokens by which they come, as ParseToken reads them.
	Callers map[string][]string

	// Anonymous is the name of callers with neither a token nor a certificate.
	// Empty means that they are not let in.
	Anonymous string

	// Hosts are the names, without a port, by which a front may be called besides
	// loopback addresses and localhost.
	Hosts []string

	// AnyHost lets requests in under every name. It is for a server that nobody calls without
	// TLS and a credential, which a web page has not.
	AnyHost bool

	// Origins are the allowed origins of web pages, such as https://app.example.org. The
	// origin of the front itself is always allowed.
	Origins []string

	// Certificates are by name the identities of the client certificates by which
	// callers come. A caller may have tokens, too.
	Certificates map[string][]string

	// Identity returns the identity of a client certificate. That it is good is for
	// the TLS of the server to see, before. Nil means that none names a caller.
	Identity func(*x509.Certificate) (string, error)

	// Calls is how many requests of one caller may be open at once, default 128.
	// More are answered with 429.
	Calls int
}

// Prefix is what the identities of callers begin with.
const Prefix = "http:"

// callerKey is where the context of a request has its caller.
type callerKey struct{}

// Caller returns the identity, http:NAME, of the caller of a request that a Gate has
// admitted; else an empty string.
func Caller(r *http.Request) string {
	caller, _ := r.Context().Value(callerKey{}).(string)
	return caller
}

// Gate lets requests in. It is safe for concurrent use.
type Gate struct {
	rules atomic.Pointer[rules] // in force

	mu    sync.Mutex
	calls map[string]int // open requests, by name
	open  map[*request]struct{}
}

// rules are Options that are good. They never change.
type rules struct {
	Options
	tokens     map[[sha256.Size]byte]bearer // by the hash of the token
	identities map[string]string            // name, by the identity of its certificate
}

// bearer is the caller of a token.
type bearer struct {
	name  string
	until time.Time // zero: for ever
}

// name is the name of a caller.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ValidName reports whether s can be the name of a caller: 1 to 64 letters, digits,
// '.', '_' and '-', the first a letter or digit.
func ValidName(s string) bool { return name.MatchString(s) }

// New returns a Gate. It fails for names and hashes that are none, for a token that two
// callers have, and for a caller with tokens that needs none.
func New(o Options) (*Gate, error) {
	g := &Gate{calls: make(map[string]int), open: make(map[*request]struct{})}
	if err := g.Set(o); err != nil {
		return nil, err
	}
	return g, nil
}

// Set replaces the Options, for requests that come from now on; see Review. It fails as New
// does, and then changes nothing.
func (g *Gate) Set(o Options) error {
	r, err := newRules(o)
	if err == nil {
		g.rules.Store(r)
	}
	return err
}

func newRules(o Options) (*rules, error) {
	o.Calls = cmp.Or(o.Calls, 128)
	r := &rules{Options: o, tokens: make(map[[sha256.Size]byte]bearer), identities: make(map[string]string)}
	for caller, hashes := range o.Callers {
		if !ValidName(caller) {
			return nil, fmt.Errorf("gate: caller %q: not a name", caller)
		}
		for _, text := range hashes {
			sum, until, err := ParseToken(text)
			if err != nil {
				return nil, fmt.Errorf("gate: caller %q: %w", caller, err)
			}
			if other, taken := r.tokens[sum]; taken {
				return nil, fmt.Errorf("gate: callers %q and %q have the same token", other.name, caller)
			}
			r.tokens[sum] = bearer{caller, until}
		}
	}
	for caller, identities := range o.Certificates {
		if !ValidName(caller) {
			return nil, fmt.Errorf("gate: caller %q: not a name", caller)
		}
		for _, identity := range identities {
			if other, taken := r.identities[identity]; taken {
				return nil, fmt.Errorf("gate: callers %q and %q have the same certificate %q", other, caller, identity)
			}
			r.identities[identity] = caller
		}
	}
	if o.Anonymous != "" && !ValidName(o.Anonymous) {
		return nil, fmt.Errorf("gate: anonymous %q: not a name", o.Anonymous)
	}
	if _, taken := o.Callers[o.Anonymous]; taken {
		return nil, fmt.Errorf("gate: anonymous %q: a caller with tokens", o.Anonymous)
	}
	return r, nil
}

// ParseHash parses a SHA-256 in hexadecimal. The error does not contain the input, which
// may be the token itself by mistake.
func ParseHash(text string) (sum [sha256.Size]byte, err error) {
	octets, err := hex.DecodeString(text)
	if err != nil || len(octets) != len(sum) {
		return sum, fmt.Errorf("gate: hash of %d characters, want 64 hexadecimal digits", len(text))
	}
	return [sha256.Size]byte(octets), nil
}

// ParseToken parses a token of Options: the SHA-256 in hexadecimal, and possibly " until "
// and a time as in RFC 3339, from which on it is not valid.
func ParseToken(text string) (sum [sha256.Size]byte, until time.Time, err error) {
	text, end, ends := strings.Cut(text, " until ")
	if ends {
		if until, err = time.Parse(time.RFC3339, end); err != nil {
			return sum, until, fmt.Errorf("gate: end of a token of %d characters, want a time such as 2026-12-31T23:59:59Z", len(end))
		}
	}
	sum, err = ParseHash(text)
	return sum, until, err
}

// Handler has what is let in served by next, which is told by Caller who it is.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		rules := g.rules.Load()
		if r.Body != http.NoBody {
			// The server discards the unread body before it answers.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // where there is one
		}
		if !rules.host(r) {
			turnAway(w, "this front does not go by that host name", http.StatusForbidden)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if !rules.origin(origin, r) {
				turnAway(w, "web pages of that origin may not call", http.StatusForbidden)
				return
			}
			if share(w, r, origin) {
				return
			}
		}
		shown := proofOf(r)
		caller, until, err := rules.caller(&shown)
		switch {
		case errors.Is(err, errUnknown):
			w.Header().Set("WWW-Authenticate", `Bearer realm="swpd"`)
			turnAway(w, err.Error(), http.StatusUnauthorized)
			return
		case err != nil:
			turnAway(w, err.Error(), http.StatusForbidden)
			return
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), callerKey{}, Prefix+caller))
		defer cancel(nil)
		one := &request{caller: caller, shown: shown, cancel: cancel, control: http.NewResponseController(w)}
		if !g.enter(one, rules.Calls) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests of this caller are open", http.StatusTooManyRequests)
			return
		}
		defer g.leave(one)
		if g.rules.Load() != rules { // they changed before the request was entered
			one.review(g.rules.Load(), nil)
		}
		if !until.IsZero() {
			defer time.AfterFunc(time.Until(until), func() { g.expire(one) }).Stop()
		}
		answer := &answer{ResponseWriter: w}
		next.ServeHTTP(answer, r.WithContext(ctx))
		switch {
		case context.Cause(ctx) != ErrEnded:
		case answer.begun:
			panic(http.ErrAbortHandler) // closes the connection, so that the response does not look complete
		default:
			turnAway(w, "this caller is not let in any more", http.StatusForbidden)
		}
	})
}

// Knows reports whether a request has the token or the certificate of a caller, so that the caller is
// not anonymous. It does not count the request.
func (g *Gate) Knows(r *http.Request) bool {
	rules := g.rules.Load()
	shown := proofOf(r)
	caller, _, err := rules.caller(&shown)
	return err == nil && caller != rules.Anonymous
}

// turnAway refuses a request of nobody known, and closes its connection.
func turnAway(w http.ResponseWriter, why string, status int) {
	w.Header().Set("Connection", "close")
	http.Error(w, why, status)
}

// host reports whether the front goes by the name that it was called by.
func (g *rules) host(r *http.Request) bool {
	if g.AnyHost {
		return true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return true
	}
	return slices.ContainsFunc(g.Hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// origin reports whether pages of an origin may call.
func (g *rules) origin(origin string, r *http.Request) bool {
	if slices.Contains(g.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https") == (r.TLS != nil)
}

// share tells the browser that the page may read the answer. It returns true if that
// was all it asked.
func share(w http.ResponseWriter, r *http.Request, origin string) (done bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", "ETag, Mcp-Session-Id, MCP-Protocol-Version")
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// Reasons to refuse a request. errUnknown calls for another token.
var (
	errUnknown     = errors.New("a bearer token or client certificate that is known here is required")
	errCertificate = errors.New("the client certificate is that of no caller")
	errTwo         = errors.New("the bearer token and the client certificate are of two callers")
)

// proof is what a request has shown of its caller.
type proof struct {
	authorization []string
	cert          *x509.Certificate // nil: none
}

func proofOf(r *http.Request) proof {
	p := proof{authorization: r.Header.Values("Authorization")}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		p.cert = r.TLS.PeerCertificates[0]
	}
	return p
}

// caller identifies the caller, and says until when; zero is for ever. An unknown token or
// certificate is not the same as none, and if both are present they must agree.
func (g *rules) caller(p *proof) (name string, until time.Time, err error) {
	byCertificate, err := g.byCertificate(p.cert)
	if err != nil {
		return "", until, err
	}
	byToken, err := g.byToken(p.authorization)
	switch {
	case err != nil:
		return "", until, err
	case byToken.name != "" && byCertificate != "" && byToken.name != byCertificate:
		return "", until, errTwo
	}
	until = byToken.until
	if p.cert != nil && (until.IsZero() || p.cert.NotAfter.Before(until)) {
		until = p.cert.NotAfter
	}
	if caller := cmp.Or(byToken.name, byCertificate, g.Anonymous); caller != "" {
		return caller, until, nil
	}
	return "", until, errUnknown
}

// byToken returns whose token a request has; zero if it has none.
func (g *rules) byToken(authorization []string) (bearer, error) {
	if len(authorization) == 0 {
		return bearer{}, nil
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if len(authorization) == 1 && strings.EqualFold(scheme, "Bearer") {
		b, ok := g.tokens[sha256.Sum256([]byte(strings.TrimSpace(token)))]
		if ok && (b.until.IsZero() || time.Now().Before(b.until)) {
			return b, nil
		}
	}
	return bearer{}, errUnknown
}

// byCertificate returns whose certificate a request came with, or an empty string if
// with none. A connection may have outlived the certificate that was good at its start.
func (g *rules) byCertificate(cert *x509.Certificate) (string, error) {
	if cert == nil {
		return "", nil
	}
	if g.Identity == nil || time.Now().After(cert.NotAfter) {
		return "", errCertificate
	}
	if identity, err := g.Identity(cert); err == nil {
		if caller, ok := g.identities[identity]; ok {
			return caller, nil
		}
	}
	return "", errCertificate
}
