package artifact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/slimwire/swp/profiles"
)

// A resume_token is a position in an artifact and a MAC over it, the artifact_id and the
// digest of the artifact. It is valid for that position of that artifact, as long as the
// artifact does not change.
const (
	tokenFormat = 1
	tokenMAC    = 16 // octets
	tokenSize   = 1 + 8 + tokenMAC
)

// MaxToken is how many octets a resume_token has at most.
const MaxToken = 1024

var tokenText = base64.RawURLEncoding

// appendToken appends a token to dst, as text.
func (s *Service) appendToken(dst, id []byte, t *tag, at uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{tokenFormat}, at)
	b = append(b, s.tokenMAC(id, t, b)...)
	return tokenText.AppendEncode(dst, b)
}

func (s *Service) tokenMAC(id []byte, t *tag, place []byte) []byte {
	h := hmac.New(sha256.New, s.opts.TokenKey)
	_, _ = h.Write([]byte("swp.artifact.resume"))
	_, _ = h.Write(place)
	_, _ = h.Write(t.sum[:])
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, t.size))
	_, _ = h.Write(id)
	return h.Sum(nil)[:tokenMAC]
}

var errToken = with(DetailToken, refuse(CodeInvalidToken, "resume_token is not one of this artifact as it is"))

// readToken returns the position in a token.
func (s *Service) readToken(token, id []byte, t *tag) (at uint64, err error) {
	if len(token) != tokenText.EncodedLen(tokenSize) {
		return 0, errToken
	}
	var b [tokenSize]byte
	// Strict, so that each token has one spelling.
	if _, err := tokenText.Strict().Decode(b[:], token); err != nil || b[0] != tokenFormat {
		return 0, errToken
	}
	place, mac := b[:tokenSize-tokenMAC], b[tokenSize-tokenMAC:]
	if !hmac.Equal(mac, s.tokenMAC(id, t, place)) {
		return 0, errToken
	}
	at = binary.BigEndian.Uint64(place[1:])
	if at > t.size {
		return 0, &profiles.Error{Code: profiles.Internal, Detail: DetailToken, Text: "internal error"} // the token was made here
	}
	return at, nil
}
