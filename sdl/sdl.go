// Package sdl is the envelope of A2A-SDL v1: a JSON object with the sender, the receiver,
// the content and its schema, the security and the trace. The package reads and checks
// envelopes in the order that the specification requires, and writes answers.
//
// It has no keys and no transport. Everything in it is safe for concurrent use; values
// never change. Sections (§) are those of the specification of A2A-SDL.
package sdl

import "slices"

// Version is the major version of the protocol.
const Version = 1

// Types of messages.
const (
	TypeReq = "req" // is answered
	TypeRes = "res" // answers
	TypeEvt = "evt" // never answered
)

// Content types.
const (
	CTArtifact    = "artifact.v1"
	CTError       = "error.v1"
	CTNegotiation = "negotiation.v1"
	CTSession     = "session.v1"
	CTState       = "state.v1"
	CTTask        = "task.v1"
	CTToolCall    = "toolcall.v1"
	CTToolResult  = "toolresult.v1"
	CTTrustSync   = "trustsync.v1"
)

// Security modes.
const (
	ModeEnc    = "enc"
	ModeEncSig = "enc+sig"
	ModeNone   = "none"
	ModeSig    = "sig"
)

// Algorithms.
const (
	AlgEd25519 = "ed25519"
	AlgX25519  = "x25519-chacha20poly1305"
)

var (
	contentTypes = []string{CTArtifact, CTError, CTNegotiation, CTSession, CTState, CTTask, CTToolCall, CTToolResult, CTTrustSync}
	modes        = []string{ModeEnc, ModeEncSig, ModeNone, ModeSig}
)

// ContentTypes returns the nine content types, sorted.
func ContentTypes() []string { return slices.Clone(contentTypes) }

// IsContentType reports whether ct is one of the nine.
func IsContentType(ct string) bool { return slices.Contains(contentTypes, ct) }
