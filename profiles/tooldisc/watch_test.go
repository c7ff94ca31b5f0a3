package tooldisc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/tooldisc"
)

func synctestRun(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// dial returns a session of an identity with a service at its other end.
func dial(t *testing.T, s *tooldisc.Service, identity string) profiles.Session {
	t.Helper()
	ours, err := profiles.NewRegistry(newService(t, tooldisc.Options{}).Profile())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := profiles.NewRegistry(s.Profile())
	if err != nil {
		t.Fatal(err)
	}
	here, there := profiletest.Pair(identity, ours, "spiffe://test/server", theirs, profiletest.SessionOptions{})
	t.Cleanup(func() {
		here.Close()
		here.Wait()
		there.Wait()
	})
	return here
}

func schemaOf(name string) string {
	return `{ "type": "object", "title": "` + name + `", "n": 9007199254740993 }`
}

// octets are a tool as no encoder would write it.
func octets(name string) string {
	return `{"inputSchema":` + schemaOf(name) + ` , "name" : "` + name + `", "x": 1e999}`
}

func raw(names ...string) (list []json.RawMessage) {
	for _, name := range names {
		list = append(list, json.RawMessage(octets(name)))
	}
	return list
}

// server is a tooldisc.Server as the test wants it.
type server struct {
	mu      sync.Mutex
	listing tooldisc.Listing
	delay   time.Duration // until the first listing
	fault   error         // in place of it
	leave   bool          // Follow returns after the first listing
	tell    func(tooldisc.Listing)
	begun   []time.Time // when Follow was called
	running int
	most    int // at once
	gauge   *gauge
}

// gauge counts those that are read at once.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func newServer() *server { return &server{} }

func (s *server) set(l tooldisc.Listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = l
	if s.tell != nil {
		s.tell(l)
	}
}

func (s *server) Follow(ctx context.Context, tell func(tooldisc.Listing)) error {
	s.mu.Lock()
	s.begun = append(s.begun, time.Now())
	s.running++
	s.most = max(s.most, s.running)
	delay, fault, leave := s.delay, s.fault, s.leave
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		s.tell = nil
	}()
	if s.gauge != nil {
		s.gauge.add(1)
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	if s.gauge != nil {
		s.gauge.add(-1)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fault != nil {
		return fault
	}
	s.mu.Lock()
	tell(s.listing)
	if !leave {
		s.tell = tell
	}
	s.mu.Unlock()
	if leave {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// starts returns how often Follow was called.
func (s *server) starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.begun)
}

func (s *server) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running > 0
}

// ids returns the tool_ids that a peer is told.
func ids(t *testing.T, session profiles.Session) (list []string) {
	t.Helper()
	for tool, err := range tooldisc.List(t.Context(), session, tooldisc.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, tool.ID)
	}
	return list
}

func TestToolsOfServersAppearByThemselvesOctetForOctet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.set(tooldisc.Listing{Version: "2.1", Tools: raw("read", "a/b")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}})
		session := dial(t, service, "spiffe://test/a")
		if got := ids(t, session); !slices.Equal(got, []string{"files/a/b", "files/read"}) {
			t.Fatalf("tools %v", got)
		}
		got, err := tooldisc.Find(t.Context(), session, "files/read", "")
		if err != nil {
			t.Fatal(err)
		}
		want := tooldisc.Tool{ID: "files/read", Name: "read", Version: "2.1", SchemaRef: tooldisc.RefOf([]byte(schemaOf("read"))), Payload: []byte(octets("read"))}
		if got.ID != want.ID || got.Name != want.Name || got.Version != want.Version || got.SchemaRef != want.SchemaRef || string(got.Payload) != string(want.Payload) {
			t.Errorf("%+v, want %+v", got, want)
		}
		// A change is told without being asked for.
		s.set(tooldisc.Listing{Tools: raw("read")})
		if got := ids(t, session); !slices.Equal(got, []string{"files/read"}) {
			t.Errorf("after a change: %v", got)
		}
		if got, err := tooldisc.Find(t.Context(), session, "files/read", "0"); err != nil || got.Version != "0" {
			t.Errorf("a server without a version: %v, error %v", got, err)
		}
		if n := s.starts(); n != 1 {
			t.Errorf("followed %d times, want once", n)
		}
	})
}

func TestServersAreReadWhenSomebodyAsksAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := newServer(), newServer()
		s.delay = 2 * time.Second
		s.set(tooldisc.Listing{Tools: raw("read")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s, "other": other}})
		session := dial(t, service, "spiffe://test/a")
		time.Sleep(time.Hour) // virtual
		if s.starts() != 0 {
			t.Error("a server was read though nobody asked")
		}
		began := time.Now()
		if _, err := tooldisc.Find(t.Context(), session, "files/read", ""); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if other.starts() != 0 {
			t.Error("a server was read though nobody asked for its tools")
		}
		if _, err := tooldisc.Find(t.Context(), session, "nowhere/read", ""); err == nil || other.starts() != 0 {
			t.Errorf("error %v", err)
		}
		ids(t, session)
		if other.starts() != 1 {
			t.Error("a server was not read though somebody asked for all tools")
		}
		if time.Since(began) != 2*time.Second {
			t.Errorf("what is known was waited for: %v", time.Since(began))
		}
	})
}

// reaching lets everybody reach one server, and call its tools.
type reaching string

func (r reaching) Allowed(_, _, _, name string) bool { return r.Reaches("", "", name) }
func (r reaching) Reaches(_, _, name string) bool {
	server, _, _ := strings.Cut(name, "/")
	return server == string(r)
}

func TestNobodyHasServersReadThatTheyDoNotReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := newServer(), newServer()
		s.set(tooldisc.Listing{Tools: raw("read")})
		other.delay = time.Hour
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s, "other": other}, Access: reaching("files")})
		session := dial(t, service, "spiffe://test/a")
		began := time.Now()
		if got := ids(t, session); !slices.Equal(got, []string{"files/read"}) {
			t.Errorf("tools %v", got)
		}
		if _, err := tooldisc.Find(t.Context(), session, "other/read", ""); err == nil || time.Since(began) != 0 {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if synctest.Wait(); other.starts() != 0 {
			t.Error("a server was read for somebody who does not reach it")
		}
	})
}

func TestServersAreNotFollowedWhenNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.set(tooldisc.Listing{Tools: raw("one")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}, Pace: tooldisc.Pace{Idle: 10 * time.Minute, Refresh: 5 * time.Minute}})
		session := dial(t, service, "spiffe://test/a")
		for range 6 {
			ids(t, session)
			time.Sleep(9 * time.Minute) // virtual
		}
		if !s.isRunning() || s.starts() != 1 {
			t.Fatalf("followed %d times, now %v", s.starts(), s.isRunning())
		}
		time.Sleep(2 * time.Minute) // virtual
		synctest.Wait()
		if s.isRunning() {
			t.Fatal("followed though nobody asks")
		}
		s.set(tooldisc.Listing{Tools: raw("two")})
		s.delay = time.Second
		began := time.Now()
		if got := ids(t, session); !slices.Equal(got, []string{"files/two"}) || time.Since(began) != time.Second {
			t.Errorf("tools %v after %v, want what the server has now", got, time.Since(began))
		}
	})
}

func TestAListingThatIsRecentIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.set(tooldisc.Listing{Tools: raw("one")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}, Pace: tooldisc.Pace{Idle: time.Minute, Refresh: 5 * time.Minute}})
		session := dial(t, service, "spiffe://test/a")
		ids(t, session)
		time.Sleep(2 * time.Minute) // virtual: it is not followed any more
		s.delay = time.Second
		began := time.Now()
		got := ids(t, session)
		took := time.Since(began)
		synctest.Wait()
		if len(got) != 1 || took != 0 || s.starts() != 2 {
			t.Errorf("tools %v after %v, followed %d times", got, took, s.starts())
		}
	})
}

func TestServersThatTellNothingAreReadAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.leave = true
		s.set(tooldisc.Listing{Tools: raw("one")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}, Pace: tooldisc.Pace{Eager: true, Refresh: 5 * time.Minute}})
		session := dial(t, service, "spiffe://test/a")
		synctest.Wait()
		if s.starts() != 1 {
			t.Fatalf("followed %d times at the start, want once", s.starts())
		}
		s.set(tooldisc.Listing{Tools: raw("two")})
		time.Sleep(time.Hour + time.Second) // virtual
		if n := s.starts(); n != 13 {
			t.Errorf("followed %d times in an hour, want 13", n)
		}
		if got := ids(t, session); !slices.Equal(got, []string{"files/two"}) {
			t.Errorf("tools %v", got)
		}
	})
}

func TestThePaceChangesWhileServersAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.leave = true
		s.set(tooldisc.Listing{Tools: raw("one")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}, Pace: tooldisc.Pace{Idle: 24 * time.Hour, Refresh: 5 * time.Hour}})
		session := dial(t, service, "spiffe://test/a")
		pace := func(p tooldisc.Pace, times int) {
			t.Helper()
			before := s.starts()
			if err := service.SetPace(p); err != nil {
				t.Fatal(err)
			}
			if got := ids(t, session); p.Eager && !slices.Equal(got, []string{"files/one"}) {
				t.Errorf("tools %v meanwhile", got)
			}
			time.Sleep(time.Hour + time.Second) // virtual
			if n := s.starts() - before; n != times {
				t.Errorf("%+v: followed %d times in an hour, want %d", p, n, times)
			}
		}
		pace(tooldisc.Pace{Eager: true, Refresh: 5 * time.Minute}, 13)
		pace(tooldisc.Pace{Eager: true, Refresh: 5 * time.Minute}, 12) // as it was: nothing is begun anew
		pace(tooldisc.Pace{Eager: true, Refresh: 20 * time.Minute}, 4)
		pace(tooldisc.Pace{Idle: 30 * time.Minute, Refresh: 20 * time.Minute}, 2) // and then nobody has asked
		if err := service.SetPace(tooldisc.Pace{Refresh: -1}); err == nil {
			t.Error("a negative duration is taken")
		}
	})
}

func TestServersThatFailAreTriedLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, good := newServer(), newServer()
		s.fault = errors.New("no such program")
		good.set(tooldisc.Listing{Tools: raw("x")})
		var reports []error
		service := newService(t, tooldisc.Options{
			Servers: map[string]tooldisc.Server{"bad": s, "good": good}, Pace: tooldisc.Pace{Eager: true},
			Report: func(server string, err error) {
				if server == "bad" {
					reports = append(reports, err)
				}
			},
		})
		session := dial(t, service, "spiffe://test/a")
		began := time.Now()
		if got := ids(t, session); !slices.Equal(got, []string{"good/x"}) || time.Since(began) != 0 {
			t.Errorf("tools %v after %v: a server that fails holds up the others", got, time.Since(began))
		}
		time.Sleep(10 * time.Minute) // virtual
		synctest.Wait()
		var gaps []time.Duration
		for i := 1; i < len(s.begun); i++ {
			gaps = append(gaps, s.begun[i].Sub(s.begun[i-1]))
		}
		var want []time.Duration
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if !slices.Equal(gaps[:len(want)], want) {
			t.Errorf("pauses %v, want %v", gaps, want)
		}
		if len(reports) != len(s.begun) || !errors.Is(reports[0], s.fault) {
			t.Errorf("%d reports of %d failures", len(reports), len(s.begun))
		}
		s.mu.Lock()
		s.fault, s.listing = nil, tooldisc.Listing{Tools: raw("y")}
		s.mu.Unlock()
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		if got := ids(t, session); !slices.Equal(got, []string{"bad/y", "good/x"}) || reports[len(reports)-1] != nil {
			t.Errorf("tools %v, last report %v", got, reports[len(reports)-1])
		}
	})
}

func TestWhatAServerHadIsToldWhileItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.leave = true
		s.set(tooldisc.Listing{Tools: raw("one")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}, Pace: tooldisc.Pace{Eager: true}})
		session := dial(t, service, "spiffe://test/a")
		synctest.Wait()
		s.mu.Lock()
		s.fault = errors.New("gone")
		s.mu.Unlock()
		time.Sleep(time.Hour) // virtual
		began := time.Now()
		if got := ids(t, session); len(got) != 1 || time.Since(began) != 0 {
			t.Errorf("tools %v after %v", got, time.Since(began))
		}
	})
}

func TestAServerThatHangsIsWaitedForNoLongerThanAgreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.delay = time.Hour
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": s}, Tools: tools(1), Wait: 10 * time.Second})
		session := dial(t, service, "spiffe://test/a")
		began := time.Now()
		if got := ids(t, session); len(got) != 1 || time.Since(began) != 10*time.Second {
			t.Errorf("tools %v after %v", got, time.Since(began))
		}
	})
}

// Servers that hang hide no other one, however many they are: each holds its turn for a moment. A
// caller waits less than its own client, and a partner, which has a caller too, less than that.
func TestServersThatHangHideNoOthers(t *testing.T) {
	for identity, wait := range map[string]time.Duration{"spiffe://test/a": profiles.ListWait, "spiffe://partner/swpd": profiles.BehindWait} {
		synctest.Test(t, func(t *testing.T) {
			servers := make(map[string]tooldisc.Server)
			for i := range 8 {
				s := newServer()
				s.delay = time.Hour
				servers[fmt.Sprint("hangs", i)] = s
			}
			good := newServer()
			good.set(tooldisc.Listing{Tools: raw("x")})
			servers["good"] = good
			asked := 0
			service := newService(t, tooldisc.Options{
				Servers: servers, Partner: func(identity string) bool { return strings.HasPrefix(identity, "spiffe://partner/") },
				Partners: func(ctx context.Context, _ func(string) bool) []tooldisc.Unread { // they hang too
					asked++
					<-ctx.Done()
					return []tooldisc.Unread{{Name: "east", Reason: "slow"}}
				},
			})
			session := dial(t, service, identity)
			began := time.Now()
			var unread []string
			var list []string
			for tool, err := range tooldisc.List(t.Context(), session, tooldisc.Query{Unread: func(u tooldisc.Unread) { unread = append(unread, u.Name) }}) {
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, tool.ID)
			}
			if len(list) != 1 || list[0] != "good/x" || len(unread) != 8+asked || time.Since(began) != wait {
				t.Errorf("%s: %v after %v, without %v", identity, list, time.Since(began), unread)
			}
		})
	}
}

func TestFewServersAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, servers := new(gauge), make(map[string]tooldisc.Server)
		for i := range 10 {
			s := newServer()
			s.gauge, s.delay = g, 900*time.Millisecond // less than profiles.TurnWait
			s.set(tooldisc.Listing{Tools: raw("x")})
			servers[fmt.Sprint(i)] = s
		}
		service := newService(t, tooldisc.Options{Servers: servers, Reading: 3})
		began := time.Now()
		if got := ids(t, dial(t, service, "spiffe://test/a")); len(got) != 10 || g.most != 3 || time.Since(began) != 3600*time.Millisecond {
			t.Errorf("%d tools after %v, %d read at once, want 10 after 3.6 s, 3 at once", len(got), time.Since(began), g.most)
		}
	})
}

func TestToolsThatNobodyWouldTakeAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var report error
		service := newService(t, tooldisc.Options{
			Servers: map[string]tooldisc.Server{"s": s}, Pace: tooldisc.Pace{Eager: true}, Report: func(_ string, err error) { report = err },
		})
		session := dial(t, service, "spiffe://test/a")
		synctest.Wait()
		for name, bad := range map[string]string{
			"not an object":          `[]`,
			"no name":                `{"inputSchema":{}}`,
			"an empty name":          `{"name":"","inputSchema":{}}`,
			"a name that is none":    `{"name":1,"inputSchema":{}}`,
			"half a character":       `{"name":"\ud800","inputSchema":{}}`,
			"a name in another case": `{"Name":"x","inputSchema":{}}`,
			"a long name":            `{"name":"` + strings.Repeat("n", tooldisc.MaxText) + `","inputSchema":{}}`,
			"no inputSchema":         `{"name":"x"}`,
			"another inputSchema":    `{"name":"x","inputSchema":true}`,
			"too large":              `{"name":"x","inputSchema":{},"d":"` + strings.Repeat("d", tooldisc.MaxDescriptor) + `"}`,
			"there already":          octets("good"),
		} {
			s.set(tooldisc.Listing{Tools: []json.RawMessage{raw("good")[0], json.RawMessage(bad), raw("other")[0]}})
			if got := ids(t, session); !slices.Equal(got, []string{"s/good", "s/other"}) || report == nil {
				t.Errorf("%s: tools %.80q, report %v", name, got, report)
			}
		}
		s.set(tooldisc.Listing{Tools: raw("good")})
		if report != nil {
			t.Errorf("report %v though all is well", report)
		}
	})
}

func TestRS08ToolsOfAServerAreBounded(t *testing.T) {
	effort.Unwatched(t)
	var names []string
	for i := range tooldisc.MaxServerTools + 1 {
		names = append(names, fmt.Sprintf("tool-%05d", i))
	}
	for _, test := range []struct {
		name          string
		tools, octets int // there are, there may be
		told          int
	}{
		{"tools to the bound", tooldisc.MaxServerTools, 0, tooldisc.MaxServerTools},
		{"a tool above it", tooldisc.MaxServerTools + 1, 0, tooldisc.MaxServerTools},
		{"octets to the bound", 3, 3 * len(octets(names[0])), 3},
		{"an octet above it", 3, 3*len(octets(names[0])) - 1, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.set(tooldisc.Listing{Tools: raw(names[:test.tools]...)})
				var fault error
				service := newService(t, tooldisc.Options{
					Servers: map[string]tooldisc.Server{"s": s}, ServerOctets: test.octets, Report: func(_ string, err error) { fault = err },
				})
				if n := len(ids(t, dial(t, service, "spiffe://test/a"))); n != test.told || (fault == nil) != (test.told == test.tools) {
					t.Errorf("%d tools of %d are told, report %v, want %d", n, test.tools, fault, test.told)
				}
			})
		})
	}
}

func TestAListingGoesOnWhereToolsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.set(tooldisc.Listing{Tools: raw("a", "b", "c", "d", "e", "f")})
		session := dial(t, newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"s": s}}), "spiffe://test/a")
		first, next, err := tooldisc.Page(t.Context(), session, tooldisc.Query{PageSize: 3})
		if err != nil || len(first) != 3 {
			t.Fatal(first, err)
		}
		s.set(tooldisc.Listing{Tools: raw("aa", "b", "d", "dd", "f")}) // c, where the page ended, is gone
		rest, last, err := tooldisc.Page(t.Context(), session, tooldisc.Query{PageToken: next})
		var got []string
		for _, tool := range rest {
			got = append(got, tool.ID)
		}
		if err != nil || last != "" || !slices.Equal(got, []string{"s/d", "s/dd", "s/f"}) {
			t.Errorf("the next page has %v, error %v", got, err)
		}
	})
}

func TestCloseEndsWhatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		following, hanging := newServer(), newServer()
		hanging.delay = time.Hour
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"a": following, "b": hanging}, Pace: tooldisc.Pace{Eager: true}})
		session := dial(t, service, "spiffe://test/a")
		synctest.Wait()
		service.Close()
		if following.isRunning() || hanging.isRunning() {
			t.Error("servers are followed after Close")
		}
		ids(t, session) // starts nothing
		time.Sleep(time.Hour)
		if following.starts() != 1 || hanging.starts() != 1 {
			t.Error("servers are followed again after Close")
		}
	})
}

func TestServersCanBeReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, old := newServer(), newServer()
		kept.set(tooldisc.Listing{Tools: raw("a")})
		old.set(tooldisc.Listing{Tools: raw("b")})
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"kept": kept, "changed": old}})
		session := dial(t, service, "spiffe://test/a")
		if got := ids(t, session); !slices.Equal(got, []string{"changed/b", "kept/a"}) {
			t.Errorf("tools %v", got)
		}
		now := newServer()
		now.set(tooldisc.Listing{Tools: raw("c")})
		if err := service.Set(map[string]tooldisc.Server{"kept": kept, "changed": now, "new": newServer()}, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if old.running != 0 || kept.running != 1 || len(kept.begun) != 1 {
			t.Errorf("the old server is followed %d times, the one that stays %d of %d", old.running, kept.running, len(kept.begun))
		}
		old.set(tooldisc.Listing{Tools: raw("late")}) // nobody hears it
		if got := ids(t, session); !slices.Equal(got, []string{"changed/c", "kept/a"}) {
			t.Errorf("tools %v", got)
		}
		if err := service.Set(nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, session); got != nil {
			t.Errorf("tools %v", got)
		}
	})
}
