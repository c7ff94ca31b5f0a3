package endpointtest

import (
	"context"
	"slices"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// Reaction is how a peer refuses a message of a profile that it does not serve.
type Reaction string

// The reactions. The first three end the connection over TLS.
const (
	CloseNotify = Reaction(transporttest.CloseNotify)
	FIN         = Reaction(transporttest.FIN)
	RST         = Reaction(transporttest.RST)
	Silence     = Reaction("silence")
	ErrorFrame  = Reaction("error frame")
	QUICReset   = Reaction("QUIC reset")
)

// Reactions returns all.
func Reactions() []Reaction {
	return []Reaction{CloseNotify, FIN, RST, Silence, ErrorFrame, QUICReset}
}

// Ends reports whether the peer ends the connection.
func (r Reaction) Ends() bool { return slices.Contains([]Reaction{CloseNotify, FIN, RST}, r) }

// Pair returns the ends of a connection in memory, for virtual time, over which the far end can refuse in this way.
func (r Reaction) Pair(t testing.TB, ca *transporttest.CA) (near, far transport.Conn) {
	t.Helper()
	if r.Ends() {
		return transporttest.Ending(r).Pair(t, ca)
	}
	return transport.NewPipe(transport.PipeOptions{A: transporttest.Client, B: transporttest.Server, Multiplexed: r == QUICReset})
}

// Serves returns the profiles with some ids of a registry for such a peer. With Silence, a mute profile takes the
// place of asked where the peer does not serve it.
func (r Reaction) Serves(t testing.TB, registry *profiles.Registry, asked uint64, ids []uint64) (list []*profiles.Profile) {
	t.Helper()
	of := func(id uint64) *profiles.Profile {
		p, ok := registry.Lookup(id)
		if !ok {
			t.Fatalf("there is no profile %d", id)
		}
		return p
	}
	for _, id := range ids {
		list = append(list, of(id))
	}
	if r == Silence && !slices.Contains(ids, asked) {
		list = append(list, mute(of(asked)))
	}
	return list
}

// mute returns the initiating types of a profile, with no answers to them.
func mute(p *profiles.Profile) *profiles.Profile {
	silent := &profiles.Profile{
		ID: p.ID, Name: p.Name, Refusal: profiles.Silent,
		Handler: profiles.HandlerFunc(func(context.Context, *profiles.Request, profiles.Responder) error { return nil }),
	}
	for _, one := range p.Types {
		if one.Role&profiles.Initiating != 0 {
			silent.Types = append(silent.Types, profiles.Type{ID: one.ID, Name: one.Name, Role: profiles.Initiating})
		}
	}
	return silent
}
