// Package sdlaudit stores the audit chain of A2A-SDL: an entry for each request that was
// answered, linked to the entry before it by its hash. The receipt of the entry goes to the
// caller in trace.audit of the answer.
//
// A chain is one file. Each line is an entry in canonical JSON:
//
//	{"entry_hash":…,"event":{…},"prev_hash":…,"sig":{…},"ts":…}
//
// entry_hash is the SHA-256 of the canonical JSON of ts, event and prev_hash; prev_hash is
// the entry_hash of the line before, null in the first. sig is an Ed25519 signature over the
// entry without sig, if the endpoint has a key. Verify finds a line that was changed, removed,
// added or moved, except the removal of lines at the end, which their receipts can prove.
//
// Specification: A2A-SDL §12.
package sdlaudit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// Signer signs entries. Without a Key they are not signed.
type Signer struct {
	Key ed25519.PrivateKey
	Kid string // may be empty
}

// hashOf returns the entry_hash for the hashed part of an entry.
func hashOf(head canonical.Value) string {
	sum := sha256.Sum256(head.AppendJSON(nil))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// newEntry returns the entry after the one with the hash prev, which is null for the first.
func newEntry(ts string, event, prev canonical.Value, by Signer) canonical.Value {
	v := canonical.Object(
		canonical.Member{Name: "ts", Value: canonical.String(ts)},
		canonical.Member{Name: "event", Value: event},
		canonical.Member{Name: "prev_hash", Value: prev},
	)
	v = v.With("entry_hash", canonical.String(hashOf(v)))
	if by.Key == nil {
		return v
	}
	sig := canonical.Object(
		canonical.Member{Name: "alg", Value: canonical.String(sdl.AlgEd25519)},
		canonical.Member{Name: "value", Value: canonical.String(seal.SignDetached(v, by.Key))},
	)
	if by.Kid != "" {
		sig = sig.With("kid", canonical.String(by.Kid))
	}
	return v.With("sig", sig)
}

// receiptOf returns what an answer says of its entry.
func receiptOf(entry canonical.Value) canonical.Value { return entry.Without("ts").Without("event") }

// Longest returns a receipt that is as long as that of any entry with a signer.
func Longest(by Signer) canonical.Value {
	none := hashOf(canonical.Value{})
	return receiptOf(newEntry("", canonical.Value{}, canonical.String(none), by))
}

var errEnd = errors.New("the line feed behind the entry is damaged")

// damagedEnd reports whether text behind the last line feed is a whole entry without one. A kill
// during a write leaves part of an entry, or an entry and nothing or zeros.
func damagedEnd(text []byte) bool {
	in := json.NewDecoder(bytes.NewReader(text))
	if in.Decode(new(json.RawMessage)) != nil {
		return false
	}
	at := in.InputOffset()
	_, err := parse(text[:at])
	return err == nil && at < int64(len(text)) && text[at] != 0
}

// parse reads a line without its line feed. It checks the form of the entry and its hash.
func parse(line []byte) (entry canonical.Value, err error) {
	v, err := canonical.ParseJSON(line)
	if err != nil {
		return v, fmt.Errorf("no entry: %w", err)
	}
	if !bytes.Equal(v.AppendJSON(nil), line) {
		return v, errors.New("not in canonical form")
	}
	head := canonical.Object()
	for name, m := range v.Members() {
		switch name {
		case "ts", "event", "prev_hash":
			head = head.With(name, m)
		case "entry_hash", "sig":
		default:
			return v, fmt.Errorf("no entry: member %.100q", name)
		}
	}
	hash, ok := v.Get("entry_hash").Text()
	switch {
	case !ok || head.Len() != 3:
		return v, errors.New("no entry: a member is missing")
	case hash != hashOf(head):
		return v, errors.New("not what was written: entry_hash differs")
	}
	return v, nil
}
