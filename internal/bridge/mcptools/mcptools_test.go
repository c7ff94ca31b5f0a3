package mcptools_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcptools"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// odd is a tool whose octets no encoder would write.
const odd = "{ \"name\" : \"o\\u0064d\",\"inputSchema\": { \"type\":\"object\", \"n\":9007199254740993, \"n\":1.0 }, \"x\":1e400 }"

const plain = `{"name":"plain","inputSchema":{"type":"object"}}`

// eras runs a test with a server of each era, in virtual time.
func eras(t *testing.T, test func(t *testing.T, modern bool)) {
	for name, modern := range map[string]bool{"with sessions": false, "stateless": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, modern) }) })
	}
}

func TestToolsAreReadOctetForOctetFromAllPages(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &server{modern: modern, version: "1.2.3", tools: []string{odd, plain, odd, plain, plain}, perPage: 2}
		f := follow(t, s, mcptools.Options{})
		f.want("1.2.3", s.tools...)
		if err := <-f.ended; err != nil {
			t.Errorf("a server that does not tell of changes: %v, want nil", err)
		}
		want := "server/discover?, initialize, notifications/initialized" + strings.Repeat(", tools/list", 3)
		if modern {
			want = "server/discover" + strings.Repeat(", tools/list", 3)
		}
		if got := s.methods(); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		if n := s.open(); n != 0 {
			t.Errorf("%d sessions are left open", n)
		}
	})
}

func TestChangesAreReadWhenTheServerTells(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &server{modern: modern, tools: []string{plain}, tells: true}
		f := follow(t, s, mcptools.Options{})
		f.want("", plain)
		s.methods()
		time.Sleep(time.Hour/2 - time.Minute) // virtual
		synctest.Wait()
		for len(f.told) > 0 { // read again every five minutes, in case that a change was not told
			<-f.told
		}
		s.methods()
		s.change(1, odd, plain)
		time.Sleep(time.Second) // virtual
		f.want("", odd, plain)
		s.change(100, odd)
		time.Sleep(time.Second) // virtual: so many are told once
		f.want("", odd)
		time.Sleep(3 * time.Second) // virtual
		f.silence()
		if got := s.methods(); got != "tools/list, tools/list" {
			t.Errorf("asked %s", got)
		}
		if err := f.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if n := s.open(); n != 0 {
			t.Errorf("%d sessions are left open", n)
		}
	})
}

func TestAServerThatChangesAllTheTimeIsReadOnceASecond(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &server{modern: modern, tools: []string{plain}, tells: true}
		f := follow(t, s, mcptools.Options{})
		f.want("", plain)
		for range 100 {
			s.change(1, plain)
			time.Sleep(50 * time.Millisecond) // virtual
		}
		synctest.Wait()
		if n := len(f.told); n < 4 || n > 5 {
			t.Errorf("read %d times in 5 s, want 4 or 5", n)
		}
		_ = f.end()
	})
}

func TestWhatIsNotToldIsReadAfterAWhile(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &server{modern: modern, tools: []string{plain}, tells: true}
		f := follow(t, s, mcptools.Options{Refresh: 5 * time.Minute})
		f.want("", plain)
		s.change(0, odd)
		time.Sleep(5*time.Minute + time.Second) // virtual
		f.want("", odd)
		_ = f.end()
	})
}

func TestNothingIsKeptOpenOfAServerWithoutRoom(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &server{modern: modern, tools: []string{plain}, tells: true}
		f := follow(t, s, mcptools.Options{Brief: true})
		f.want("", plain)
		if err := <-f.ended; err != nil {
			t.Error(err)
		}
		if n := s.open(); n != 0 || len(s.listens) != 0 {
			t.Errorf("%d sessions and %d subscriptions are left open", n, len(s.listens))
		}
	})
}

func TestWhateverDiscoverAnswersElseMeansSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]*server{
			"refused with its versions": {},
			"an error":                  {modern: true, broken: "server/discover"},
			"not a word":                {modern: true, silent: "server/discover"},
		} {
			s.tools = []string{plain}
			f := follow(t, s, mcptools.Options{Call: 30 * time.Second})
			if s.silent != "" {
				time.Sleep(30 * time.Second) // virtual
			}
			f.want("", plain)
			if err := <-f.ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := s.methods(); !strings.Contains(got, "initialize") {
				t.Errorf("%s: asked %s", name, got)
			}
		}
	})
}

func TestAServerWithoutSubscriptionsIsReadAndLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]*server{
			"unknown method":      {broken: "subscriptions/listen"},
			"nothing is promised": {refuses: true},
		} {
			s.modern, s.tells, s.tools = true, true, []string{plain}
			f := follow(t, s, mcptools.Options{})
			f.want("", plain)
			if err := <-f.ended; err != nil {
				t.Errorf("%s: %v, want nil", name, err)
			}
		}
	})
}

func TestASubscriptionThatEndsIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{modern: true, tells: true, tools: []string{plain}}
		f := follow(t, s, mcptools.Options{})
		f.want("", plain)
		s.answer(s.listens[0], `{}`)
		if err := <-f.ended; err == nil {
			t.Error("ended with nil, want an error")
		}
	})
}

func TestASubscriptionIsCancelledWhenNobodyFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{modern: true, tells: true, tools: []string{plain}}
		f := follow(t, s, mcptools.Options{})
		f.want("", plain)
		cancelled := make(chan struct{})
		s.listens[0].OnCancel(func([]byte) { close(cancelled) })
		_ = f.end()
		<-cancelled
	})
}

func TestServersWithoutToolsHaveNone(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &server{modern: modern, none: true}
		f := follow(t, s, mcptools.Options{})
		f.want("")
		if err := <-f.ended; err != nil {
			t.Error(err)
		}
		if got := s.methods(); strings.Contains(got, "tools/list") {
			t.Errorf("asked %s", got)
		}
	})
}

func TestFailuresAreTold(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		for name, s := range map[string]*server{
			"tools/list fails":          {broken: "tools/list"},
			"tools/list is silent":      {silent: "tools/list"},
			"a page that is no object":  {tools: []string{`1],"nextCursor":[1`}},
			"the same page for ever":    {tools: []string{`1],"nextCursor":"x","y":[`}},
			"subscription is not acked": {silent: "subscriptions/listen", tells: true, tools: []string{plain}},
		} {
			if s.silent == "subscriptions/listen" && !modern {
				continue
			}
			s.modern = modern
			f := follow(t, s, mcptools.Options{})
			if err := <-f.ended; err == nil {
				t.Errorf("%s: nil, want an error", name)
			}
			f.silence()
		}
	})
}

func TestEndlessServersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{perPage: 1000}
		for i := range 3 * tooldisc.MaxServerTools {
			s.tools = append(s.tools, fmt.Sprintf(`{"name":"t%d"}`, i))
		}
		f := follow(t, s, mcptools.Options{})
		synctest.Wait()
		l := <-f.told
		if n := len(l.Tools); n <= tooldisc.MaxServerTools || n > tooldisc.MaxServerTools+1000 {
			t.Errorf("%d tools are read, want a few more than %d", n, tooldisc.MaxServerTools)
		}
		<-f.ended
	})
}

func TestASessionAnswersWhatTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{tells: true, tools: []string{plain}}
		f := follow(t, s, mcptools.Options{})
		f.want("", plain)
		for question, want := range map[string]string{
			`{"jsonrpc":"2.0","id":"a\"1","method":"ping"}`:    `{"jsonrpc":"2.0","id":"a\"1","result":{}}`,
			`{"jsonrpc":"2.0","id":1.0,"method":"roots/list"}`: `{"jsonrpc":"2.0","id":1.0,"error":{"code":-32601,"message":"this client has no capabilities"}}`,
		} {
			var m mcpmap.Message
			if err := m.Scan([]byte(question)); err != nil {
				t.Fatal(err)
			}
			answer := make(chan string, 1)
			s.sessions[0].client.Request(nil, &m, func(octets []byte) { answer <- string(octets) })
			if got := <-answer; got != want {
				t.Errorf("%s: %s, want %s", question, got, want)
			}
		}
		_ = f.end()
	})
}

func TestAConnectionThatFailsIsAFailure(t *testing.T) {
	fault := errors.New("no room")
	r := mcptools.New(mcptools.Options{Target: "x", Connect: func() (*mcpmap.Client, func(), error) { return nil, nil, fault }})
	if err := r.Follow(t.Context(), nil); !errors.Is(err, fault) {
		t.Errorf("error %v", err)
	}
}
