package p1_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

const (
	typeAsk = 1
	typeErr = 2
)

// errMessage is an error message with every field that one may have.
type errMessage struct {
	code, text []byte
	later      bool
}

func (m *errMessage) Decode(payload []byte) error {
	body, err := p1.Body(payload, typeErr, typeErr)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.code)
		case 2:
			f.Text(&m.text)
		case 3:
			f.Bool(&m.later)
		}
	}
	return f.Err()
}

func (m *errMessage) size() int {
	return p1.SizeBytes(1, m.code) + p1.SizeBytes(2, m.text) + p1.SizeBool(3, m.later)
}

func (m *errMessage) Size() int { return p1.SizeHeader(typeErr, m.size()) }

func (m *errMessage) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, typeErr, m.size())
	return p1.AppendBool(p1.AppendBytes(p1.AppendBytes(dst, 1, m.code), 2, m.text), 3, m.later)
}

var refusals = p1.Refusals{
	Profile: "test", Type: typeErr, Of: []uint64{typeAsk}, Own: p1.OneOf("MINE"), Later: []string{"SOON"},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(errMessage)
		return m, p1.ErrFields{Code: &m.code, Message: &m.text, Retryable: &m.later}
	},
}

// read reads an answer of the endpoint "author".
func read(t *testing.T, answer e1.Envelope) profiles.PeerError {
	t.Helper()
	answer.Extensions = e1.AppendExtension(nil, profiles.ExtEndpoint, []byte("author"))
	peer, ok := errors.AsType[*profiles.PeerError](refusals.Read(&answer))
	if !ok {
		t.Fatalf("%v is no error message", answer)
	}
	return *peer
}

func TestRefusalIsReadAsItWasMeant(t *testing.T) {
	for _, test := range []struct {
		fault profiles.Error
		want  profiles.PeerError
	}{
		{profiles.Error{Code: profiles.NotFound, Text: "none"}, profiles.PeerError{Code: "NOT_FOUND", Message: "none"}},
		{profiles.Error{Code: profiles.NotFound}, profiles.PeerError{Code: "NOT_FOUND", Message: "ERR_NOT_FOUND"}},
		{profiles.Error{Code: profiles.NotFound, Detail: "MINE", Text: "x"}, profiles.PeerError{Code: "MINE", Message: "x"}},
		{profiles.Error{Code: profiles.NotFound, Detail: "other", Text: "x"}, profiles.PeerError{Code: "NOT_FOUND", Message: "x"}},
		{profiles.Error{Code: profiles.Internal, Text: "x", Retryable: true}, profiles.PeerError{Code: "INTERNAL_ERROR", Message: "x", Later: true}},
	} {
		answer, ok := refusals.Refusal(&profiles.Request{Envelope: e1.Envelope{MsgType: typeAsk}}, &test.fault)
		if !ok {
			t.Errorf("%v: no refusal", &test.fault)
			continue
		}
		test.want.Profile, test.want.Endpoint = "test", "author"
		if got := read(t, answer); got != test.want {
			t.Errorf("%v is read as %+v, want %+v", &test.fault, got, test.want)
		}
	}
	if got := read(t, refusals.Answer("SOON", "", false)); !got.Later {
		t.Errorf("%+v, want it to say that there is a later", got)
	}
}

// An error message with a code and a text alone says by its code that there is a later.
func TestARefusalSaysThatThereIsALaterInEveryProfile(t *testing.T) {
	short := refusals
	short.New = func() (p1.ErrMessage, p1.ErrFields) {
		m := new(errMessage)
		return m, p1.ErrFields{Code: &m.code, Message: &m.text}
	}
	for _, test := range []struct {
		fault profiles.Error
		want  string
		later bool
	}{
		{profiles.Error{Code: profiles.Internal, Text: "x", Retryable: true}, "RATE_LIMIT_EXCEEDED", true},
		{profiles.Error{Code: profiles.Internal, Text: "x"}, "INTERNAL_ERROR", false},
		{profiles.Error{Code: profiles.Internal, Detail: "MINE", Text: "x", Retryable: true}, "MINE", false},
	} {
		answer, _ := short.Refusal(&profiles.Request{Envelope: e1.Envelope{MsgType: typeAsk}}, &test.fault)
		if got := read(t, answer); got.Code != test.want || got.Retryable() != test.later {
			t.Errorf("%v is read as %+v, want code %s, retryable %v", &test.fault, got, test.want, test.later)
		}
	}
}

func TestNoRefusalWhereItWouldBeReadAsAnotherAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		msgType uint64
		code    profiles.Code
	}{
		"to an error message":           {typeErr, profiles.NotFound},
		"under a msg_id that is in use": {typeAsk, profiles.DuplicateMsgID},
	} {
		req := &profiles.Request{Envelope: e1.Envelope{MsgType: test.msgType}}
		if answer, ok := refusals.Refusal(req, &profiles.Error{Code: test.code, Text: "x"}); ok {
			t.Errorf("%s: %v", name, answer)
		}
	}
}

func TestRefusalIsCutToItsBound(t *testing.T) {
	const room = p1.MaxRefusal - len("\x12\xff\x03\x0a\x01X\x12\xff\x03")
	for _, test := range []struct{ code, text, wantCode, wantText string }{
		{"X", strings.Repeat("x", room), "X", strings.Repeat("x", room)},
		{"X", strings.Repeat("x", room+1), "X", strings.Repeat("x", room)},
		{"X", strings.Repeat("x", room-1) + "é", "X", strings.Repeat("x", room-1)},
		{strings.Repeat("y", 1000), "x", strings.Repeat("y", 64), "x"},
	} {
		answer := refusals.Answer(test.code, test.text, false)
		if len(answer.Payload) > p1.MaxRefusal {
			t.Errorf("%d octets, want at most %d", len(answer.Payload), p1.MaxRefusal)
		}
		if got := read(t, answer); got.Code != test.wantCode || got.Message != test.wantText {
			t.Errorf("code of %d octets, text of %d; want %d and %d", len(got.Code), len(got.Message), len(test.wantCode), len(test.wantText))
		}
	}
}

func TestReadRefusesWhatIsNoErrorMessage(t *testing.T) {
	for name, env := range map[string]e1.Envelope{
		"another type": {MsgType: typeAsk, Payload: refusals.Answer("X", "", false).Payload},
		"malformed":    {MsgType: typeErr, Payload: []byte{1}},
	} {
		if err := refusals.Read(&env); errors.As(err, new(*profiles.PeerError)) || profiles.AsError(err).Code != profiles.InvalidProfilePayload {
			t.Errorf("%s: %v", name, err)
		}
	}
}
