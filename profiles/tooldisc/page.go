package tooldisc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// MaxPage is the largest number of tools in a page, and the default.
const MaxPage = 100

// pageOctets bounds the descriptors of a page, unless a single one is larger.
const pageOctets = 4 << 20

// DetailPageToken is the detail of the error for a page_token that this process did not
// issue for this peer and this filter.
const DetailPageToken = "page_token"

var errToken = &profiles.Error{
	Code: profiles.InvalidProfilePayload, Detail: DetailPageToken,
	Text: "tooldisc: page_token is none of this listing; begin again without one",
}

// page returns a page of a listing for an identity. A tool that exists and is visible from
// the first page to the last is listed exactly once. A tool that is added or removed in
// between may be missing, but is never listed twice.
//
// stale is how many milliseconds a partner with tools on the page has been unreachable.
func (s *Service) page(identity string, in *ListReq) (out *ListResp, stale uint64, err error) {
	filter := strings.ToLower(strings.TrimSpace(string(in.Filter)))
	rest := s.catalogue.Load().entries
	if len(in.PageToken) > 0 {
		id, version, ok := s.tokens.open(string(in.PageToken), identity, filter)
		if !ok {
			return nil, 0, errToken
		}
		rest = s.catalogue.Load().after(id, version)
	}
	size := int(min(in.PageSize, MaxPage))
	if size == 0 {
		size = MaxPage
	}
	out = new(ListResp)
	partners := make(map[string]bool)
	var last *entry
	octets := 0
	for _, e := range rest {
		if !e.matches(filter) || !s.sees(identity, e) || s.withheld(e) {
			continue
		}
		d := e.descriptor()
		if octets += d.size(); len(out.Tools) == size || last != nil && octets > pageOctets {
			out.NextPageToken = []byte(s.tokens.seal(last.ID, last.Version, identity, filter))
			break
		}
		out.Tools, last = append(out.Tools, d), e
		if e.partner != "" {
			partners[e.partner] = true
		}
	}
	return out, s.stale(partners), nil
}

// tokens issues and verifies page_tokens: the last tool of a page, with an HMAC that binds
// it to this process, the identity and the filter. The key lives as long as the process.
type tokens struct{ key [32]byte }

const proofSize = 16

func (t *tokens) seal(id, version, identity, filter string) string {
	place := append(binary.AppendUvarint(nil, uint64(len(id))), id...)
	place = append(place, version...)
	return base64.RawURLEncoding.EncodeToString(append(t.proof(place, identity, filter), place...))
}

func (t *tokens) open(token, identity, filter string) (id, version string, ok bool) {
	octets, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(octets) < proofSize {
		return "", "", false
	}
	place := octets[proofSize:]
	if !hmac.Equal(octets[:proofSize], t.proof(place, identity, filter)) {
		return "", "", false
	}
	n, size := binary.Uvarint(place) // written by seal, because the proof is valid
	return string(place[size : size+int(n)]), string(place[size+int(n):]), true
}

// proof returns the first octets of an HMAC over all parts, each preceded by its length.
func (t *tokens) proof(place []byte, identity, filter string) []byte {
	mac := hmac.New(sha256.New, t.key[:])
	for _, part := range []string{string(place), identity, filter} {
		write(mac, part)
	}
	return mac.Sum(nil)[:proofSize:proofSize]
}

func write(mac hash.Hash, part string) {
	_, _ = mac.Write(binary.AppendUvarint(nil, uint64(len(part)))) // never fails
	_, _ = mac.Write([]byte(part))
}
