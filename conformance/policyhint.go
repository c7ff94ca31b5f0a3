package conformance

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// buildPolicyHint returns what sets an endpoint with the POLICYHINT profile: with
// methods that hints can stop, or between two connections.
func buildPolicyHint(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve:
		return serving(hintedProfiles), nil
	case vectors.Relay:
		return buildHintedHop, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// methodTargets are the targets: of a method that is not in it nothing is known.
type methodTargets map[string]*policyhint.Target

// Target implements policyhint.Targets.
func (d methodTargets) Target(profile, name string) (*policyhint.Target, bool) {
	t, ok := d[name]
	return t, ok && profile == "rpc"
}

// european is what is declared of vector.done and vector.held.
func european() *policyhint.Target {
	cost, _ := policyhint.ParseCost("0.02 EUR") // a constant
	return &policyhint.Target{ExternalNetwork: new(false), Regions: []string{"eu-west-1"}, Cost: &cost}
}

// hints is the POLICYHINT profile, whose hints from now on are attached to each
// exchange.
func (s *stage) hints() *policyhint.Hints {
	h := policyhint.New(policyhint.Options{Targets: methodTargets{"vector.done": european(), "vector.held": european()}})
	s.tracer = endpoint.ContextFunc(h.Attach)
	return h
}

// hintedProfiles are POLICYHINT, and RPC with the methods vector.done, of which
// something is declared, and vector.bare, of which nothing is.
func hintedProfiles(s *stage) ([]*profiles.Profile, error) {
	h := s.hints()
	done := rpc.Method{Inline: func(*profiles.Request, []byte) ([]byte, error) { return []byte("done"), nil }}
	calls, err := rpc.New(rpc.Options{Policy: h, Methods: map[string]rpc.Method{"vector.done": done, "vector.bare": done}})
	if err != nil {
		return nil, err
	}
	return []*profiles.Profile{witnessed(s, h.Profile()), witnessed(s, calls)}, nil
}

// buildHintedHop sets an endpoint between two connections: calls of vector.held
// that come on "a" are made on "b", their hints ahead of them.
func buildHintedHop(s *stage) error {
	h := &hintedHop{hop: hop{s: s}}
	hints := s.hints()
	calls, err := rpc.New(rpc.Options{Policy: hints, Methods: map[string]rpc.Method{"vector.held": {Held: h.call}}})
	if err != nil {
		return err
	}
	w := witnessed(s, calls)
	w.Handler = h.before(w.Handler)
	ep, err := s.endpoint([]*profiles.Profile{witnessed(s, hints.Profile()), w})
	if err != nil {
		return err
	}
	if h.next, err = s.pipe(ep, "b"); err != nil {
		return err
	}
	_, err = s.pipe(ep, "a")
	return err
}

// hintedHop passes calls on. It waits until their hints are taken, which is not
// for the read loop.
type hintedHop struct{ hop }

func (h *hintedHop) call(p *rpc.Pending, params []byte) error {
	lane, err := h.next.Open(p.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan struct{})
	h.s.onClose(func() { cancel(); <-done })
	on := &hintedLane{Lane: lane, s: h.s, written: h.rpcID}
	params = append([]byte{}, params...)
	go func() {
		defer close(done)
		stream, err := rpc.Open(ctx, on, "vector.held", params)
		if err != nil {
			p.Fail(err)
			return
		}
		defer stream.Close()
		h.receive(ctx, p, stream)
	}()
	return nil
}

// hintedLane is where the call goes on: its hints go ahead of it.
type hintedLane struct {
	profiles.Lane
	s       *stage
	written []byte // rpc_id of the call as the script has it
}

func (o *hintedLane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	var req rpc.Req
	if err := req.Decode(env.Payload); err != nil {
		return nil, err
	}
	o.s.alias("b", o.written, req.RPCID)
	o.s.alias("b", hex.AppendEncode(nil, o.written), hex.AppendEncode(nil, req.RPCID)) // as scopes have it
	on := profiles.Onward{Name: string(req.Method), Scope: profiles.ScopeRPC, ID: req.RPCID}
	ctx, err := new(policyhint.Hints).Forward(ctx, o.Lane, &on)
	if err != nil {
		return nil, err
	}
	return o.Lane.Call(ctx, env)
}
