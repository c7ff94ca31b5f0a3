package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// Local is the Target that plays on endpoints of this process, each input on a
// fresh one: frames over an in-memory connection, channel scenarios over
// mutual TLS or QUIC on loopback. The zero value is ready for use.
type Local struct {
	// Patience is how long a step may take to have its effect, 5 s where it is
	// zero. It is never awaited while all is well: each step has an effect to
	// wait for. Time in which this process does not run is not counted.
	Patience time.Duration

	pause func() // before each step; may be nil
}

// Play implements Target.
func (l Local) Play(ctx context.Context, in *Input) (*Observation, error) {
	s := newStage(in)
	s.pause = l.pause
	if s.patience = l.Patience; s.patience == 0 {
		s.patience = 5 * time.Second
	}
	s.app = newApplication(s)
	build, err := builder(in)
	if err == nil {
		err = build(s)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s.play(ctx)
}

// builder returns what sets the stage for an input.
func builder(in *Input) (func(*stage) error, error) {
	switch in.Category {
	case "core", "e1":
		return serving(recording), nil
	case "s1":
		return buildChannel, nil
	case "mcp":
		return buildMCP(in.Setup)
	case "rpc":
		return serving(rpcProfiles), nil
	case "a2a":
		return serving(a2aProfiles), nil
	case "agdisc":
		return serving(agdiscProfiles), nil
	case "tooldisc":
		return serving(tooldiscProfiles), nil
	case "obs":
		return buildOBS(in.Setup)
	case "events":
		return serving(eventsProfiles), nil
	case "artifact":
		return serving(artifactProfiles), nil
	case "cred":
		return buildCred(in.Setup)
	case "policyhint":
		return buildPolicyHint(in.Setup)
	case "state":
		return serving(stateProfiles), nil
	case "relay":
		return serving(relayProfiles), nil
	case "sdl":
		return buildSDL(in.Setup)
	case "slip":
		return serving(slipProfiles), nil
	case PoC:
		return serving(pocProfiles), nil
	}
	return nil, fmt.Errorf("%w: nothing here plays category %q", ErrNotPlayed, in.Category)
}

// serving sets an endpoint with profiles, and a pipe to it for each connection.
func serving(build func(*stage) ([]*profiles.Profile, error)) func(*stage) error {
	return func(s *stage) error {
		if s.in.Setup != vectors.Serve {
			return fmt.Errorf("%w: nothing here plays setup %q of category %q", ErrNotPlayed, s.in.Setup, s.in.Category)
		}
		return endpointOf(s, build)
	}
}

// endpointOf is serving, for any setup.
func endpointOf(s *stage, build func(*stage) ([]*profiles.Profile, error)) error {
	list, err := build(s)
	if err != nil {
		return err
	}
	ep, err := s.endpoint(list)
	if err != nil {
		return err
	}
	for _, name := range s.connNames() {
		if _, err := s.pipe(ep, name); err != nil {
			return err
		}
	}
	return nil
}

// endpoint makes the endpoint under test.
func (s *stage) endpoint(list []*profiles.Profile) (*endpoint.Endpoint, error) {
	opts, err := s.options(list)
	if err != nil {
		return nil, err
	}
	ep, err := endpoint.New(opts)
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = ep.Close() })
	return ep, nil
}

// pipe connects a peer to the endpoint.
func (s *stage) pipe(ep *endpoint.Endpoint, name string) (*endpoint.Session, error) {
	owner, _, _ := strings.Cut(name, ".")
	here, there := transport.NewPipe(transport.PipeOptions{B: peerIdentity + owner})
	stream, err := there.Open(context.Background())
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = there.Close(0) })
	s.peers[name] = s.newWirePeer(name, stream)
	return s.attach(ep, here, name), nil
}

func (s *stage) attach(ep *endpoint.Endpoint, conn transport.Conn, name string) *endpoint.Session {
	session := ep.Attach(conn)
	s.sessions[name] = session
	s.change(func() { s.conns[session.ID()] = name })
	return session
}

// connNames are the connections that the steps name, in order of appearance.
func (s *stage) connNames() []string {
	var names []string
	for _, st := range s.in.Steps {
		if st.Dir != vectors.App && st.Dir != vectors.Wait && !slices.Contains(names, st.Conn) {
			names = append(names, st.Conn)
		}
	}
	return names
}

// ownIdentity is the identity of the endpoint under test.
const ownIdentity = "spiffe://endpoint.invalid/under-test"

// peerIdentity is what the identities of peers on pipes begin with; the name of
// the connection follows, up to a dot.
const peerIdentity = "spiffe://peer.invalid/"
