package sdl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/sdl"
)

func TestTheFirstOctetIsTheForm(t *testing.T) {
	for c := range 256 {
		form, ok := sdl.FormOf([]byte{byte(c), 'x'})
		cbor := c >= 0xa0 && c <= 0xbf
		json := slices.Contains([]int{'{', ' ', '\t', '\n', '\r'}, c)
		if ok != (cbor || json) || (form == sdl.CBOR) != cbor {
			t.Errorf("octet %#x: form %d, %v", c, form, ok)
		}
	}
	if _, ok := sdl.FormOf(nil); ok {
		t.Error("nothing has a form")
	}
}

func TestWhatIsNeitherJSONNorCBORIsAnsweredInJSON(t *testing.T) {
	h := profiletest.New(t, newProfile(t))
	for _, payload := range []string{"", "[]", "\xef\xbb\xbf{}", "\x00", "null"} {
		for _, typ := range []uint64{sdl.TypeReq, sdl.TypeEvt} {
			x := h.Serve(typ, []byte(payload)).Wait()
			err := x.Err()
			if err == nil || err.Code != profiles.InvalidProfilePayload || err.Detail != "sdl_unsupported_encoding" {
				t.Fatalf("%q: %v", payload, err)
			}
			want := map[uint64]string{sdl.TypeReq: `{"code":"UNSUPPORTED_ENCODING"}`}[typ]
			if got := string(err.Answer.Payload); got != want || want != "" && err.Answer.MsgType != sdl.TypeRes {
				t.Errorf("%q as type %d: answered with %q, want %q", payload, typ, got, want)
			}
		}
	}
}

func TestVerdictsOfTheLanguageHaveCanonicalCodes(t *testing.T) {
	h := profiletest.New(t, newProfile(t))
	for _, test := range []struct {
		script, detail string
		code           profiles.Code
		pace, domain   bool
	}{
		{`{"fault":"BAD_REQUEST"}`, "sdl_bad_request", profiles.InvalidProfilePayload, false, false},
		{`{"fault":"BAD_REQUEST","reason":"replay_detected"}`, "sdl_replay_detected", profiles.SecurityPolicy, false, false},
		{`{"fault":"BAD_REQUEST","reason":"replay_expired"}`, "sdl_replay_expired", profiles.SecurityPolicy, false, false},
		{`{"fault":"BAD_REQUEST","reason":"replay_full"}`, "sdl_replay_full", profiles.SecurityPolicy, true, false},
		{`{"fault":"BAD_REQUEST","reason":"rate_limit"}`, "sdl_rate_limit", profiles.RateLimitExceeded, true, false},
		{`{"fault":"BAD_REQUEST","reason":"of the peer"}`, "sdl_bad_request", profiles.InvalidProfilePayload, false, false},
		{`{"fault":"SCHEMA_INVALID"}`, "sdl_schema_invalid", profiles.InvalidProfilePayload, false, false},
		{`{"fault":"UNSUPPORTED_CT"}`, "sdl_unsupported_ct", profiles.InvalidProfilePayload, false, true},
		{`{"fault":"SECURITY_UNSUPPORTED"}`, "sdl_security_unsupported", profiles.SecurityPolicy, false, false},
		{`{"fault":"INTERNAL"}`, "sdl_internal", profiles.Internal, false, false},
		{`{"fault":"of the peer"}`, "sdl", profiles.InvalidProfilePayload, false, false},
	} {
		err := h.Serve(sdl.TypeReq, []byte(test.script)).Wait().Err()
		if err == nil || err.Code != test.code || err.Detail != test.detail || err.Pace != test.pace || err.Domain != test.domain {
			t.Errorf("%s: %+v", test.script, err)
			continue
		}
		if err.Answer.MsgType != sdl.TypeRes || len(err.Answer.Payload) == 0 {
			t.Errorf("%s: answered with %+v", test.script, err.Answer)
		}
		err = h.Serve(sdl.TypeEvt, []byte(test.script)).Wait().Err()
		if err == nil || err.Code != test.code || err.Answer.MsgType != 0 {
			t.Errorf("%s as an event: %+v", test.script, err)
		}
	}
}

func TestAnotherTypeThanTheMessageHasNoAnswer(t *testing.T) {
	p := newProfile(t)
	h := profiletest.New(t, p)
	for _, typ := range []uint64{sdl.TypeReq, sdl.TypeEvt} {
		x := h.Serve(typ, []byte(`{"other":true}`)).Wait()
		err := x.Err()
		if err == nil || err.Code != profiles.InvalidProfilePayload || err.Detail != sdl.DetailMismatch || err.Answer.MsgType != 0 {
			t.Fatalf("type %d: %+v", typ, err)
		}
		if _, ok := p.Refusal(x.Request(), err); ok {
			t.Errorf("type %d: it was answered", typ)
		}
	}
}

func TestAResponseWithoutACallIsDropped(t *testing.T) {
	served := make(chan sdl.Message, 1)
	h := profiletest.New(t, newService(t, sdl.Options{Server: &scripted{served: served}}).Profile())
	if x := h.Serve(sdl.TypeRes, []byte(`{}`)).Wait(); x.Err() != nil || len(x.Answers()) > 0 || len(served) > 0 {
		t.Errorf("%v, answers %v", x.Err(), x.Answers())
	}
}

func TestAHandlerThatPanicsOrSaysNothingIsAnswered(t *testing.T) {
	h := profiletest.New(t, newProfile(t))
	for _, body := range []string{`{"panic":true}`, `{"silent":true}`} {
		err := h.Serve(sdl.TypeReq, []byte(body)).Wait().Err()
		if err == nil || err.Code != profiles.Internal || err.Cause == nil || string(err.Answer.Payload) != `{"code":"INTERNAL"}` {
			t.Errorf("%s: %+v", body, err)
		}
	}
	if err := h.Serve(sdl.TypeReq, []byte(`{}`)).Wait().Err(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAMessageIsAnsweredOnceItsAnswerIsQueued(t *testing.T) {
	served := make(chan sdl.Message, 1)
	h := profiletest.New(t, newService(t, sdl.Options{Server: &scripted{served: served}}).Profile())
	for _, body := range []string{`{}`, `{"fault":"BAD_REQUEST"}`, `{"panic":true}`} {
		x := h.Serve(sdl.TypeReq, []byte(body))
		m := <-served
		<-m.Answered
		if n := len(x.Answers()); n != 1 && x.Err() == nil {
			t.Errorf("%s: %d answers when it is answered", body, n)
		}
		x.Wait()
	}
}

func TestEventsOfASessionAreHandledInOrder(t *testing.T) {
	const n = 100
	server := &scripted{wait: map[string]chan struct{}{"gate": make(chan struct{})}, served: make(chan sdl.Message, n)}
	h := profiletest.New(t, newService(t, sdl.Options{Server: server}).Profile())
	first := h.Serve(sdl.TypeEvt, []byte(`{"wait":"gate"}`))
	<-server.served
	var events []*profiletest.Exchange
	for i := range n {
		events = append(events, h.Serve(sdl.TypeEvt, fmt.Appendf(nil, `{"agent":"%d"}`, i)))
	}
	close(server.wait["gate"])
	first.Wait()
	for i, x := range events {
		if err := x.Wait().Err(); err != nil {
			t.Fatal(err)
		}
		if m := <-server.served; string(m.Body) != fmt.Sprintf(`{"agent":"%d"}`, i) {
			t.Fatalf("event %d: %s", i, m.Body)
		}
	}
}

func TestWhoWaitsLeavesRoomForOthers(t *testing.T) {
	server := &scripted{wait: map[string]chan struct{}{"gate": make(chan struct{})}, rest: true, served: make(chan sdl.Message, 1)}
	h := profiletest.New(t, newService(t, sdl.Options{Server: server}).Profile())
	var waiting []*profiletest.Exchange
	for range 4 * runtime.GOMAXPROCS(0) {
		waiting = append(waiting, h.Serve(sdl.TypeReq, []byte(`{"wait":"gate"}`)))
		<-server.served // and has its room
	}
	close(server.wait["gate"])
	for _, x := range waiting {
		if err := x.Wait().Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestMoreThanTheBoundAreRefused(t *testing.T) {
	server := &scripted{wait: map[string]chan struct{}{"gate": make(chan struct{})}, served: make(chan sdl.Message, 1)}
	p := newService(t, sdl.Options{Server: server, Handling: 1}).Profile()
	h := profiletest.New(t, p)
	first := h.Serve(sdl.TypeReq, []byte(`{"wait":"gate"}`))
	<-server.served
	x := h.Serve(sdl.TypeReq, []byte(`{}`)).Wait()
	err := x.Err()
	if err == nil || err.Code != profiles.RateLimitExceeded || !err.Retryable || !err.Pace {
		t.Fatalf("%+v", err)
	}
	if answer, ok := p.Refusal(x.Request(), err); !ok || string(answer.Payload) != `{"code":"BAD_REQUEST"}` {
		t.Errorf("answered %v with %q", ok, answer.Payload)
	}
	close(server.wait["gate"])
	first.Wait()
}

// What one identity sends, on however many sessions, does not keep another waiting.
func TestOneIdentityLeavesRoomForOthers(t *testing.T) {
	for _, rest := range []bool{false, true} { // while it computes, and while it waits
		server := &scripted{wait: map[string]chan struct{}{"gate": make(chan struct{})}, rest: rest}
		const each = 7
		many := 8 * max(1, runtime.GOMAXPROCS(0)/2) // more than there is room for computing
		p := newService(t, sdl.Options{Server: server, Handling: 2 * many}).Profile()
		var waiting []*profiletest.Exchange
		for range 2 * many / 8 {
			greedy := profiletest.NewAs(t, p, "spiffe://greedy")
			for range each {
				waiting = append(waiting, greedy.Serve(sdl.TypeReq, []byte(`{"wait":"gate"}`)))
			}
		}
		greedy := profiletest.NewAs(t, p, "spiffe://greedy")
		for _, typ := range []uint64{sdl.TypeReq, sdl.TypeEvt} {
			err := greedy.Serve(typ, []byte(`{}`)).Wait().Err()
			if err == nil || err.Code != profiles.RateLimitExceeded || !err.Retryable || !err.Pace {
				t.Errorf("one more than seven eighths of the room: %+v", err)
			}
		}
		if err := profiletest.NewAs(t, p, "spiffe://other").Serve(sdl.TypeReq, []byte(`{}`)).Wait().Err(); err != nil {
			t.Errorf("another identity: %v", err)
		}
		close(server.wait["gate"])
		for _, x := range waiting {
			if err := x.Wait().Err(); err != nil {
				t.Error(err)
			}
		}
		if err := greedy.Serve(sdl.TypeReq, []byte(`{}`)).Wait().Err(); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
	}
}

func TestRS28MessagesOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "sdl: messages", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		server := &scripted{rest: true, served: make(chan sdl.Message), wait: map[string]chan struct{}{
			fairtest.Alice: make(chan struct{}), fairtest.Mallory: make(chan struct{}),
		}}
		s := newService(t, sdl.Options{Server: server, Handling: 16})
		as := map[string]*profiletest.Harness{
			fairtest.Alice: profiletest.NewAs(t, s.Profile(), fairtest.Alice), fairtest.Mallory: profiletest.NewAs(t, s.Profile(), fairtest.Mallory),
		}
		take := func(who string) bool {
			x := as[who].Serve(sdl.TypeReq, []byte(`{"wait":"`+who+`"}`))
			if !x.Open() {
				if err := x.Err(); err.Code != profiles.RateLimitExceeded || who == fairtest.Mallory && err.Excused {
					t.Errorf("%s is refused with %+v", who, err)
				}
				return false
			}
			<-server.served
			return true
		}
		return take, func(who string) {
			used := s.Pools()[0].Used
			server.wait[who] <- struct{}{}
			for s.Pools()[0].Used == used {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

func TestADeadlineEndsTheWait(t *testing.T) {
	server := &scripted{wait: map[string]chan struct{}{"never": make(chan struct{})}}
	for name, o := range map[string]sdl.Options{
		"of the endpoint": {Server: server, Deadline: time.Millisecond},
		"of the message":  {Server: server},
	} {
		h := profiletest.New(t, newService(t, o).Profile())
		var ext e1.Extensions
		if o.Deadline == 0 {
			ext = e1.AppendExtensionUvarint(nil, profiles.ExtDeadline, 1)
		}
		err := h.Serve(sdl.TypeReq, []byte(`{"wait":"never"}`), ext...).Wait().Err()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || string(err.Answer.Payload) != `{"code":"INTERNAL"}` {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	server := &scripted{wait: map[string]chan struct{}{"never": make(chan struct{})}, served: make(chan sdl.Message, 2)}
	s := newService(t, sdl.Options{Server: server})
	h := profiletest.New(t, s.Profile())
	req, evt := h.Serve(sdl.TypeReq, []byte(`{"wait":"never"}`)), h.Serve(sdl.TypeEvt, []byte(`{"wait":"never"}`))
	<-server.served
	<-server.served
	s.Close()
	for _, x := range []*profiletest.Exchange{req, evt} {
		if err := x.Wait().Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if err := h.Serve(sdl.TypeReq, []byte(`{}`)).Wait().Err(); err == nil || err.Code != profiles.RateLimitExceeded {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAgentsAreFoundWhereTheySpokeLast(t *testing.T) {
	s := newService(t, sdl.Options{Server: &scripted{}, Agents: 2})
	h := profiletest.New(t, s.Profile())
	identity := h.Session().Peer().Identity
	say := func(h *profiletest.Harness, body string) { h.Serve(sdl.TypeReq, []byte(body)).Wait() }
	say(h, `{"agent":"a"}`)
	say(h, `{"agent":"refused","fault":"BAD_REQUEST"}`)
	if at, ok := s.Session(identity, "a"); !ok || at != h.Session() {
		t.Errorf("session %v, %v", at, ok)
	}
	for _, who := range [][2]string{{"spiffe://other", "a"}, {identity, "refused"}, {identity, "b"}} {
		if _, ok := s.Session(who[0], who[1]); ok {
			t.Errorf("%v is found", who)
		}
	}
	h2 := profiletest.New(t, s.Profile())
	say(h2, `{"agent":"a"}`)
	if at, _ := s.Session(identity, "a"); at != h2.Session() {
		t.Error("the agent is not where it spoke last")
	}
	for i := range 3 {
		say(h2, fmt.Sprintf(`{"agent":"more-%d"}`, i))
	}
	if _, ok := s.Session(identity, "more-0"); !ok {
		t.Error("the second agent is not found")
	}
	if _, ok := s.Session(identity, "more-1"); ok {
		t.Error("an agent above the bound is found")
	}
}

func TestNegativeBoundsAreRefused(t *testing.T) {
	for _, o := range []sdl.Options{{Deadline: -1}, {Handling: -1}, {Agents: -1}} {
		if _, err := sdl.New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestRS34ValuesTakeRoomUntilTheAnswer(t *testing.T) {
	var mu sync.Mutex
	left, excused, asked := 1<<20, false, 0
	server := &scripted{wait: map[string]chan struct{}{"gate": make(chan struct{})}, rest: true, served: make(chan sdl.Message, 4)}
	p := newService(t, sdl.Options{Server: server, Room: func(identity string, octets int) (func(), bool) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if identity != "spiffe://dense" {
			t.Errorf("asked for %s", identity)
		}
		if octets > left {
			return nil, excused
		}
		left -= octets
		return func() {
			mu.Lock()
			defer mu.Unlock()
			left += octets
		}, false
	}}).Profile()
	h := profiletest.NewAs(t, p, "spiffe://dense")
	dense := func(values int) []byte { return []byte(`{"wait":"gate","x":[` + strings.Repeat("0,", values) + `0]}`) }
	if err := profiletest.NewAs(t, p, "spiffe://small").Serve(sdl.TypeReq, []byte(`{"x":[0,1,2]}`)).Wait().Err(); err != nil {
		t.Error(err)
	}
	<-server.served
	first := h.Serve(sdl.TypeReq, dense(15_000))
	<-server.served // and waits, without computing
	for _, typ := range []uint64{sdl.TypeReq, sdl.TypeEvt} {
		for _, excused = range []bool{false, true} {
			x := h.Serve(typ, dense(15_000)).Wait()
			if err := x.Err(); err == nil || err.Code != profiles.RateLimitExceeded || !err.Retryable || !err.Pace || err.Excused != excused {
				t.Errorf("without room: %+v", err)
			} else if answer, ok := p.Refusal(x.Request(), err); ok != (typ == sdl.TypeReq) || ok && string(answer.Payload) != `{"code":"BAD_REQUEST"}` {
				t.Errorf("answered %v with %q", ok, answer.Payload)
			}
		}
	}
	close(server.wait["gate"])
	if err := first.Wait().Err(); err != nil {
		t.Error(err)
	}
	if err := h.Serve(sdl.TypeReq, dense(15_000)).Wait().Err(); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	<-server.served
	for {
		mu.Lock()
		done := left == 1<<20
		mu.Unlock()
		if done {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if asked != 6 {
		t.Errorf("room is asked for %d times, want 6: not for the small message", asked)
	}
}
