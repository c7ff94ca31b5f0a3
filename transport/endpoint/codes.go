package endpoint

import (
	"errors"
	"io"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
)

// CodeOf maps an error of frame, e1 or a profile to its meaning on the wire and in a
// report: the canonical code that conformance vectors expect, with the finer taxonomy name
// as detail (SWP Core §5 and §12). It is the only such mapping. Any other error becomes
// Internal.
func CodeOf(err error) *profiles.Error {
	var code, detail profiles.Code
	var large *frame.TooLargeError
	switch {
	case errors.As(err, &large):
		code, detail = profiles.InvalidFrame, profiles.FrameTooLarge
	case errors.Is(err, frame.ErrZeroLength), errors.Is(err, frame.ErrTruncated):
		code = profiles.InvalidFrame
	case errors.Is(err, e1.ErrUvarintTruncated), errors.Is(err, e1.ErrUvarintTooLong), errors.Is(err, e1.ErrUvarintOverflow):
		code, detail = profiles.InvalidFrame, profiles.InvalidUvarint
	case errors.Is(err, e1.ErrTruncated), errors.Is(err, e1.ErrTrailing):
		code = profiles.InvalidFrame
	case errors.Is(err, e1.ErrExtensionsTooLarge):
		code, detail = profiles.InvalidEnvelope, profiles.ExtTooLarge
	case errors.Is(err, e1.ErrPayloadTooLarge):
		code, detail = profiles.InvalidEnvelope, profiles.PayloadTooLarge
	case errors.Is(err, e1.ErrVersion):
		code = profiles.UnsupportedVersion
	case errors.Is(err, e1.ErrMsgType):
		code = profiles.InvalidEnvelope
	case errors.Is(err, e1.ErrMsgID):
		code, detail = profiles.InvalidEnvelope, profiles.MsgIDInvalid
	default:
		return profiles.AsError(err)
	}
	e := &profiles.Error{Code: code, Text: err.Error(), Cause: err}
	if detail != profiles.OK {
		e.Detail = detail.String()
	}
	return e
}

// truncated is the fault of a stream that broke inside a frame.
func truncated(err error) *profiles.Error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		err = frame.ErrTruncated
	}
	return &profiles.Error{Code: profiles.InvalidFrame, Text: frame.ErrTruncated.Error(), Cause: err}
}
