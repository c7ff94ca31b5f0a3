package client

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/profiles/agdisc"
)

// A2AHTTPOptions configure ServeA2AHTTP. Peer, Agent and Listener are required.
type A2AHTTPOptions struct {
	Peer     *Kept
	Agent    string       // agent or partner/agent, as the peer knows it
	Listener net.Listener // on a loopback address: each program that connects acts as this client

	// Params are the names of headers that are service parameters, in addition to those of
	// A2A.
	Params []string

	// Verbatim returns cards unchanged, with the interfaces and signatures of their
	// authors.
	Verbatim bool

	// Ready is called after the peer was reached. It may be nil.
	Ready func()
}

// ServeA2AHTTP serves a remote agent as a local A2A agent over JSON-RPC and REST, with its
// card at /.well-known/agent-card.json; docs/http-front.md describes its behaviour. A lost
// connection is replaced, and streams continue over the new one. It returns nil after ctx
// has ended; calls in flight then have two seconds. It fails with the error of the first
// connection, or of the listener.
func ServeA2AHTTP(ctx context.Context, o A2AHTTPOptions) error {
	cards := agdisc.NewCache(agdisc.CacheOptions{})
	defer cards.Close()
	way := a2aWay{o.Peer, o.Agent, cards}
	defer o.Peer.Watch()()
	partner, _, behind := strings.Cut(o.Agent, "/")
	front, err := a2afront.New(a2afront.Options{
		Link: func(string) a2afront.Link { return way }, Caller: gate.Caller,
		Partner: func(name string) bool { return behind && name == partner },
		Default: o.Agent, Single: true, Params: o.Params, Verbatim: o.Verbatim,
	})
	if err == nil {
		_, err = way.Session(ctx)
	}
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	return local(ctx, o.Listener, front, o.Ready, nil)
}

// a2aWay is the link to the agent, shared by all local callers.
type a2aWay struct {
	peer  *Kept
	agent string
	cards *agdisc.Cache
}

// Session implements a2afront.Link.
func (w a2aWay) Session(ctx context.Context) (a2afront.Session, error) {
	session, tasks, err := w.peer.Tasks(ctx, w.agent)
	return a2afront.Session{Session: session, Tasks: tasks}, err
}

// Card implements a2afront.Link.
func (w a2aWay) Card(ctx context.Context, agent string) (agdisc.Card, error) {
	s, err := w.Session(ctx)
	if err != nil {
		return agdisc.Card{}, err
	}
	return w.cards.Get(ctx, s.Session, agent)
}
