// Package seal signs and encrypts envelopes of A2A-SDL.
//
// A signature is Ed25519 over the whole envelope in canonical CBOR or canonical JSON;
// nothing in the envelope says which, so Verify takes either. An encrypted payload is
// ChaCha20-Poly1305 under a fresh key, which is wrapped for each recipient by X25519
// and HKDF. For both, the sender encrypts first and signs last; the receiver verifies
// first and decrypts last.
//
// Envelopes are never changed: what signs or encrypts returns another that shares what
// stayed. Everything here may be called by many at once.
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

// Mode returns sec.mode of an envelope. One without sec has none.
func Mode(envelope canonical.Value) string {
	sec := envelope.Get("sec")
	if sec.IsNull() {
		return None
	}
	mode, _ := sec.Get("mode").Text()
	return mode
}
