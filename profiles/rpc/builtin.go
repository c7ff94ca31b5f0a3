package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Names of the built-in methods.
const (
	MethodPing = "swp.ping" // no params, empty result
	MethodEcho = "swp.echo" // the result is the params
	MethodInfo = "swp.info" // no params, the result is an Info as JSON
	MethodSync = "swp.sync" // params: none, or msg_ids, each behind its length as a uvarint; empty result

	// MethodReceipt exchanges receipts between partners (docs/wire.md). It is only called at
	// a partner that lists it in its Info.
	MethodReceipt = "swp.audit.receipt"
)

// Info is the offer of an endpoint to a peer.
type Info struct {
	// Version of the software.
	Version string `json:"version"`

	// Conformance lists the conformance classes that the software claims, such as "SWP C5".
	Conformance []string `json:"conformance,omitempty"`

	// Profiles that are served, with their message types.
	Profiles []ProfileInfo `json:"profiles"`

	// Extensions that are supported or sent, by profile_id. Profile 0 means any profile.
	Extensions map[uint64][]uint64 `json:"extensions"`

	// Targets that the peer may name, such as MCP servers.
	Targets []string `json:"targets"`

	// Methods that the peer may call: for a federation partner optional built-in ones such as
	// swp.audit.receipt, and those that are not built in.
	Methods []string `json:"methods,omitempty"`

	// Partner says that the peer is a federation partner here: a session with it carries
	// forwarded messages of both ends.
	Partner bool `json:"partner,omitempty"`

	// Partners are the names of the federation partners here on whose objects the rules let
	// the peer act.
	Partners []string `json:"partners,omitempty"`

	// KnownAs is how those of Partners that distinguish callers know the peer, by partner: its identity or a
	// pseudonym.
	KnownAs map[string]string `json:"known_as,omitempty"`

	// IdleMillis is the idle timeout of a connection in milliseconds, without a message and
	// with nothing in flight. 0 means unknown.
	IdleMillis int64 `json:"idle_ms,omitempty"`

	// Limits bound the messages that it accepts. Nil means unknown.
	Limits *profiles.Limits `json:"limits,omitempty"`
}

// Idle returns IdleMillis as a duration, capped at the largest useful value.
func (i *Info) Idle() time.Duration {
	return time.Duration(min(i.IdleMillis, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// Offer returns what it says of profiles and extensions.
func (i *Info) Offer() profiles.Offer {
	o := profiles.Offer{Extensions: i.Extensions}
	for _, p := range i.Profiles {
		o.Profiles = append(o.Profiles, p.ID)
	}
	if i.Limits != nil {
		o.Limits = *i.Limits
	}
	return o
}

// Acquaint asks the peer of a session what it serves, if it serves this profile, and notes
// it. It reports whether the peer has answered. It is for endpoint.Options.Ask.
func Acquaint(ctx context.Context, s profiles.Session) (answered bool) {
	if !profiles.Serves(s, ProfileID) {
		return false
	}
	var info Info
	if err := CallJSON(ctx, s, MethodInfo, nil, &info); err != nil {
		return errors.As(err, new(*Error))
	}
	profiles.Learn(s, info.Offer())
	return true
}

// ProfileInfo is one profile of an Info.
type ProfileInfo struct {
	ID    uint64   `json:"id"`
	Types []uint64 `json:"types"`
}

func builtin(opts *Options) map[string]Method {
	empty := func(*profiles.Request, []byte) ([]byte, error) { return nil, nil }
	m := map[string]Method{
		MethodPing: {Repeatable: true, always: true, Inline: empty},
		MethodEcho: {Repeatable: true, Inline: func(_ *profiles.Request, params []byte) ([]byte, error) { return params, nil }},
		// The loop handles frames in order, so the handlers of all earlier ones have
		// returned, but their deferred messages may still be open.
		MethodSync: {Repeatable: true, always: true, local: true, Held: func(p *Pending, params []byte) error {
			of, err := readIDs(params)
			if err != nil {
				return err
			}
			p.After(func() { _ = p.Return(nil) }, of...) // fails if the caller has disconnected
			return nil
		}},
	}
	if info := opts.Info; info != nil {
		m[MethodInfo] = Method{Repeatable: true, Inline: func(req *profiles.Request, _ []byte) ([]byte, error) {
			return json.Marshal(info(req.Session))
		}}
	}
	if receipt := opts.Receipt; receipt != nil {
		m[MethodReceipt] = Method{always: true, local: true, Detached: func(ctx context.Context, req *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
			return receipt(ctx, req.Session.Peer(), params)
		}}
	}
	return m
}

// MaxSync is how many messages a call of swp.sync may name.
const MaxSync = 1024

// readIDs reads the msg_ids in the params of swp.sync. They alias params.
func readIDs(params []byte) (ids [][]byte, err error) {
	for len(params) > 0 {
		n, size, err := e1.Uvarint(params)
		if err != nil || n == 0 || n > uint64(len(params)-size) || len(ids) == MaxSync {
			return nil, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("params of swp.sync: want msg_ids, each behind its length, at most %d", MaxSync)}
		}
		ids = append(ids, params[size:size+int(n)])
		params = params[size+int(n):]
	}
	return ids, nil
}
