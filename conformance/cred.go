package conformance

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// The identities in the tokens of the vectors, and the known opaque credential.
const (
	credSelf   = "spiffe://endpoint.invalid/self" //nolint:gosec // a name
	credIssuer = "https://idp.invalid"            //nolint:gosec // a name
	credSecret = "correct horse battery staple"
)

// buildCred returns what sets an endpoint with the CRED profile: with a method that
// tells what the credentials of its call say, or between two connections.
func buildCred(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve:
		return serving(credProfiles), nil
	case vectors.Relay:
		return buildCredHop, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// credKeys are the keys of an issuer: they follow from its name.
func credKeys(name string) ([]token.Key, error) {
	seed := sha256.Sum256([]byte("key of " + name))
	der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(seed[:]).Public())
	if err != nil {
		return nil, err
	}
	return token.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// oneDigest lists one opaque credential.
type oneDigest [sha256.Size]byte

// Listed implements cred.Digests.
func (d oneDigest) Listed(sum [sha256.Size]byte) bool { return sum == d }

// credentials is the CRED profile. Its results are attached to the exchange
// from now on.
func (s *stage) credentials() (*cred.Service, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	issuers := make(map[string]token.Issuer)
	names := []string{credIssuer, peerIdentity + "a", peerIdentity + "b", peerIdentity + "c"}
	for depth := 2; depth <= 9; depth++ {
		names = append(names, fmt.Sprint(peerIdentity, "hop-", depth))
	}
	for _, name := range names {
		keys, err := credKeys(name)
		if err != nil {
			return nil, err
		}
		issuers[name] = token.Issuer{Keys: keys, Delegates: name != credIssuer}
	}
	c, err := cred.New(context.Background(), cred.Options{
		Store: db, Keep: true, Tokens: token.New(issuers), Audience: []string{credSelf},
		Digests: oneDigest(sha256.Sum256([]byte(credSecret))), Forward: never, Now: s.clock.now,
		Elapsed: func() time.Duration { return s.clock.now().Sub(s.clock.start) },
		Sync: func(ctx context.Context, lane profiles.Lane) error {
			_, err := rpc.Call(ctx, &aliasedLane{lane, s, []byte("rpc-000000000002")}, rpc.MethodSync, nil)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	s.tracer = endpoint.ContextFunc(c.Attach)
	return c, nil
}

// credProfiles are CRED, and RPC with the method vector.who.
func credProfiles(s *stage) ([]*profiles.Profile, error) {
	c, err := s.credentials()
	if err != nil {
		return nil, err
	}
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{"vector.who": {Held: func(p *rpc.Pending, _ []byte) error {
		who := "nobody"
		if d := profiles.DelegationOf(p.Context()); d != nil {
			who = fmt.Sprintf("%s [%s] %d", d.Subject, strings.Join(d.Scopes, " "), d.Depth)
		}
		return p.Return([]byte(who))
	}}}})
	if err != nil {
		return nil, err
	}
	return []*profiles.Profile{witnessed(s, c.Profile()), witnessed(s, calls)}, nil
}

// buildCredHop sets an endpoint with the CRED profile between two connections.
func buildCredHop(s *stage) error {
	c, err := s.credentials()
	if err != nil {
		return err
	}
	return buildHop(s, credCarrier{c}, rpc.Options{})
}

// credCarrier fails a call whose credentials the next endpoint refuses.
type credCarrier struct{ *cred.Service }

// Forward implements profiles.Carrier.
func (c credCarrier) Forward(ctx context.Context, lane profiles.Lane, on *profiles.Onward) (context.Context, error) {
	ctx, err := c.Service.Forward(ctx, lane, on)
	if errors.As(err, new(*profiles.PeerError)) {
		err = &rpc.Error{Code: rpc.CodeUnauthorized, Message: "the credentials were not taken"}
	}
	return ctx, err
}
