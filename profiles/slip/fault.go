package slip

import (
	"errors"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
)

// Codes of a SLIP_ERR, beside the classes of nslip and slipstream, and the names of
// canonical codes.
const (
	CodeUnknownDestination = "unknown_destination" // nobody knows the agent that it is for
	CodeNoMapping          = "no_mapping"          // no agent has this number
	CodeDenied             = "denied"              // the sender may not speak as this agent, or to that one
	CodeMismatch           = "ucr_mismatch"        // the sender knows other anchors
	CodeBadHandle          = "bad_handle"          // what a handle stands for cannot be read, or is said otherwise
)

// detailPrefix begins the details of verdicts that go with a code of SLIP_ERR.
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

// unreadable is the verdict for a fault of a message.
func unreadable(err error) error {
	if e, ok := errors.AsType[*nslip.Error](err); ok {
		return fault(profiles.InvalidProfilePayload, string(e.Class), "%s", e.What)
	}
	if e, ok := errors.AsType[*slipstream.Error](err); ok {
		return fault(profiles.InvalidProfilePayload, string(e.Class), "%s", e.What)
	}
	return err
}

// denied refuses what the access rules do not allow.
func denied(format string, args ...any) *profiles.Error {
	e := fault(profiles.SecurityPolicy, CodeDenied, format, args...)
	e.Denied = true
	return e
}

// Refuse returns the error by which Receive refuses a message with its own code.
func Refuse(code, text string) error {
	e := fault(profiles.NotFound, code, "%s", text)
	e.Domain = true
	return e
}

// refusals are the SLIP_ERRs for messages that were refused, and those of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeNSLIP, TypeSLIP, TypeBinary},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Own: func(detail string) (string, bool) { return strings.CutPrefix(detail, detailPrefix) },
}
