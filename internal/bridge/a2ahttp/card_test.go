package a2ahttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

// ask returns the card as AGDISC would tell it.
func (b *back) ask(t *testing.T) (agdisc.Card, error) {
	t.Helper()
	type answer struct {
		card agdisc.Card
		err  error
	}
	done := make(chan answer, 1)
	if !b.Card("agent", func(card agdisc.Card, err error) { done <- answer{card, err} }) {
		t.Fatal("the agent is not this source's")
	}
	select {
	case a := <-done:
		return a.card, a.err
	case <-time.After(patience):
		t.Fatal("no answer")
		return agdisc.Card{}, nil
	}
}

const octets = "\n{ \"name\":\"x\",\"version\":\"1.2\",\r\n \"signatures\":[{\"n\":9007199254740993}], \"version\":\"1.2\" }\n"

func TestTheCardIsToldOctetForOctetAndRevalidated(t *testing.T) {
	var status atomic.Int32
	agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ asked) {
		w.Header().Set("Cache-Control", "public, max-age=100")
		w.Header().Set("Age", "40")
		switch {
		case status.Load() != 0:
			w.WriteHeader(int(status.Load()))
		case r.Header.Get("If-None-Match") == `W/"7"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `W/"7"`)
			_, _ = io.WriteString(w, octets)
		}
	})
	var mu sync.Mutex
	now := time.Unix(0, 0)
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	b := newBack(t, BackOptions{URL: agent.URL + "/deep/path", Binding: REST, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	if list := b.Agents(); len(list) != 1 || list[0].AgentID != "agent" || list[0].Revision != "" {
		t.Errorf("%+v", list)
	}
	if b.Card("another", nil) {
		t.Error("it has the card of another")
	}
	want := func(age time.Duration, asked int) {
		t.Helper()
		card, err := b.ask(t)
		if err != nil || string(card.Payload) != octets || card.ETag != agdisc.HashOf([]byte(octets)) || card.Revision != "1.2" || card.MaxAge != age {
			t.Errorf("%+v, %v; want max_age %v", card, err, age)
		}
		if n := len(agent.asked()); n != asked {
			t.Errorf("asked %d times, want %d", n, asked)
		}
	}
	want(time.Minute, 1)
	pass(59 * time.Second)
	want(time.Second, 1)
	pass(time.Second)
	want(time.Minute, 2)
	if q := agent.asked()[1]; q.uri != "/.well-known/agent-card.json" || q.header.Get("If-None-Match") != `W/"7"` || q.header.Get("A2A-Version") != "" {
		t.Errorf("%s %v", q.uri, q.header)
	}
	if list := b.Agents(); list[0].Revision != "1.2" {
		t.Errorf("%+v", list)
	}

	status.Store(503) // it stays what it was
	pass(time.Hour)
	want(0, 3)
	want(0, 3) // and the server has its quiet
	pass(cardQuiet)
	want(0, 4)
	pass(cardStale)
	if _, err := b.ask(t); !errors.Is(err, errRefused) {
		t.Errorf("a card of yesterday: %v", err)
	}
	status.Store(404)
	pass(cardQuiet)
	if _, err := b.ask(t); !errors.As(err, new(*profiles.PeerError)) {
		t.Errorf("no card: %v", err)
	}
	status.Store(0)
	pass(cardQuiet)
	want(time.Minute, 7)
	status.Store(410)
	pass(time.Minute)
	if _, err := b.ask(t); !errors.As(err, new(*profiles.PeerError)) {
		t.Errorf("a card that was taken back is told: %v", err)
	}
}

func TestFreshness(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": cardAge, "max-age=5": 5 * time.Second, "no-store": 0, "max-age=9, no-cache": 0, `MAX-AGE="7"`: 7 * time.Second,
		"max-age=99999999": cardMaxAge, "max-age=-1": cardAge, "max-age=999999999999999999999": cardAge, "private": cardAge,
	} {
		if got := freshFor(http.Header{"Cache-Control": {value}}); got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
	if got := freshFor(http.Header{"Age": {"3600"}}); got != 0 {
		t.Errorf("an old one: %v", got)
	}
}

func TestPR17CardsThatAreNoneAreNotTold(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "text": "hello", "a list": "[]", "too large": `{"x":"` + strings.Repeat("x", agdisc.MaxCard) + `"}`,
	} {
		agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) { _, _ = io.WriteString(w, body) })
		b := newBack(t, BackOptions{URL: agent.URL, Binding: REST})
		if card, err := b.ask(t); err == nil {
			t.Errorf("%s: %+v", name, card)
		}
	}
}

func TestWhatManyAskForIsAskedOnce(t *testing.T) {
	release := make(chan struct{})
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) {
		<-release
		_, _ = io.WriteString(w, octets)
	})
	b := newBack(t, BackOptions{URL: agent.URL, Binding: REST})
	done := make(chan error, cardWaiting)
	for range cardWaiting {
		b.Card("agent", func(_ agdisc.Card, err error) { done <- err })
	}
	if _, err := b.ask(t); !errors.Is(err, errCards) {
		t.Errorf("one more: %v", err)
	}
	close(release)
	for range cardWaiting {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := len(agent.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestTheCardChoosesTheBinding(t *testing.T) {
	for binding, path := range map[string]string{"JSONRPC": "/rpc", "HTTP+JSON": "/rest/message:send"} {
		agent := newAgent(t, func(w http.ResponseWriter, r *http.Request, q asked) {
			switch {
			case r.URL.Path == cardPath:
				base := "http://" + r.Host
				_, _ = io.WriteString(w, `{"supportedInterfaces":[
					{"url":"http://elsewhere.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
					{"url":"`+base+map[string]string{"JSONRPC": "/rpc", "HTTP+JSON": "/rest"}[binding]+`","protocolBinding":"`+binding+`","protocolVersion":"1.0"}]}`)
			case q.id != "":
				answer(w, q, `{}`)
			default:
				_, _ = io.WriteString(w, `{}`)
			}
		})
		b := newBack(t, BackOptions{URL: agent.URL})
		b.mustRun(taskFrom(alice, a2abinding.SendMessage, `{}`))
		if list := agent.asked(); len(list) != 2 || list[1].uri != path {
			t.Errorf("%s: %+v", binding, list)
		}
	}
}

func TestAProbeAsksForTheCardOnly(t *testing.T) {
	for status, answers := range map[int]int64{http.StatusOK: 1, http.StatusNotFound: 1, http.StatusServiceUnavailable: 0} {
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != cardPath {
				t.Errorf("%s was asked for", r.URL.Path)
			}
			asked.Add(1)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{}`))
		}))
		b := newBack(t, BackOptions{URL: s.URL, Binding: JSONRPC})
		for range 2 { // also of a card that is fresh
			b.Probe(t.Context())
		}
		if asked.Load() != 2 || b.answers.Load() != 2*answers || int64(len(b.troubles)) != 2-2*answers {
			t.Errorf("status %d: asked %d times, %d answers, %d troubles", status, asked.Load(), b.answers.Load(), len(b.troubles))
		}
		b.Close()
		b.Probe(t.Context())
		s.Close()
	}
}
