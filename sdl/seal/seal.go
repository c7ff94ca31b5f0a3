// Package seal signs and encrypts envelopes of A2A-SDL.
//
// A signature is Ed25519 over the whole envelope in canonical CBOR or canonical JSON. The
// envelope does not say which, so Verify accepts either. An encrypted payload is
// ChaCha20-Poly1305 under a new key, which is wrapped for each recipient with X25519 and
// HKDF. The sender encrypts first and signs last; the receiver verifies first and decrypts
// last.
//
// Envelopes never change: signing or encrypting returns a new one that shares the unchanged
// parts. Everything here is safe for concurrent use.
//
// Specification: A2A-SDL §6.1 and §6.3 to §6.5.
package seal

import (
	"github.com/slimwire/swp/sdl/canonical"
)

// The values of sec.mode (§1).
const (
	None   = "none"
	Sig    = "sig"
	Enc    = "enc"
	EncSig = "enc+sig"
)

// The algorithms, one of each.
const (
	Ed25519 = "ed25519"                 // sec.sig.alg
	X25519  = "x25519-chacha20poly1305" // sec.enc.alg
)

// Mode returns sec.mode of an envelope, ModeNone without sec.
func Mode(envelope canonical.Value) string {
	sec := envelope.Get("sec")
	if sec.IsNull() {
		return None
	}
	mode, _ := sec.Get("mode").Text()
	return mode
}
