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
//	}
//
// It is an answer: its msg_id is that of the refused message, or a fresh one
// where that had none of a legal length.
const ErrorProfile = 4096

// ErrorMsgType is the msg_type of the one message of ErrorProfile.
const ErrorMsgType = 1

// maxErrorText bounds an error message, so that an error is never larger than
// what caused a reasonable one.
const maxErrorText = 256

// errorFrame builds the envelope that reports why env was refused.
func errorFrame(env *e1.Envelope, fault *profiles.Error, limits *e1.Limits) e1.Envelope {
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

// parseErrorFrame reads an Error. ok is false if it is not one.
func parseErrorFrame(payload []byte) (fault *profiles.Error, ok bool) {
	body, rest, ok := field(payload, 1)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	fault = &profiles.Error{Detail: "remote"}
	for len(body) > 0 {
		key, n, err := e1.Uvarint(body)
		if err != nil {
			return nil, false
		}
		switch key {
		case 1<<3 | 2, 2<<3 | 2, 3<<3 | 2:
			var value []byte
			if value, body, ok = field(body, key>>3); !ok {
				return nil, false
			}
			switch key >> 3 {
			case 1:
				fault.Code, _ = profiles.ParseCode(string(value))
			case 3:
				fault.Text = string(value[:min(len(value), maxErrorText)])
			}
		case 4 << 3:
			_, m, err := e1.Uvarint(body[n:])
			if err != nil {
				return nil, false
			}
			body = body[n+m:]
		default:
			return nil, false
		}
	}
	return fault, fault.Code != profiles.OK
}

// field splits off a length-delimited field of a number.
func field(b []byte, number uint64) (value, rest []byte, ok bool) {
	key, n, err := e1.Uvarint(b)
	if err != nil || key != number<<3|2 {
		return nil, nil, false
	}
	size, m, err := e1.Uvarint(b[n:])
	if err != nil || size > uint64(len(b)-n-m) { //nolint:gosec // not negative
		return nil, nil, false
	}
	from := n + m
	return b[from : from+int(size)], b[from+int(size):], true //nolint:gosec // checked
}

// receiveError handles a message of ErrorProfile: the answer to a call of this
// side always, anything else only where the error path is on. It reports
// whether the message was handled; if not, the profile is unknown here.
func (l *lane) receiveError(env *e1.Envelope) bool {
	n, own := l.s.ownID(env.MsgID)
	if !own && !l.s.ep.opts.ErrorFrames {
		return false
	}
	if err := env.Validate(&l.s.ep.opts.Envelope); err != nil {
		l.refuse(nil, CodeOf(err), ordinary)
		return true
	}
	if env.MsgType != ErrorMsgType {
		l.refuse(nil, profiles.Errorf(profiles.UnsupportedMsgType, "msg_type %d is not in profile %d", env.MsgType, env.ProfileID), ordinary)
		return true
	}
	fault, ok := parseErrorFrame(env.Payload)
	if !ok {
		l.refuse(nil, profiles.Errorf(profiles.InvalidProfilePayload, "not an error report"), ordinary)
		return true
	}
	if !own || !l.s.failCall(n, fault) {
		l.unsolicited()
		return true
	}
	l.verdict(profiles.OK, "", nil, false, Kept)
	return true
}
