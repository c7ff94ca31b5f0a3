package sdl

import (
	"slices"
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// Sec is the security that an envelope claims. Nothing in it is verified.
type Sec struct {
	Present bool   // there is a member sec
	Mode    string // ModeNone if there is none
	Kid     string // "" if it is absent or not a string
	Replay  *Replay

	// Value is the member itself: an object, or null.
	Value canonical.Value
}

// Signed reports whether the mode demands a signature.
func (s Sec) Signed() bool { return s.Mode == ModeSig || s.Mode == ModeEncSig }

// Encrypted reports whether the mode demands a payload that is encrypted.
func (s Sec) Encrypted() bool { return s.Mode == ModeEnc || s.Mode == ModeEncSig }

// Replay is sec.replay: a nonce that the sender uses once, and its expiry.
type Replay struct {
	Nonce string // not empty
	Exp   time.Time
}

// sec reads the member of an envelope and checks its structure, in the order of §6.2.
func sec(v, payload canonical.Value) (s Sec, refused *Error) {
	if v.IsNull() {
		return Sec{Mode: ModeNone}, nil
	}
	if v.Kind() != canonical.KindObject {
		return s, bad("sec", "is %v, want an object", v.Kind())
	}
	s.Present, s.Value = true, v
	s.Mode, _ = v.Get("mode").Text()
	s.Kid, _ = v.Get("kid").Text()
	if !slices.Contains(modes, s.Mode) {
		return s, badSec("sec.mode", "is none of %v", modes)
	}
	if s.Signed() && !hasSignature(v.Get("sig")) {
		return s, badSec("sec.sig", "is missing, of another algorithm or without a value")
	}
	if s.Encrypted() && !hasCiphertext(v.Get("enc")) {
		return s, badSec("sec.enc", "is missing, of another algorithm or incomplete")
	}
	if s.Replay, refused = replay(v); refused != nil {
		return s, refused
	}
	if s.Encrypted() && !payload.IsNull() {
		return s, Insecure(false, "a payload in clear beside an encrypted one")
	}
	return s, nil
}

func hasSignature(sig canonical.Value) bool {
	alg, _ := sig.Get("alg").Text()
	_, ok := sig.Get("value").Text()
	return alg == AlgEd25519 && ok
}

func hasCiphertext(enc canonical.Value) bool {
	alg, _ := enc.Get("alg").Text()
	_, nonce := enc.Get("nonce").Text()
	_, ciphertext := enc.Get("ciphertext").Text()
	return alg == AlgX25519 && enc.Get("recipients").Kind() == canonical.KindArray && nonce && ciphertext
}

// replay reads sec.replay; nil if there is none.
func replay(sec canonical.Value) (*Replay, *Error) {
	v := sec.Get("replay")
	if !sec.Has("replay") {
		return nil, nil
	}
	nonce, ok := filled(v.Get("nonce"))
	if !ok {
		return nil, bad("sec.replay.nonce", "is no text or empty")
	}
	text, _ := v.Get("exp").Text()
	exp, ok := ParseTime(text)
	if !ok {
		return nil, bad("sec.replay.exp", "is no timestamp")
	}
	return &Replay{nonce, exp}, nil
}
