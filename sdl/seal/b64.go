package seal

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// b64 refuses padding and stray bits; DecodeB64 refuses line breaks as well.
var b64 = base64.RawURLEncoding.Strict()

// EncodeB64 returns octets as base64url without padding.
func EncodeB64(octets []byte) string { return b64.EncodeToString(octets) }

// DecodeB64 reads base64url without padding and without any other character. Unused bits of
// the last character must be zero. So each sequence of octets has exactly one text, and a
// signature one form (§6.3).
func DecodeB64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("seal: base64url: line break within the text")
	}
	octets, err := b64.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("seal: base64url: %w", err)
	}
	return octets, nil
}

// decodeB64 reads exactly n octets.
func decodeB64(what, text string, n int) ([]byte, error) {
	if len(text) != b64.EncodedLen(n) {
		return nil, fmt.Errorf("seal: %s: %d characters, want %d", what, len(text), b64.EncodedLen(n))
	}
	octets, err := DecodeB64(text)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, what)
	}
	return octets, nil
}
