package slipa2a

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Class is what is wrong with a message: one of these, or a slipstream.Class.
type Class string

// The classes, in the order in which a message is looked at (C5). BadMessage is ours:
// the message is larger than the bounds, no object, or has members that decoders would
// read in different ways.
const (
	BadMessage      Class = "bad_message"
	MetadataMissing Class = "metadata_missing"
	BadSlipVersion  Class = "slip_version"
	BadEncoding     Class = "encoding"
	NoTextPart      Class = "no_text_part"
	UCRMissing      Class = "ucr_missing" // only with Options.RequireHash
	UCRMismatch     Class = "ucr_mismatch"
)

// Error is why a message cannot be read.
type Error struct {
	Class Class
	What  string
}

func (e *Error) Error() string { return "slipa2a: " + string(e.Class) + ": " + e.What }

func fault(class Class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}

// inText is the Error for a fault of the SLIP text.
func inText(err error) error {
	if e, ok := errors.AsType[*slipstream.Error](err); ok {
		return &Error{Class(e.Class), e.What}
	}
	return err
}

// Failure is what the client learns: InvalidParams, whose ErrorInfo names the class
// and, if it is about them, the anchors that are known here.
func (e *Error) Failure() *a2abinding.Failure {
	metadata := map[string]string{"extension": URI, "class": string(e.Class)}
	if e.Class == UCRMismatch || e.Class == UCRMissing {
		metadata["ucrVersion"], metadata["ucrHash"] = ucr.Version, ucr.CoreHash
	}
	f := a2abinding.Fail(a2abinding.CodeInvalidParams, string(e.Class)+": "+e.What)
	data, err := json.Marshal([]any{struct {
		Type     string            `json:"@type"`
		Reason   string            `json:"reason"`
		Domain   string            `json:"domain"`
		Metadata map[string]string `json:"metadata"`
	}{"type.googleapis.com/google.rpc.ErrorInfo", "INVALID_PARAMS", a2abinding.DomainA2A, metadata}})
	if err == nil { // strings can always be written
		f.Data = data
	}
	return f
}
