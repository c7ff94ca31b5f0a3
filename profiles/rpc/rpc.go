// Package rpc is the RPC profile: calls of named methods with one result, one
// error, or a stream of items before either.
//
//	REQ → RESP | ERR
//	REQ → STREAM_ITEM* → RESP | ERR
//	CANCEL ends the call of an rpc_id early, with ERR cancelled
//
// New builds the serving side from a table of methods. Call and Open are the
// calling side. An rpc_id belongs to the connection it came on: nobody else can
// cancel it, collide with it or learn that it exists.
//
// The built-in methods are swp.ping (alive), swp.echo (params come back),
// swp.info (what this endpoint offers) and swp.sync (answered once all earlier
// frames of the stream are processed and what they had to commit is committed).
//
// Idempotency keys are not kept yet, so a request that carries one is served
// only if its method is Repeatable; otherwise it is refused, because to run it
// might be to run it twice.
//
// Specification: SWP profiles §12.
package rpc

import (
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of RPC.
const ProfileID = 12

// Options configure the serving side. The zero value serves the built-in
// methods but swp.info.
type Options struct {
	// Methods are served beside the built-in ones, by name. Names that begin
	// with "swp." are for methods of this project. A name can not be taken twice.
	Methods map[string]Method

	// Info says what swp.info tells a peer. It is called on the read loop and
	// must not block. Nil means the method is not served.
	Info func(peer *profiles.Peer) Info
}

// New returns the profile. It fails on a method without exactly one function
// and on one that is named like a built-in.
func New(opts Options) (*profiles.Profile, error) {
	s := &service{methods: builtin(opts.Info), live: newTable()}
	for name, m := range opts.Methods {
		if _, taken := s.methods[name]; taken {
			return nil, fmt.Errorf("rpc: method %q is built in", name)
		}
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("rpc: method %q: %w", name, err)
		}
		s.methods[name] = m
	}
	return &profiles.Profile{
		ID:   ProfileID,
		Name: "rpc",
		Types: []profiles.Type{
			{ID: TypeReq, Name: "RPC_REQ", Role: profiles.Initiating},
			{ID: TypeResp, Name: "RPC_RESP", Role: profiles.Answer},
			{ID: TypeErr, Name: "RPC_ERR", Role: profiles.Answer},
			{ID: TypeStreamItem, Name: "RPC_STREAM_ITEM", Role: profiles.Answer},
			{ID: TypeCancel, Name: "RPC_CANCEL", Role: profiles.Initiating},
		},
		Handler:   s,
		Check:     check,
		Lifecycle: lifecycle,
		Refusal:   refusal,
	}, nil
}

// lifecycle returns the rpc_id, which is the first field of every message.
func lifecycle(env *e1.Envelope) []byte {
	body, err := p1.Body(env.Payload, env.MsgType, members)
	if err != nil {
		return nil
	}
	var id []byte
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Bytes(&id)
		}
	}
	if f.Err() != nil {
		return nil
	}
	return id
}
