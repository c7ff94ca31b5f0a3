package cred_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	here  = "spiffe://test/here" // this endpoint
	idp   = "https://idp.test"
	bank  = "https://bearer.test" // its tokens belong to whoever holds them
	alice = "spiffe://test/alice"
	bob   = "spiffe://test/bob"
	carol = "spiffe://test/carol"
)

// start is when tests begin.
var start = time.UnixMilli(1_800_000_000_000)

// clock is a wall clock that can be set, and one that cannot.
type clock struct {
	mu           sync.Mutex
	wall, steady time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return start.Add(c.wall)
}

func (c *clock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steady
}

// pass lets time pass, jump sets the wall clock.
func (c *clock) pass(d time.Duration) { c.mu.Lock(); c.wall += d; c.steady += d; c.mu.Unlock() }
func (c *clock) jump(d time.Duration) { c.mu.Lock(); c.wall += d; c.mu.Unlock() }

// key is the key of an issuer, always the same.
func key(issuer string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(issuer))
	return ed25519.NewKeyFromSeed(seed[:])
}

// sign returns a token with claims.
func sign(t testing.TB, issuer string, claims map[string]any) []byte {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key(issuer)}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

// issued returns a token that is good for so long; more changes its claims, nil
// removes one.
func issued(t testing.TB, issuer, subject, scope string, life time.Duration, more map[string]any) []byte {
	t.Helper()
	claims := map[string]any{"iss": issuer, "sub": subject, "aud": here, "exp": start.Add(life).Unix(), "scope": scope}
	for name, value := range more {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return sign(t, issuer, claims)
}

// trust is what is configured of an issuer.
func trust(t testing.TB, issuer string, delegates bool) token.Issuer {
	t.Helper()
	jwk, err := (&jose.JSONWebKey{Key: key(issuer).Public()}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := token.ParseKeys(jwk)
	if err != nil {
		t.Fatal(err)
	}
	return token.Issuer{Keys: keys, Delegates: delegates, Bearer: issuer == bank}
}

func trusted(t testing.TB) map[string]token.Issuer {
	issuers := map[string]token.Issuer{idp: trust(t, idp, false), bank: trust(t, bank, false)}
	for _, name := range []string{alice, bob, carol, "user-7"} {
		issuers[name] = trust(t, name, true)
	}
	return issuers
}

// digests lists the opaque credentials "secret" and "other".
type digests struct{}

func (digests) Listed(sum [sha256.Size]byte) bool {
	return sum == sha256.Sum256([]byte("secret")) || sum == sha256.Sum256([]byte("other"))
}

// world is a Service and its clock.
type world struct {
	*cred.Service
	t      *testing.T
	clock  *clock
	tokens *token.Verifier
}

func newWorld(t *testing.T, change func(*cred.Options)) *world {
	t.Helper()
	return newWorldAt(t, new(clock), change)
}

func newWorldAt(t *testing.T, c *clock, change func(*cred.Options)) *world {
	t.Helper()
	w := &world{t: t, clock: c, tokens: token.New(trusted(t))}
	opts := cred.Options{Tokens: w.tokens, Digests: digests{}, Audience: []string{here}, Now: c.now, Elapsed: c.elapsed}
	if change != nil {
		change(&opts)
	}
	var err error
	if w.Service, err = cred.New(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	return w
}

func memory(t testing.TB, dir string) *sqlstore.Store {
	t.Helper()
	engine, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

// peer is who sends messages.
type peer struct {
	w     *world
	who   profiles.Peer
	until context.Context
}

// leafOf is the certificate of an identity.
func leafOf(identity string) [sha256.Size]byte { return sha256.Sum256([]byte("leaf of " + identity)) }

func (w *world) peer(identity string) *peer {
	leaf := leafOf(identity)
	return &peer{w: w, who: profiles.Peer{Identity: identity, Fingerprint: hex.EncodeToString(leaf[:])}, until: w.t.Context()}
}

// session is a profiles.Session that is never asked for anything but its peer.
type session struct {
	profiles.Session
	peer *profiles.Peer
}

func (s session) Peer() *profiles.Peer { return s.peer }

// exchange ends with what Defer was told.
type exchange struct {
	profiles.Exchange
	done chan error
}

func (x *exchange) About(profiles.Subject) {}

func (x *exchange) Defer(*profiles.Request) func(error) {
	x.done = make(chan error, 1)
	return func(err error) {
		select {
		case x.done <- err:
		default:
		}
	}
}

// request is a message of the peer.
func (p *peer) request(msgType uint64, payload []byte) *profiles.Request {
	return &profiles.Request{
		Envelope: e1.Envelope{ProfileID: cred.ProfileID, MsgType: msgType, Payload: payload},
		Session:  session{peer: &p.who}, Exchange: new(exchange),
	}
}

// serve returns "" or the code of the CRED_ERR.
func (p *peer) serve(msgType uint64, payload []byte) string {
	p.w.t.Helper()
	req := p.request(msgType, payload)
	x := req.Exchange.(*exchange)
	err := p.w.Profile().Handler.Serve(p.until, req, nil)
	if err == nil && x.done != nil {
		err = <-x.done
	}
	if err == nil {
		return ""
	}
	env, ok := p.w.Profile().Refusal(req, profiles.AsError(err))
	var m cred.Err
	if !ok || m.Decode(env.Payload) != nil {
		p.w.t.Fatalf("no CRED_ERR for %v", err)
	}
	return string(m.Code)
}

func (p *peer) present(kind string, credential []byte, id string) string {
	p.w.t.Helper()
	return p.serve(cred.TypePresent, (&cred.Present{Type: []byte(kind), Credential: credential, ChainID: []byte(id)}).Append(nil))
}

func (p *peer) delegate(id string, delegation []byte, life time.Duration) string {
	p.w.t.Helper()
	return p.delegateUntil(id, delegation, uint64(p.w.clock.now().Add(life).UnixMilli()))
}

func (p *peer) delegateUntil(id string, delegation []byte, expires uint64) string {
	p.w.t.Helper()
	return p.serve(cred.TypeDelegate, (&cred.Delegate{ChainID: []byte(id), Delegation: delegation, Expires: expires}).Append(nil))
}

func (p *peer) revoke(id string) string {
	p.w.t.Helper()
	return p.serve(cred.TypeRevoke, (&cred.Revoke{ChainID: []byte(id), Reason: []byte("why")}).Append(nil))
}

// use returns "subject scopes depth" of a chain, or "no".
func (p *peer) use(id string) string {
	d, err := p.w.Delegation(&p.who, []byte(id))
	if err != nil {
		return "no"
	}
	return fmt.Sprintf("%s [%s] %d", strings.TrimPrefix(d.Subject, "spiffe://test/"), strings.Join(d.Scopes, " "), d.Depth)
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// leafClaim is a cnf that binds a token to the certificate of an identity.
func leafClaim(identity string) map[string]any {
	leaf := leafOf(identity)
	return map[string]any{"cnf": map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(leaf[:])}}
}
