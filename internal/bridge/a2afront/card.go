package a2afront

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

// card serves the card of an agent with the interfaces of this front in place of those
// that the agent has elsewhere, which its callers cannot reach, and so without the
// signatures, which are of the original (R11).
func (f *Front) card(w http.ResponseWriter, r *http.Request, link Link, at *place) {
	card, ok := f.lookUp(w, r, link, at)
	if !ok {
		return
	}
	if f.terms.Load().Verbatim {
		f.writeCard(w, r, &card, card.Payload)
		return
	}
	octets, err := f.rewrite(card.Payload, f.base(r, at.agent))
	if err != nil {
		f.writeStatus(w, http.StatusBadGateway, "UNAVAILABLE", "the card of the agent is no JSON object; its octets are at agent-card.original.json")
		return
	}
	w.Header().Add("Vary", "Host")
	f.writeCard(w, r, &card, octets)
}

// original serves the card as its author wrote it.
func (f *Front) original(w http.ResponseWriter, r *http.Request, link Link, at *place) {
	if card, ok := f.lookUp(w, r, link, at); ok {
		f.writeCard(w, r, &card, card.Payload)
	}
}

// lookUp returns the card, or answers the request with the reason why there is none.
func (f *Front) lookUp(w http.ResponseWriter, r *http.Request, link Link, at *place) (agdisc.Card, bool) {
	card, err := link.Card(r.Context(), at.agent)
	if err == nil {
		return card, true
	}
	if errors.As(err, new(*profiles.PeerError)) {
		f.writeStatus(w, http.StatusNotFound, "NOT_FOUND", "there is no card of that agent")
		return card, false
	}
	if errors.As(err, new(*profiles.Error)) {
		f.writeStatus(w, http.StatusServiceUnavailable, "UNAVAILABLE", "the card of the agent cannot be had now")
		return card, false
	}
	f.writeStatus(w, http.StatusServiceUnavailable, "UNAVAILABLE", "the endpoint of the agent is not reached")
	return card, false
}

// Origin returns the scheme, host and port by which the client of a request reaches the server:
// url, or the ones in the request if url is empty.
func Origin(r *http.Request, url string) string {
	switch {
	case url != "":
		return strings.TrimSuffix(url, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// base is where clients find an agent at this front.
func (f *Front) base(r *http.Request, agent string) string {
	path := Path
	for name := range strings.SplitSeq(agent, "/") {
		path += "/" + url.PathEscape(name)
	}
	return Origin(r, f.terms.Load().URL) + path
}

// rewrite returns a card with the interfaces of this front. Its other members keep
// their octets and their order.
func (f *Front) rewrite(card []byte, base string) ([]byte, error) {
	at, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("a2afront: %w", err)
	}
	interfaces := fmt.Appendf(nil, `[{"url":%s,"protocolBinding":"JSONRPC","protocolVersion":%q},{"url":%s,"protocolBinding":"HTTP+JSON","protocolVersion":%q}]`,
		at, a2abinding.Version, at, a2abinding.Version)
	return replaced(card, change{"signatures", nil}, change{"supportedInterfaces", interfaces})
}

// writeCard answers with a card, or that it has not changed.
func (f *Front) writeCard(w http.ResponseWriter, r *http.Request, card *agdisc.Card, octets []byte) {
	f.bound(w)
	sum := sha256.Sum256(octets)
	etag := `"` + hex.EncodeToString(sum[:16]) + `"`
	h := w.Header()
	h.Set("ETag", etag)
	h.Set("Cache-Control", "private, no-cache")
	if age := card.MaxAge / time.Second; age > 0 {
		h.Set("Cache-Control", "private, max-age="+strconv.Itoa(int(age)))
	}
	if matches(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(octets)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(octets) // or the client is gone
	}
}

// matches reports whether an If-None-Match contains the entity tag of the card, by weak
// comparison.
func matches(lines []string, etag string) bool {
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// change is what a member of an object is to be; without a value it is to be gone.
type change struct {
	name  string
	value []byte
}

var errObject = errors.New("a2afront: not a JSON object")

// replaced returns a JSON object after changes. The other members keep their octets
// and their order; white space between them may be lost.
func replaced(object []byte, changes ...change) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') || !isValue(object) {
		return nil, errObject
	}
	var members [][]byte
	for dec.More() {
		from := dec.InputOffset()
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return nil, errObject
		}
		if !slices.ContainsFunc(changes, func(c change) bool { return c.name == name }) {
			members = append(members, bytes.TrimLeft(object[from:dec.InputOffset()], ", \t\r\n"))
		}
	}
	for _, c := range changes {
		if c.value != nil {
			members = append(members, append([]byte(`"`+c.name+`":`), c.value...))
		}
	}
	return slices.Concat([]byte{'{'}, bytes.Join(members, []byte{','}), []byte{'}'}), nil
}
