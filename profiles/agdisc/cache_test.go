package agdisc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/profiletest"
)

// agent answers what it is asked as the test wants it, and counts.
type agent struct {
	mu    sync.Mutex
	asked []string // agent_id and if_none_match
	reply func(in agdisc.Get) message
	hold  bool // the answers, until release
	held  []func()
}

func (a *agent) profile() *profiles.Profile {
	p := *agdisc.New(agdisc.Options{}).Profile()
	p.Handler = profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		held, w, err := req.Hold()
		if err != nil {
			return err
		}
		var in agdisc.Get
		if err := in.Decode(held.Payload); err != nil {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, string(in.AgentID)+" "+string(in.IfNoneMatch))
		answer := func() {
			m := a.reply(in)
			types := map[string]uint64{"*agdisc.Doc": agdisc.TypeDoc, "*agdisc.NotModified": agdisc.TypeNotModified, "*agdisc.Err": agdisc.TypeErr}
			_ = w.Finish(e1.Envelope{MsgType: types[fmt.Sprintf("%T", m)], Payload: m.Append(nil)})
		}
		if a.hold {
			a.held = append(a.held, answer)
			context.AfterFunc(w.Context(), func() { w.Fail(nil) })
			return nil
		}
		answer()
		return nil
	})
	return &p
}

func (a *agent) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answer := range a.held {
		answer()
	}
	a.held = nil
}

// answerOne answers the oldest question that is held, and reports whether there was one.
func (a *agent) answerOne() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) == 0 {
		return false
	}
	a.held[0]()
	a.held = a.held[1:]
	return true
}

// questions returns what was asked since it was called last.
func (a *agent) questions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// doc is a good DOC for what is asked.
func doc(in agdisc.Get, etag string, maxAge time.Duration) *agdisc.Doc {
	return &agdisc.Doc{
		AgentID: in.AgentID, SchemaRevision: []byte("v1"), CardPayload: []byte("card of " + string(in.AgentID)),
		ETag: []byte(etag), MaxAgeMs: uint64(maxAge.Milliseconds()),
	}
}

// connect returns a session with the agent at its other end.
func connect(t *testing.T, a *agent) profiles.Session { return connectAs(t, a, "spiffe://test/agents") }

func connectAs(t *testing.T, a *agent, identity string) profiles.Session {
	t.Helper()
	ours, err := profiles.NewRegistry(agdisc.New(agdisc.Options{}).Profile())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := profiles.NewRegistry(a.profile())
	if err != nil {
		t.Fatal(err)
	}
	here, there := profiletest.Pair("spiffe://test/us", ours, identity, theirs, profiletest.SessionOptions{})
	t.Cleanup(func() {
		here.Close()
		here.Wait()
		there.Wait()
	})
	return here
}

func newCache(t *testing.T, opts agdisc.CacheOptions) *agdisc.Cache {
	c := agdisc.NewCache(opts)
	t.Cleanup(c.Close)
	return c
}

// inBubble runs a test in virtual time; its cleanups run inside.
func inBubble(t *testing.T, test func(*testing.T)) { synctest.Test(t, test) }

func TestCardsAreAskedForWhenTheyAreOld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		etag := "one"
		a := &agent{reply: func(in agdisc.Get) message {
			if string(in.IfNoneMatch) == etag {
				return &agdisc.NotModified{AgentID: in.AgentID, ETag: in.IfNoneMatch}
			}
			return doc(in, etag, time.Minute)
		}}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
		step := func(wait time.Duration, wantETag string, wantAge time.Duration, wantAsked ...string) {
			t.Helper()
			time.Sleep(wait) // virtual
			card, err := cache.Get(t.Context(), session, "demo")
			if err != nil {
				t.Fatal(err)
			}
			if card.ETag != wantETag || card.MaxAge != wantAge || string(card.Payload) != "card of demo" || card.Revision != "v1" {
				t.Errorf("card %+v, want etag %s and an age of %v", card, wantETag, wantAge)
			}
			if diff := cmp.Diff(wantAsked, a.questions()); diff != "" {
				t.Errorf("asked:\n%s", diff)
			}
		}
		step(0, "one", time.Minute, "demo ")
		step(0, "one", time.Minute)
		step(time.Minute-time.Millisecond, "one", time.Millisecond)
		step(time.Millisecond, "one", time.Minute, "demo one") // not modified, which renews it
		step(time.Minute-1, "one", 1)
		etag = "two"
		step(1, "two", time.Minute, "demo one")
		step(59*time.Second, "two", time.Second)
	})
}

func TestCardsWithoutAnAgeAreAskedForEachTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message {
			if len(in.IfNoneMatch) > 0 {
				return &agdisc.NotModified{AgentID: in.AgentID, ETag: in.IfNoneMatch}
			}
			return doc(in, "e", 0)
		}}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
		for i, want := range []string{"demo ", "demo e", "demo e"} {
			card, err := cache.Get(t.Context(), session, "demo")
			if err != nil || card.MaxAge != 0 || string(card.Payload) != "card of demo" {
				t.Fatalf("card %+v, error %v", card, err)
			}
			if asked := a.questions(); len(asked) != 1 || asked[0] != want {
				t.Errorf("%d: asked %q, want %q", i, asked, want)
			}
		}
	})
}

func TestACardWithoutAnETagHasThatOfItsOctets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message { return doc(in, "", 0) }}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
		for range 2 {
			card, err := cache.Get(t.Context(), session, "demo")
			if err != nil || card.ETag != agdisc.HashOf(card.Payload) {
				t.Errorf("card %+v, error %v", card, err)
			}
			// The peer has told no etag, so there is none to ask it about.
			if asked := a.questions(); len(asked) != 1 || asked[0] != "demo " {
				t.Errorf("asked %q", asked)
			}
		}
	})
}

func TestAnAgeIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message {
			m := doc(in, "e", 0)
			m.MaxAgeMs = 1<<64 - 1
			return m
		}}
		card, err := newCache(t, agdisc.CacheOptions{}).Get(t.Context(), connect(t, a), "demo")
		if err != nil || card.MaxAge != 7*24*time.Hour {
			t.Errorf("card of age %v, error %v", card.MaxAge, err)
		}
	})
}

func TestPR17AnswersToAnotherQuestionAreRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		first message // nil: nothing is held before
		then  func(in agdisc.Get) message
	}{
		{name: "not modified, though nothing was sent", then: func(in agdisc.Get) message {
			return &agdisc.NotModified{AgentID: in.AgentID, ETag: []byte("e")}
		}},
		{name: "not modified, with another etag", first: &agdisc.Doc{}, then: func(in agdisc.Get) message {
			return &agdisc.NotModified{AgentID: in.AgentID, ETag: []byte("foreign")}
		}},
		{name: "not modified, of another agent", first: &agdisc.Doc{}, then: func(in agdisc.Get) message {
			return &agdisc.NotModified{AgentID: []byte("other"), ETag: in.IfNoneMatch}
		}},
		{name: "the card of another agent", then: func(agdisc.Get) message {
			return doc(agdisc.Get{AgentID: []byte("other")}, "e", time.Hour)
		}},
		{name: "a card without a revision", then: func(in agdisc.Get) message {
			m := doc(in, "e", time.Hour)
			m.SchemaRevision = nil
			return m
		}},
		{name: "a card of too many octets", then: func(in agdisc.Get) message {
			m := doc(in, "e", time.Hour)
			m.CardPayload = make([]byte, agdisc.MaxCard+1)
			return m
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &agent{reply: func(in agdisc.Get) message { return doc(in, "e", time.Second) }}
				session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
				if test.first != nil {
					if _, err := cache.Get(t.Context(), session, "demo"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second) // virtual
				}
				a.reply = test.then
				var fault *profiles.Error
				if _, err := cache.Get(t.Context(), session, "demo"); !errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload {
					t.Errorf("error %v, want ERR_INVALID_PROFILE_PAYLOAD", err)
				}
			})
		})
	}
}

func TestAnAgentThatHasNoCardIsLeftAloneForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		has := false
		a := &agent{reply: func(in agdisc.Get) message {
			if has {
				return doc(in, "e", time.Minute)
			}
			return &agdisc.Err{Code: []byte(agdisc.CodeNotFound)}
		}}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{Silence: 2 * time.Second})
		for range 3 {
			var none *profiles.PeerError
			if _, err := cache.Get(t.Context(), session, "demo"); !errors.As(err, &none) || none.Code != agdisc.CodeNotFound {
				t.Fatalf("error %v, want NOT_FOUND", err)
			}
		}
		if n := len(a.questions()); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		has = true
		time.Sleep(2 * time.Second) // virtual
		if _, err := cache.Get(t.Context(), session, "demo"); err != nil {
			t.Error(err)
		}
	})
}

func TestACardThatIsGoneIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message { return doc(in, "e", 0) }}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{Silence: time.Nanosecond})
		if _, err := cache.Get(t.Context(), session, "demo"); err != nil {
			t.Fatal(err)
		}
		a.reply = func(agdisc.Get) message { return &agdisc.Err{Code: []byte(agdisc.CodeNotFound)} }
		if _, err := cache.Get(t.Context(), session, "demo"); !errors.As(err, new(*profiles.PeerError)) {
			t.Errorf("error %v, want NOT_FOUND", err)
		}
		time.Sleep(time.Second) // virtual
		a.questions()
		_, _ = cache.Get(t.Context(), session, "demo")
		if asked := a.questions(); len(asked) != 1 || asked[0] != "demo " {
			t.Errorf("asked %q, want no etag of the card that was", asked)
		}
	})
}

func TestManyWhoWantACardAskOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message { return doc(in, "e", time.Minute) }, hold: true}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if card, err := cache.Get(t.Context(), session, "demo"); err != nil || card.MaxAge != time.Minute {
					t.Errorf("card %+v, error %v", card, err)
				}
			})
		}
		synctest.Wait()
		a.release()
		all.Wait()
		if n := len(a.questions()); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

func TestQuestionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message { return doc(in, "e", time.Minute) }, hold: true}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{Asking: 2})
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				if _, err := cache.Get(t.Context(), session, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := cache.Get(t.Context(), session, "third"); profiles.AsError(err).Code != profiles.RateLimitExceeded {
			t.Errorf("the third question: %v, want ERR_RATE_LIMIT_EXCEEDED", err)
		}
		a.release()
		all.Wait()
		a.hold = false
		if _, err := cache.Get(t.Context(), session, "third"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestRS27AgentsOfOneIdentityThatAreSilentLeaveQuestionsForAnother(t *testing.T) {
	fairtest.Places(t, "agdisc: questions for cards", "questions of 16", func(t *testing.T) (func(string) bool, func(string)) {
		cache := newCache(t, agdisc.CacheOptions{Asking: 16, Timeout: time.Hour})
		agents, sessions, answered := map[string]*agent{}, map[string]profiles.Session{}, map[string]chan error{}
		for _, who := range []string{fairtest.Alice, fairtest.Mallory} {
			agents[who] = &agent{reply: func(in agdisc.Get) message { return doc(in, "e", time.Minute) }, hold: true}
			sessions[who], answered[who] = connectAs(t, agents[who], who), make(chan error, 16)
		}
		n := 0
		take := func(who string) bool {
			n++
			refused := make(chan error, 1)
			cache.Find(sessions[who], fmt.Sprint(n), func(_ agdisc.Card, err error) {
				if profiles.AsError(err).Code == profiles.RateLimitExceeded {
					refused <- err
				} else {
					answered[who] <- err
				}
			})
			select {
			case <-refused:
				return false
			default:
				return true
			}
		}
		return take, func(who string) {
			for !agents[who].answerOne() {
				time.Sleep(time.Millisecond) // the question is on its way
			}
			if err := <-answered[who]; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAnAgentThatSaysNothingIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{hold: true}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{Timeout: 5 * time.Second})
		began := time.Now()
		if _, err := cache.Get(t.Context(), session, "demo"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		// Who asks at once hears the same without waiting.
		if _, err := cache.Get(t.Context(), session, "demo"); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}

func TestWhoDoesNotWaitAnyLongerDoesNotEndTheQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message { return doc(in, "e", time.Minute) }, hold: true}
		session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cache.Get(ctx, session, "demo"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		a.release()
		synctest.Wait()
		if card, err := cache.Get(t.Context(), session, "demo"); err != nil || card.MaxAge != time.Minute {
			t.Errorf("card %+v, error %v", card, err)
		}
		if n := len(a.questions()); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

func TestRS08CachesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{reply: func(in agdisc.Get) message {
			m := doc(in, "e", time.Hour)
			m.CardPayload = []byte(strings.Repeat("x", 100))
			return m
		}}
		session := connect(t, a)
		for name, opts := range map[string]agdisc.CacheOptions{"cards": {Cards: 3}, "octets": {Octets: 399}} {
			cache := newCache(t, opts)
			want := func(agentID string, asked int) {
				t.Helper()
				if _, err := cache.Get(t.Context(), session, agentID); err != nil {
					t.Fatal(err)
				}
				if n := len(a.questions()); n != asked {
					t.Errorf("%s: %s: asked %d times, want %d", name, agentID, n, asked)
				}
			}
			for _, id := range []string{"a", "b", "c"} {
				want(id, 1)
			}
			want("a", 0)
			want("d", 1) // in place of b, which was wanted longest ago
			for _, id := range []string{"a", "c", "d"} {
				want(id, 0)
			}
			want("b", 1)
		}
	})
}

func TestACacheThatIsClosedAsksNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{hold: true}
		session, cache := connect(t, a), agdisc.NewCache(agdisc.CacheOptions{})
		got := make(chan error, 1)
		cache.Find(session, "demo", func(_ agdisc.Card, err error) { got <- err })
		synctest.Wait()
		cache.Close()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("what was asked: %v", err)
		}
		if _, err := cache.Get(t.Context(), session, "demo"); err == nil {
			t.Error("a closed cache has cards")
		}
	})
}

// here has the agents of one session.
type here map[string]profiles.Session

func (h here) AgentIDs() (list []string) {
	for id := range h {
		list = append(list, id)
	}
	return list
}

func (h here) Session(agentID string) (profiles.Session, bool) { s, ok := h[agentID]; return s, ok }

func TestCardsOfSessionsAreThoseOfTheirAgents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, test := range []struct {
			name  string
			reply func(in agdisc.Get) message
			hold  bool
			types []uint64 // of the answers; none where it is refused
			code  profiles.Code
			says  string // code of the AGDISC_ERR
		}{
			{name: "a card", reply: func(in agdisc.Get) message { return doc(in, "e", time.Hour) }, types: []uint64{agdisc.TypeDoc}},
			{name: "none", reply: func(agdisc.Get) message { return &agdisc.Err{Code: []byte("ODD")} }, code: profiles.NotFound, says: agdisc.CodeNotFound},
			{name: "no card", reply: func(in agdisc.Get) message { return &agdisc.Doc{AgentID: in.AgentID} }, code: profiles.Internal, says: agdisc.CodeInvalidCard},
			{name: "not a word", hold: true, code: profiles.Internal, says: agdisc.CodeInternal},
		} {
			a := &agent{reply: test.reply, hold: test.hold}
			session, cache := connect(t, a), newCache(t, agdisc.CacheOptions{})
			service := agdisc.New(agdisc.Options{Sources: []agdisc.Source{agdisc.NewSessions(here{"demo": session}, cache, nil)}})
			x := profiletest.New(t, service.Profile()).Serve(agdisc.TypeGet, get("demo", "")).Wait()
			var types []uint64
			for _, env := range x.Answers() {
				types = append(types, env.MsgType)
			}
			if diff := cmp.Diff(test.types, types); diff != "" {
				t.Errorf("%s: answers:\n%s", test.name, diff)
			}
			fault := x.Err()
			if test.code == profiles.OK {
				if fault != nil {
					t.Errorf("%s: refused: %v", test.name, fault)
				}
				continue
			}
			if fault == nil || fault.Code != test.code || !fault.Domain {
				t.Fatalf("%s: %v, want %v as an answer of the domain", test.name, fault, test.code)
			}
			answer := fault.Answer
			if answer.MsgType == 0 {
				answer, _ = service.Profile().Refusal(x.Request(), fault)
			}
			var m agdisc.Err
			if err := m.Decode(answer.Payload); err != nil || string(m.Code) != test.says {
				t.Errorf("%s: the peer is told %q, error %v, want %q", test.name, m.Code, err, test.says)
			}
		}
	})
}

func TestAnAgentOfASessionIsListedAndNotAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &agent{}
		service := agdisc.New(agdisc.Options{Sources: []agdisc.Source{
			table(t, card), agdisc.NewSessions(here{"afar": connect(t, a)}, newCache(t, agdisc.CacheOptions{}), nil),
		}})
		want := []agdisc.Entry{{AgentID: "afar"}, {AgentID: "demo", Revision: "1.2"}}
		if diff := cmp.Diff(want, list(t, service, agdisc.ListParams{}).Agents); diff != "" {
			t.Error(diff)
		}
		if asked := a.questions(); asked != nil {
			t.Errorf("asked %q", asked)
		}
	})
}
