package slip

import (
	"errors"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
)

// Codes of a SLIP_ERR, in addition to the classes of nslip and slipstream, and the names of
// canonical codes.
const (
	CodeUnknownDestination = "unknown_destination" // the receiving agent is unknown
	CodeNoMapping          = "no_mapping"          // no agent has this number
	CodeDenied             = "denied"              // the sender may not act as its agent, or may not reach the receiver
	CodeMismatch           = "ucr_mismatch"        // the sender uses other anchors
	CodeBadHandle          = "bad_handle"          // the meaning of a handle is malformed or contradictory
)

// detailPrefix is the prefix of details that correspond to a code of SLIP_ERR.
const detailPrefix = "slip_"

func fault(code profiles.Code, slip, format string, args ...any) *profiles.Error {
	e := profiles.Errorf(code, "slip: "+format, args...)
	e.Detail = detailPrefix + slip
	return e
}

func unmapped(number uint64) error {
	e := fault(profiles.NotFound, CodeNoMapping, "no agent has the number %d", number)
	e.Domain = true
	return e
}

func unknown(agent string) *profiles.Error {
	e := fault(profiles.NotFound, CodeUnknownDestination, "agent %.100q is not here, nor behind a partner that is", agent)
	e.Domain = true
	return e
}

func tooFar(agent string) error {
	e := fault(profiles.NotFound, CodeUnknownDestination, "agent %.100q is behind more than %d endpoints", agent, profiles.MaxHops)
	e.Domain = true
	return e
}

// unreadable returns the verdict for a malformed message.
func unreadable(err error) error {
	if e, ok := errors.AsType[*nslip.Error](err); ok {
		return fault(profiles.InvalidProfilePayload, string(e.Class), "%s", e.What)
	}
	if e, ok := errors.AsType[*slipstream.Error](err); ok {
		return fault(profiles.InvalidProfilePayload, string(e.Class), "%s", e.What)
	}
	return err
}

// denied returns the refusal by the access rules.
func denied(format string, args ...any) *profiles.Error {
	e := fault(profiles.SecurityPolicy, CodeDenied, format, args...)
	e.Denied = true
	return e
}

// Refuse returns an error with which Receive refuses a message with a given code.
func Refuse(code, text string) error {
	e := fault(profiles.NotFound, code, "%s", text)
	e.Domain = true
	return e
}

// refusals convert errors to SLIP_ERR and back.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeNSLIP, TypeSLIP, TypeBinary},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Own: func(detail string) (string, bool) { return strings.CutPrefix(detail, detailPrefix) },
}
