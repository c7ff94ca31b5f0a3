package slipa2a

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Class is the class of an error: one of the following or a slipstream.Class.
type Class string

// Classes, in order of the checks (C5). BadMessage is specific to this package: the message
// exceeds the limits, is not an object, or has members that decoders would read
// differently.
const (
	BadMessage      Class = "bad_message"
	MetadataMissing Class = "metadata_missing"
	BadSlipVersion  Class = "slip_version"
	BadEncoding     Class = "encoding"
	NoTextPart      Class = "no_text_part"
	UCRMissing      Class = "ucr_missing" // only with Options.RequireHash
	UCRMismatch     Class = "ucr_mismatch"
)

// Classes of a message for, or of an answer to, a peer that gets a line and nothing else.
const (
	NotCarried Class = "not_carried" // it has more than a line
	OtherAgent Class = "other_agent" // the line is from or to another agent
)

// ClassOf returns the class that a failure has in its ErrorInfo, empty if it has none.
func ClassOf(f *a2abinding.Failure) Class {
	var infos []struct {
		Metadata struct {
			Extension string `json:"extension"`
			Class     Class  `json:"class"`
		} `json:"metadata"`
	}
	if json.Unmarshal(f.Data, &infos) != nil {
		return ""
	}
	for _, info := range infos {
		if info.Metadata.Extension == URI {
			return info.Metadata.Class
		}
	}
	return ""
}

// Error is the reason why a message cannot be read.
type Error struct {
	Class Class
	What  string
}

func (e *Error) Error() string { return "slipa2a: " + string(e.Class) + ": " + e.What }

func fault(class Class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}

// inText returns the Error for a fault of the SLIP text.
func inText(err error) error {
	if e, ok := errors.AsType[*slipstream.Error](err); ok {
		return &Error{Class(e.Class), e.What}
	}
	return err
}

// Failure returns the error for the client: InvalidParams, whose ErrorInfo has the class
// and, for anchor errors, the ucrHash of this side.
func (e *Error) Failure() *a2abinding.Failure {
	return e.failure(a2abinding.CodeInvalidParams, "INVALID_PARAMS")
}

func (e *Error) failure(code int, reason string) *a2abinding.Failure {
	metadata := map[string]string{"extension": URI, "class": string(e.Class)}
	if e.Class == UCRMismatch || e.Class == UCRMissing {
		metadata["ucrVersion"], metadata["ucrHash"] = ucr.Version, ucr.CoreHash
	}
	f := a2abinding.Fail(code, string(e.Class)+": "+e.What)
	data, err := json.Marshal([]any{struct {
		Type     string            `json:"@type"`
		Reason   string            `json:"reason"`
		Domain   string            `json:"domain"`
		Metadata map[string]string `json:"metadata"`
	}{"type.googleapis.com/google.rpc.ErrorInfo", reason, a2abinding.DomainA2A, metadata}})
	if err == nil { // marshalling strings does not fail
		f.Data = data
	}
	return f
}
