// Package slipa2a implements SLIP-A2A: A2A 1.0 agents that exchange messages in SLIP v1. An
// agent declares the extension in its card. A client opts in with a service parameter and
// marks each message. Both compare the hash of their anchors. The rest of a message is
// unchanged.
//
// Decode, Encode and Declare are functions on octets, for both sides. Wrap adds the
// extension to an agent that is a Worker of profile 2.
//
// Specification: Slipstream part C, A2A 1.0 §4.6 (extensions).
package slipa2a

import (
	"cmp"
	"fmt"

	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// URI names the extension: in cards, in the service parameter a2a-extensions, in
// message.extensions and as the member of message.metadata.
const URI = "https://github.com/anthony-maio/slipcore/extensions/a2a-slipstream/v1"

// MediaType is the input and output mode for SLIP.
const MediaType = "text/slip"

// Values in metadata and cards.
const (
	SlipVersion = "v1"
	Encoding    = "mnemonic"
)

// Mismatch is the treatment of a message whose sender uses other anchors.
type Mismatch string

// Values of Options.Mismatch.
const (
	Refuse   Mismatch = "refuse"   // an error, ucr_mismatch
	Fallback Mismatch = "fallback" // treat it as plain text
)

// Options configure an Extension. Zero values mean the defaults.
type Options struct {
	// Codec reads and writes the SLIP text. Anchors that its Table adds to the core are
	// understood, but neither declared nor compared.
	Codec slipstream.Codec

	// Anchors returns the Table of Codec for each message. Nil: that of Codec.
	Anchors func() *ucr.Table

	// Mismatch is the treatment of messages with another ucrHash; default Refuse.
	Mismatch Mismatch

	// RequireHash refuses messages without a ucrHash.
	RequireHash bool

	// Required declares the extension as required, and refuses messages of clients that
	// have not opted in. It should stay false.
	Required bool

	// Description is the description in the declaration; it has a default.
	Description string

	MaxMessage  int // octets of a message, default 8 MiB
	MaxParts    int // of a message in SLIP, default 256
	MaxMetadata int // octets of metadata[URI], default 4,096
}

// Extension is the extension with its options. It is immutable and safe for concurrent use.
type Extension struct{ opts Options }

// codec is Codec with the anchors in force.
func (x *Extension) codec() slipstream.Codec {
	c := x.opts.Codec
	if x.opts.Anchors != nil {
		c.Table = x.opts.Anchors()
	}
	return c
}

// New returns an Extension. It fails for undefined options.
func New(o Options) (*Extension, error) {
	for name, n := range map[string]int{
		"MaxMessage": o.MaxMessage, "MaxParts": o.MaxParts, "MaxMetadata": o.MaxMetadata,
		"Codec.MaxText": o.Codec.MaxText, "Codec.MaxTokens": o.Codec.MaxTokens,
	} {
		if n < 0 {
			return nil, fmt.Errorf("slipa2a: %s: %d, want 0 or more", name, n)
		}
	}
	o.Mismatch = cmp.Or(o.Mismatch, Refuse)
	if o.Mismatch != Refuse && o.Mismatch != Fallback {
		return nil, fmt.Errorf("slipa2a: mismatch %q, want %q or %q", o.Mismatch, Refuse, Fallback)
	}
	o.Description = cmp.Or(o.Description, "Messages in SLIP v1, with the anchors of UCR "+ucr.Version)
	o.MaxMessage = cmp.Or(o.MaxMessage, 8<<20)
	o.MaxParts = cmp.Or(o.MaxParts, 256)
	o.MaxMetadata = cmp.Or(o.MaxMetadata, 4<<10)
	return &Extension{o}, nil
}
