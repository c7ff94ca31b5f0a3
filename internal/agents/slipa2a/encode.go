package slipa2a

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Roles of an A2A 1.0 message.
const (
	RoleUser  = "ROLE_USER"
	RoleAgent = "ROLE_AGENT"
)

// Outgoing is a message to be written.
type Outgoing struct {
	MessageID string // required
	ContextID string // omitted if empty
	TaskID    string // omitted if empty
	Role      string // default RoleUser; RoleAgent for Answer

	// SLIP is the content; required.
	SLIP *slipstream.Message

	// Confidence is from 0 to 1; nil omits it.
	Confidence *float64

	// Attachments are the other parts, JSON objects that are written octet for octet.
	Attachments []json.RawMessage
}

// message is an Outgoing as JSON without its parts.
type message struct {
	MessageID  string           `json:"messageId"`
	ContextID  string           `json:"contextId,omitempty"`
	TaskID     string           `json:"taskId,omitempty"`
	Role       string           `json:"role"`
	Extensions []string         `json:"extensions,omitempty"`
	Metadata   map[string]under `json:"metadata,omitempty"`
}

// under is metadata[URI].
type under struct {
	SlipVersion string   `json:"slipVersion"`
	UCRVersion  string   `json:"ucrVersion"`
	UCRHash     string   `json:"ucrHash,omitempty"`
	Encoding    string   `json:"encoding"`
	Confidence  *float64 `json:"confidence,omitempty"`
}

// Encode writes an A2A message that is marked with the extension and has the SLIP text as
// its first part. It refuses everything that slipstream.Codec.Append refuses, an invalid
// confidence, attachments that are not JSON objects, and messages above the limits.
func (x *Extension) Encode(out Outgoing) ([]byte, error) {
	if out.SLIP == nil {
		return nil, errors.New("slipa2a: a message without SLIP")
	}
	line, err := x.codec().Append(nil, out.SLIP)
	if err != nil {
		return nil, err
	}
	if c := out.Confidence; c != nil && !(*c >= 0 && *c <= 1) { // false for NaN
		return nil, fmt.Errorf("slipa2a: confidence %v, want 0 to 1", *c)
	}
	return x.write(out, string(line), ucr.CoreHash)
}

// Answer writes the answer of an agent to a received message: as Encode if the client
// accepts SLIP, otherwise with text instead of out.SLIP and without mark. Attachments are
// the same. A nil in accepts no SLIP.
func (x *Extension) Answer(in *Incoming, out Outgoing, text string) ([]byte, error) {
	out.Role = cmp.Or(out.Role, RoleAgent)
	if in != nil && in.TakesSLIP {
		return x.Encode(out)
	}
	return x.write(out, text, unmarked)
}

// unmarked is in place of a ucrHash for a message without the mark.
const unmarked = "-"

// write writes a message with a text and, unless it is unmarked, the mark with a ucrHash;
// empty leaves the hash out.
func (x *Extension) write(out Outgoing, text, hash string) ([]byte, error) {
	if out.MessageID == "" {
		return nil, errors.New("slipa2a: a message without messageId")
	}
	if n := len(out.Attachments) + 1; n > x.opts.MaxParts {
		return nil, fmt.Errorf("slipa2a: %d parts, want at most %d", n, x.opts.MaxParts)
	}
	m := message{MessageID: out.MessageID, ContextID: out.ContextID, TaskID: out.TaskID, Role: cmp.Or(out.Role, RoleUser)}
	if hash != unmarked {
		m.Extensions = []string{URI}
		m.Metadata = map[string]under{URI: {SlipVersion, ucr.Version, hash, Encoding, out.Confidence}}
	}
	head, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("slipa2a: %w", err)
	}
	first, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return nil, fmt.Errorf("slipa2a: %w", err)
	}
	// json.Marshal would change the octets of the attachments.
	octets := append(head[:len(head)-1:len(head)-1], `,"parts":[`...)
	octets = append(octets, first...)
	for i, part := range out.Attachments {
		if at := whole(part); at.from >= at.to || part[at.from] != '{' || !json.Valid(part) {
			return nil, fmt.Errorf("slipa2a: attachment %d is no JSON object", i)
		}
		octets = append(append(octets, ','), part...)
	}
	if octets = append(octets, "]}"...); len(octets) > x.opts.MaxMessage {
		return nil, fmt.Errorf("slipa2a: a message of %d octets, want at most %d", len(octets), x.opts.MaxMessage)
	}
	return octets, nil
}
