package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport/endpoint"
)

// onlyHints lets peers set hints and do nothing else.
type onlyHints struct{}

func (onlyHints) Allowed(_, profile, _, _ string) bool { return profile == policyhint.Name }

// TestARefusalIsExplainedByThePeerNotByTheEndOfTheSession has the peer refuse an
// operation of each profile that has a message for that, and then end the session
// because it has refused too much.
func TestARefusalIsExplainedByThePeerNotByTheEndOfTheSession(t *testing.T) {
	const identity = "spiffe://test.example/refuser"
	returned := make(chan *profiles.PeerError, 1)
	s := newStage(t, "quic")
	_, address := s.serveAll(
		endpoint.Options{Bounds: endpoint.Bounds{ErrorBudget: 64}, Identity: func() string { return identity }, Observer: endpoint.Discard},
		all.Options{Access: onlyHints{}})
	set, err := NewSLIP(SLIPOptions{Refused: func(_ []byte, err *profiles.PeerError) { returned <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	s.opts.Profiles = set
	c, err := Dial(t.Context(), address, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lane, err := c.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lane.Close() }()

	// hint sets a hint: one that the peer cannot take as such, or not as a MUST.
	hint := func(scope string) error {
		return policyhint.Put(ctx, c.Session, profiles.Hint{Key: "no_such_key", Value: "x", Mode: profiles.Must, Scope: scope})
	}
	refused := func(_ any, err error) error { return err }
	said := map[string]error{
		agdisc.Name:     refused(agdisc.Ask(ctx, c.Session, "agent", "")),
		tooldisc.Name:   refused(tooldisc.Find(ctx, c.Session, "server/tool", "")),
		"rpc":           refused(rpc.Call(ctx, c.Session, "method", nil)),
		events.Name:     refused(events.Open(ctx, c.Session, events.SubscribeOptions{Filter: "no filter"})),
		artifact.Name:   artifact.Upload{ArtifactID: "a", Octets: strings.NewReader(""), Hash: sha256.Sum256(nil), Sync: rpc.Sync}.Send(ctx, c.Session),
		cred.Name:       cred.Show(ctx, lane, rpc.Sync, cred.Opaque, []byte("octets"), nil),
		policyhint.Name: hint("no scope"),
		"a violation":   hint(""),
		state.Name:      refused(state.Fetch(ctx, c.Session, state.IDOf([]byte("none")))),
		obs.Name:        refusedTrace(obs.Last(ctx, c.Session)),
		relay.Name:      refused(relay.Send(ctx, c.Session, &relay.Publication{ID: []byte("1"), Topic: "t"})),
	}
	if _, err := c.SendSLIP(ctx, SLIPMessage{Text: "@1 1>2 0 QUE"}); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-returned:
		said[slip.Name] = e
	case <-ctx.Done():
		t.Fatal("the message of SLIP was not refused")
	}

	for c.Session.Context().Err() == nil {
		_ = obs.Send(ctx, c.Session, profiles.Trace{}, obs.IDs{})
	}
	full := c.Explain(errors.New("no answer")).Error()
	if !strings.Contains(full, "is full") {
		t.Fatalf("an error of this side is explained by %q, want the end of the connection", full)
	}
	for profile, err := range said {
		if err == nil {
			t.Errorf("%s: nothing was refused", profile)
			continue
		}
		got := c.Explain(err)
		if !errors.Is(got, err) || !strings.Contains(got.Error(), plain.Error(err)) || strings.Contains(got.Error(), "is full") {
			t.Errorf("%s: %q is explained by %q, want what the peer said", profile, err, got)
		}
		if got := got.Error(); plain.Text(got) != got {
			t.Errorf("%s: %q names a package", profile, got)
		}
		switch profile {
		case agdisc.Name, tooldisc.Name, events.Name, artifact.Name, cred.Name, policyhint.Name, state.Name, relay.Name, slip.Name:
			var peer *profiles.PeerError
			if !errors.As(got, &peer) || peer.Profile != profile || peer.Code == "" || peer.Endpoint != identity {
				t.Errorf("%s: %#v, want an error message of the profile, written by %s", profile, peer, identity)
			}
		}
	}
}

func refusedTrace(_ profiles.Trace, _ obs.IDs, err error) error { return err }
