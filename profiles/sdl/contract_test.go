package sdl_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/sdl"
)

// scripted is a Server that knows whole JSON objects, and does what they say:
//
//	agent  it was said by
//	fault  it is refused with
//	other  it has another type than its message
//	wait   it is answered only when that is closed
//	panic  it panics
type scripted struct {
	wait   map[string]chan struct{}
	rest   bool
	served chan sdl.Message // what came, if not nil
}

type script struct {
	Agent  string `json:"agent"`
	Fault  string `json:"fault"`
	Reason string `json:"reason"`
	Other  bool   `json:"other"`
	Wait   string `json:"wait"`
	Panic  bool   `json:"panic"`
	Silent bool   `json:"silent"`
}

func (s *scripted) Handle(ctx context.Context, m *sdl.Message) sdl.Answer {
	var in script
	_, known := sdl.FormOf(m.Body)
	if err := json.Unmarshal(m.Body, &in); err != nil || !known || m.Form != sdl.JSON {
		f := &sdl.Fault{Code: sdl.CodeEncoding, Cause: err}
		return sdl.Answer{Body: s.Refusal(m.Form, f), Fault: f}
	}
	if s.served != nil {
		kept := *m
		kept.Body = append([]byte(nil), m.Body...)
		s.served <- kept
	}
	if s.rest {
		sdl.Rest(ctx)
	}
	if c := s.wait[in.Wait]; c != nil {
		select {
		case <-c:
		case <-ctx.Done():
			f := &sdl.Fault{Code: sdl.CodeInternal, Retryable: true, Cause: ctx.Err()}
			return sdl.Answer{Body: s.Refusal(m.Form, f), Fault: f}
		}
	}
	switch {
	case in.Panic:
		panic("as it was told")
	case in.Silent:
		return sdl.Answer{}
	case in.Other:
		return sdl.Answer{Fault: &sdl.Fault{Mismatch: true}}
	case in.Fault != "":
		f := &sdl.Fault{Code: in.Fault, Reason: in.Reason}
		return sdl.Answer{Body: s.Refusal(m.Form, f), Agent: in.Agent, Fault: f}
	}
	return sdl.Answer{Body: append([]byte(nil), m.Body...), Agent: in.Agent}
}

func (s *scripted) Refusal(form sdl.Form, f *sdl.Fault) []byte {
	if form == sdl.CBOR {
		return append([]byte{0xa1, 0x60, 0x60 + byte(len(f.Code))}, f.Code...)
	}
	return []byte(`{"code":"` + f.Code + `"}`)
}

// newService returns a Service that is closed with the test.
func newService(t testing.TB, o sdl.Options) *sdl.Service {
	t.Helper()
	s, err := sdl.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newProfile(t testing.TB) *profiles.Profile {
	return newService(t, sdl.Options{Server: &scripted{}}).Profile()
}

var contract = []profiletest.Case{
	{Name: "request", Type: sdl.TypeReq, Payload: []byte(`{"agent":"did:key:a"}`), Answers: []uint64{sdl.TypeRes}},
	{Name: "request after white space", Type: sdl.TypeReq, Payload: []byte("\n\t {}"), Answers: []uint64{sdl.TypeRes}},
	{Name: "request that is refused", Type: sdl.TypeReq, Payload: []byte(`{"fault":"SCHEMA_INVALID"}`), Code: profiles.InvalidProfilePayload},
	{Name: "event", Type: sdl.TypeEvt, Payload: []byte(`{"agent":"did:key:a"}`)},
}

func TestContract(t *testing.T) { profiletest.Run(t, newProfile, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, newProfile, contract...) }

func TestNothingIsServedWithoutAServer(t *testing.T) {
	h := profiletest.New(t, newService(t, sdl.Options{}).Profile())
	for _, c := range contract {
		err := h.Serve(c.Type, c.Payload).Wait().Err()
		if err == nil || err.Code != profiles.SecurityPolicy || err.Answer.MsgType != 0 {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
