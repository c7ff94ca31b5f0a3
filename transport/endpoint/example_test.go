package endpoint_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/tlsconn"
)

const greeterID = 5000 // a number for private use

// greeter returns a profile: HELLO is answered with GREETING.
func greeter() *profiles.Profile {
	return &profiles.Profile{
		ID: greeterID, Name: "greeter",
		Types: []profiles.Type{
			{ID: 1, Name: "HELLO", Role: profiles.Initiating},
			{ID: 2, Name: "GREETING", Role: profiles.Answer | profiles.Terminal},
		},
		Operations: []profiles.Operation{{Name: "hello", On: "the name to greet"}}, // for access rules
		Handler:    profiles.HandlerFunc(greet),
	}
}

func greet(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	name := strings.TrimSpace(string(req.Payload))
	if name == "" {
		return profiles.Errorf(profiles.InvalidProfilePayload, "greeter: no name")
	}
	if !req.May(req.Rules, "greeter", "hello", name) {
		return profiles.Deny(&profiles.Error{Code: profiles.SecurityPolicy, Detail: "hello", Text: "you may not greet " + name})
	}
	return w.Finish(e1.Envelope{MsgType: 2, Payload: []byte("hello, " + name + " of " + req.Session.Peer().Identity)})
}

// greeting returns an endpoint that serves the greeter.
func greeting() (*endpoint.Endpoint, error) {
	registry, err := profiles.NewRegistry(greeter())
	if err != nil {
		return nil, err
	}
	return endpoint.New(endpoint.Options{Registry: registry})
}

// hello calls the greeter at the other end of a session.
func hello(ctx context.Context, s *endpoint.Session, name string) (string, error) {
	call, err := s.Call(ctx, e1.Envelope{ProfileID: greeterID, MsgType: 1, Payload: []byte(name)})
	if err != nil {
		return "", err
	}
	defer call.Close()
	answer, err := call.Recv(ctx)
	if err != nil {
		return "", err
	}
	return string(answer.Payload), nil // valid until the next Recv
}

// serve serves every peer with a certificate of the authority, until ctx ends.
func serve(ctx context.Context, address string) error {
	creds, err := transport.LoadCredentials("server.crt", "server.key", "ca.crt")
	if err != nil {
		return err
	}
	policy := &transport.Policy{Credentials: func() *transport.Credentials { return creds }}
	listener, err := tlsconn.Listen(address, policy, tlsconn.Options{})
	if err != nil {
		return err
	}
	ep, err := greeting()
	if err != nil {
		return err
	}
	defer func() { _ = ep.Close() }()
	return ep.Serve(ctx, listener)
}

// dial calls a server by TLS; quicconn.Dial does the same over QUIC.
func dial(ctx context.Context, address string) (string, error) {
	creds, err := transport.LoadCredentials("client.crt", "client.key", "ca.crt")
	if err != nil {
		return "", err
	}
	policy := &transport.Policy{Credentials: func() *transport.Credentials { return creds }}
	conn, err := tlsconn.Dial(ctx, address, policy, tlsconn.Options{})
	if err != nil {
		return "", err
	}
	ep, err := greeting() // either end may call the other
	if err != nil {
		return "", err
	}
	defer func() { _ = ep.Close() }()
	return hello(ctx, ep.Attach(conn), "gopher")
}

// Two endpoints, joined in memory as TLS or QUIC would join them.
func Example() {
	_, _ = serve, dial // what they are joined by elsewhere
	a, err := greeting()
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := greeting()
	if err != nil {
		fmt.Println(err)
		return
	}
	here, there := transport.NewPipe(transport.PipeOptions{A: "spiffe://example.org/a", B: "spiffe://example.org/b"})
	a.Attach(here)
	session := b.Attach(there)
	fmt.Println(hello(context.Background(), session, "gopher"))
	_, err = hello(context.Background(), session, " ")
	fmt.Println(err)
	_, _ = b.Close(), a.Close()
	// Output:
	// hello, gopher of spiffe://example.org/b <nil>
	// ERR_INVALID_PROFILE_PAYLOAD · remote: greeter: no name
}
