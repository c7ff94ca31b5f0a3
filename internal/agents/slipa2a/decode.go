package slipa2a

import (
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Kind is the form of a message.
type Kind int

// Kinds of messages.
const (
	Ordinary Kind = iota // not marked with the extension: any A2A message
	SLIP                 // the first text part is SLIP
	Plain                // SLIP with other anchors, which is treated as plain text
)

// UCR compares the anchors of the sender with the anchors of this side.
type UCR string

// Values of Received.UCR.
const (
	Unknown UCR = "unknown" // not stated in the message
	Match   UCR = "match"
	Differs UCR = "differs"
)

// Received is a decoded message.
type Received struct {
	Kind Kind

	// Message is the parsed text of a SLIP message.
	Message *slipstream.Message

	// Text is the first text part, unchanged, of a SLIP or Plain message.
	Text string

	// UCR says whether the sender uses the same anchors. Empty for Ordinary.
	UCR UCR

	// Confidence is from 0 to 1; nil if missing or of another value.
	Confidence *float64

	// Attachments are all other parts, in order. They share memory with the message. Empty
	// for Ordinary.
	Attachments []json.RawMessage
}

// Decode reads an A2A message, a JSON object. Its errors are *Error; a message without the
// mark of the extension is BadMessage.
//
// The members extensions, metadata and parts, and members read within them, must not be
// duplicated and must have their exact spelling. Other members are ignored.
func (x *Extension) Decode(message []byte) (*Received, error) {
	if len(message) > x.opts.MaxMessage {
		return nil, fault(BadMessage, "%d octets, want at most %d", len(message), x.opts.MaxMessage)
	}
	if !json.Valid(message) {
		return nil, fault(BadMessage, "it is no JSON")
	}
	m, err := parseObject(message, whole(message))
	if err != nil {
		return nil, fault(BadMessage, "%v", err)
	}
	return x.decode(m)
}

// decode reads a message within a document.
func (x *Extension) decode(m *object) (*Received, error) {
	declared, err := isMarked(m)
	if err != nil || !declared {
		return &Received{}, err
	}
	if !utf8.Valid(m.doc[m.at.from:m.at.to]) {
		return nil, fault(BadMessage, "octets that are no UTF-8")
	}
	said, err := x.metadata(m)
	if err != nil {
		return nil, err
	}
	r := &Received{Kind: SLIP, Confidence: said.confidence}
	if err := x.parts(m, r); err != nil {
		return nil, err
	}
	switch {
	case said.hash == nil && x.opts.RequireHash:
		return nil, fault(UCRMissing, "a ucrHash is required")
	case said.hash == nil:
		r.UCR = Unknown
	case *said.hash == ucr.CoreHash:
		r.UCR = Match
	case x.opts.Mismatch == Refuse:
		return nil, fault(UCRMismatch, "ucrHash %.80q, want that of UCR %s", *said.hash, ucr.Version)
	default:
		r.Kind, r.UCR = Plain, Differs
		return r, nil
	}
	if r.Message, err = x.codec().Parse(r.Text); err != nil {
		return nil, inText(err)
	}
	return r, nil
}

// isMarked reports whether message.extensions has the URI.
func isMarked(m *object) (bool, error) {
	list, err := listed(m)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list, func(at span) bool { return isURI(m.doc, at) }), nil
}

// listed returns the elements of message.extensions.
func listed(m *object) ([]span, error) {
	at, ok, err := m.get("extensions")
	if err != nil {
		return nil, fault(BadMessage, "extensions: %v", err)
	}
	if !ok {
		return nil, nil
	}
	list, err := parseArray(m.doc, at)
	if err != nil {
		return nil, fault(BadMessage, "extensions: %v", err)
	}
	return list, nil
}

func isURI(doc []byte, at span) bool {
	s, ok := text(doc, at)
	return ok && s == URI
}

// said is the content of message.metadata[URI].
type said struct {
	hash       *string // nil if missing
	confidence *float64
}

// metadata reads message.metadata[URI].
func (x *Extension) metadata(m *object) (s said, err error) {
	all, err := m.inner("metadata")
	if err != nil && !errors.Is(err, jsonobject.ErrNoObject) {
		return s, fault(BadMessage, "metadata: %v", err)
	}
	if all == nil {
		return s, fault(MetadataMissing, "metadata has to be an object")
	}
	all.free = true
	at, ok, err := all.get(URI)
	if err != nil {
		return s, fault(BadMessage, "metadata: %v", err)
	}
	if n := at.to - at.from; n > x.opts.MaxMetadata {
		return s, fault(BadMessage, "metadata of %d octets, want at most %d", n, x.opts.MaxMetadata)
	}
	o, err := parseObject(m.doc, at)
	if !ok || err != nil {
		return s, fault(MetadataMissing, "metadata of the extension has to be an object")
	}
	o.free = true
	for _, want := range []struct {
		name, value string
		class       Class
	}{{"slipVersion", SlipVersion, BadSlipVersion}, {"encoding", Encoding, BadEncoding}} {
		got, _, err := o.text(want.name)
		if err != nil {
			return s, fault(BadMessage, "%s: %v", want.name, err)
		}
		if got != want.value {
			return s, fault(want.class, "%.40q, want %q", got, want.value)
		}
	}
	at, ok, err = o.get("ucrHash")
	if err != nil {
		return s, fault(BadMessage, "ucrHash: %v", err)
	}
	if ok {
		hash, _ := text(o.doc, at) // a value of another type matches no hash
		s.hash = &hash
	}
	at, ok, err = o.get("confidence")
	if err != nil {
		return s, fault(BadMessage, "confidence: %v", err)
	}
	var confidence float64
	if ok && json.Unmarshal(o.doc[at.from:at.to], &confidence) == nil && confidence >= 0 && confidence <= 1 {
		s.confidence = &confidence
	}
	return s, nil
}

// parts separates the first text part from the others.
func (x *Extension) parts(m *object, r *Received) error {
	at, ok, err := m.get("parts")
	if err != nil {
		return fault(BadMessage, "parts: %v", err)
	}
	if !ok {
		return fault(NoTextPart, "it has no parts")
	}
	list, err := parseArray(m.doc, at)
	if err != nil {
		return fault(BadMessage, "parts: %v", err)
	}
	if len(list) > x.opts.MaxParts {
		return fault(BadMessage, "%d parts, want at most %d", len(list), x.opts.MaxParts)
	}
	found := false
	for _, at := range list {
		part, err := parseObject(m.doc, at)
		if err != nil {
			return fault(BadMessage, "part: %v", err)
		}
		if !found {
			s, ok, err := part.text("text")
			if err != nil {
				return fault(BadMessage, "text: %v", err)
			}
			if ok {
				r.Text, found = s, true
				continue
			}
		}
		r.Attachments = append(r.Attachments, m.doc[at.from:at.to:at.to])
	}
	if !found {
		return fault(NoTextPart, "no part has a text")
	}
	return nil
}

// plain removes the mark of the extension from a message in a document: the URI in
// message.extensions and in message.metadata.
func plain(doc []byte, find func(doc []byte) (*object, error)) ([]byte, error) {
	m, err := find(doc)
	if err != nil {
		return nil, err
	}
	list, err := listed(m)
	if err != nil {
		return nil, err
	}
	doc = without(doc, list, func(i int) bool { return isURI(m.doc, list[i]) })
	if m, err = find(doc); err != nil {
		return nil, err
	}
	metadata, err := m.inner("metadata")
	if err != nil || metadata == nil {
		return doc, err
	}
	return without(doc, metadata.items(), func(i int) bool { return metadata.members[i].Name == URI }), nil
}
