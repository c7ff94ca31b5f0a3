package endpoint

import (
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// ErrorProfile is the private profile of the error path: it tells the sender
// of a message why the message was refused (docs/profile-error-path.md, SWP
// Core §11). Its only message is Error, P1-encoded:
//
//	message Payload { oneof body { Error error = 1; } }
//	message Error {
//	  string code = 1;        // canonical, such as ERR_UNKNOWN_PROFILE
//	  string alias = 2;       // such as UNKNOWN_PROFILE
//	  string message = 3;     // for people
//	  uint64 profile_id = 4;  // of the refused message
//	  uint64 close_code = 5;  // the connection ends with it, as with an application error code of QUIC
//	}
//
// It is an answer: its msg_id is the one of the refused message, or a new one if that had no
// msg_id of a legal length.
const ErrorProfile = profiles.ErrorProfile

// ErrorMsgType is the msg_type of the one message of ErrorProfile.
const ErrorMsgType = 1

// maxErrorText bounds an error message, so that an error is not larger than a typical
// request.
const maxErrorText = 256

// errorFrame builds the envelope that reports why env was refused. closes is the code with which the
// connection ends because of that; 0: it goes on, or ends without one.
func errorFrame(env *e1.Envelope, fault *profiles.Error, closes uint64, limits *e1.Limits) e1.Envelope {
	text := fault.Text
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	var body []byte
	body = appendString(body, 1, fault.Code.String())
	body = appendString(body, 2, fault.Code.Alias())
	body = appendString(body, 3, text)
	if env.ProfileID != 0 {
		body = e1.AppendUvarint(append(body, 4<<3), env.ProfileID)
	}
	if closes != 0 {
		body = e1.AppendUvarint(append(body, 5<<3), closes)
	}
	answer := e1.Envelope{ProfileID: ErrorProfile, MsgType: ErrorMsgType}
	answer.Payload = e1.AppendBytes([]byte{1<<3 | 2}, body)
	if n := len(env.MsgID); n >= limits.MinMsgID && n <= limits.MaxMsgID {
		answer.MsgID = env.MsgID
	} else {
		answer.MsgID = profiles.NewMsgID()
	}
	return answer
}

func appendString(dst []byte, field byte, s string) []byte {
	return e1.AppendBytes(append(dst, field<<3|2), []byte(s))
}

// parseErrorFrame reads an Error and its close_code. ok is false if it is not one. Fields that are
// unknown are ignored, as P1 demands.
func parseErrorFrame(payload []byte) (fault *profiles.Error, closes uint64, ok bool) {
	number, _, body, rest, ok := nextField(payload)
	if !ok || number != 1 || body == nil || len(rest) > 0 {
		return nil, 0, false
	}
	fault = &profiles.Error{Detail: profiles.DetailRemote}
	for len(body) > 0 {
		var value []byte
		var n uint64
		if number, n, value, body, ok = nextField(body); !ok {
			return nil, 0, false
		}
		switch {
		case number == 1 && value != nil:
			fault.Code, _ = profiles.ParseCode(string(value))
		case number == 3 && value != nil:
			fault.Text = string(value[:min(len(value), maxErrorText)])
		case number == 5 && value == nil:
			closes = n
		}
	}
	return fault, closes, fault.Code != profiles.OK
}

// nextField splits off one protobuf field. value is nil unless the field is
// length-delimited, n is 0 unless it is a varint. Groups, which proto3 does not have, are refused.
func nextField(b []byte) (number, n uint64, value, rest []byte, ok bool) {
	key, head, err := e1.Uvarint(b)
	if err != nil || key>>3 == 0 {
		return 0, 0, nil, nil, false
	}
	b = b[head:]
	var size int
	switch key & 7 {
	case 0:
		if n, size, err = e1.Uvarint(b); err != nil {
			return 0, 0, nil, nil, false
		}
	case 1:
		size = 8
	case 2:
		length, from, err := e1.Uvarint(b)
		if err != nil || length > uint64(len(b)-from) {
			return 0, 0, nil, nil, false
		}
		to := from + int(length)
		return key >> 3, 0, b[from:to:to], b[to:], true
	case 5:
		size = 4
	default:
		return 0, 0, nil, nil, false
	}
	if size > len(b) {
		return 0, 0, nil, nil, false
	}
	return key >> 3, n, nil, b[size:], true
}

// receiveError handles a message of ErrorProfile. An answer to a call of this side is
// always handled, and an Error that ends the connection too; any other message only if
// the error path is on. It returns false if the message is not handled; the profile is then unknown here.
func (l *lane) receiveError(env *e1.Envelope) bool {
	n, own := l.s.ownID(env.MsgID)
	if !own && l.farewell(env) {
		l.verdict(profiles.OK, "farewell", nil, false, Kept)
		return true
	}
	if !own && !l.s.opts.ErrorFrames {
		return false
	}
	if err := env.Validate(&l.s.opts.Envelope); err != nil {
		l.refuse(nil, CodeOf(err), ordinary)
		return true
	}
	if env.MsgType != ErrorMsgType {
		l.refuse(nil, profiles.Errorf(profiles.UnsupportedMsgType, "msg_type %d is not in profile %d", env.MsgType, env.ProfileID), ordinary)
		return true
	}
	fault, _, ok := parseErrorFrame(env.Payload)
	if !ok {
		l.refuse(nil, profiles.Errorf(profiles.InvalidProfilePayload, "not an error report"), ordinary)
		return true
	}
	if own {
		l.s.hearDraining(env.Extensions)
	}
	if !own || !l.s.refuseCall(n, fault, env) {
		l.unsolicited()
		return true
	}
	l.verdict(profiles.OK, "", nil, false, Kept)
	return true
}
