package mcpstdio_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestGW01CommandComesFromConfigurationAlone(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "tool")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cfg  mcpstdio.Config
		ok   bool
	}{
		{"bare name in PATH", mcpstdio.Config{Command: "tool", Path: dir}, true},
		{"absolute path", mcpstdio.Config{Command: filepath.Join(dir, "tool")}, true},
		{"relative path", mcpstdio.Config{Command: "./tool", Path: dir}, false},
		{"a path with a slash", mcpstdio.Config{Command: "x/tool", Path: dir}, false},
		{"not in PATH", mcpstdio.Config{Command: "tool", Path: "/nonexistent"}, false},
		{"relative PATH entry", mcpstdio.Config{Command: "tool", Path: "."}, false},
		{"a shell line", mcpstdio.Config{Command: "tool; id", Path: dir}, false},
		{"not executable", mcpstdio.Config{Command: filepath.Join(dir, "plain")}, false},
		{"a directory", mcpstdio.Config{Command: dir}, false},
		{"empty", mcpstdio.Config{}, false},
		{"PATH in the environment", mcpstdio.Config{Command: "tool", Path: dir, Env: []string{"PATH=/x"}}, false},
		{"environment without value", mcpstdio.Config{Command: "tool", Path: dir, Env: []string{"X"}}, false},
		{"slash in the name", mcpstdio.Config{Name: "a/b", Command: "tool", Path: dir}, false},
	} {
		if c.cfg.Name == "" {
			c.cfg.Name = "one"
		}
		s, err := mcpstdio.New(c.cfg)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", c.name, err, c.ok)
		}
		if s != nil {
			want(t, c.name+": path", s.Path(), filepath.Join(dir, "tool"))
		}
	}
}

func TestGW01ChildHasOnlyWhatIsListed(t *testing.T) {
	t.Setenv("SECRET", "of this process")
	s := serve(t, "modern", mcpstdio.Config{
		Args: []string{"$HOME", "a b", "`id`"}, Env: []string{"LISTED=yes"}, Path: "/usr/bin:/bin",
	})
	c := s.dial("alice")
	// What a peer sends does not reach command line or environment.
	got := decode[[]string](t, c.do(`{"jsonrpc":"2.0","id":1,"method":"environ","params":{`+meta+`,"env":{"EVIL":"1"},"command":"/bin/sh","args":["-c"]}}`))
	slices.Sort(got)
	if exp := []string{"LISTED=yes", "PATH=/usr/bin:/bin", "SCRIPT=modern"}; !slices.Equal(got, exp) {
		t.Errorf("environment %q, want %q", got, exp)
	}
	args := decode[[]string](t, c.do(modern("2", "args", "")))
	if exp := []string{"$HOME", "a b", "`id`"}; !slices.Equal(args, exp) {
		t.Errorf("arguments %q, want %q", args, exp)
	}
}

func TestGW02ChildThatExitsAtOnceIsStartedEverMoreRarely(t *testing.T) {
	s := serve(t, "exit", mcpstdio.Config{})
	c := s.dial("alice")
	start := time.Now()
	for i := range 3 {
		answer := c.do(modern(fmt.Sprint(i), "pid", ""))
		if !strings.HasPrefix(answer, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603`, i)) {
			t.Errorf("answer %s", answer)
		}
	}
	// The second waits a second, the third two more.
	if spent := time.Since(start); spent < 3*time.Second {
		t.Errorf("three starts within %v, want at least 3 s", spent)
	}
	want(t, "starts", s.count(mcpstdio.Started), 3)
	if _, err := s.server.Connect(nil); err == nil {
		t.Error("a session was opened during the pause")
	}
}

func TestGW02CrashInMidCallFailsThatCallAndNoOther(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	other := serve(t, "modern", mcpstdio.Config{})
	c, d := s.dial("alice"), other.dial("alice")
	before := decode[int](t, c.do(modern("1", "pid", "")))
	pending := d.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", `{"jsonrpc":"2.0","id":1,"result":"held"}`))})
	silent := c.start(&mcpmap.Call{Octets: []byte(modern("2", "silent", ""))})
	await(t, func() bool { return other.server.Stats().InFlight == 1 && s.server.Stats().InFlight == 1 })
	answer := c.do(modern("3", "crash", ""))
	for _, part := range []string{`"id":3,`, `"code":-32603`, `"data":{"code":"ERR_INTERNAL_ERROR","retryable":false}`} {
		if !strings.Contains(answer, part) {
			t.Errorf("answer %s, want %s in it", answer, part)
		}
	}
	if out := <-silent; !strings.Contains(out.octets, `"id":2,"error"`) {
		t.Errorf("the call beside it: %v %s", out.err, out.octets)
	}
	after := decode[int](t, c.do(modern("4", "pid", "")))
	if before == after {
		t.Error("the same process answers")
	}
	want(t, "why", fmt.Sprint(s.reasons()), "[exit status 4]")
	d.do(modern("9", "release", ""))
	want(t, "the other server's call", (<-pending).octets, `{"jsonrpc":"2.0","id":1,"result":"held"}`)
}

func TestGW02ChildThatDoesNotReadIsReplacedByAnError(t *testing.T) {
	s := serve(t, "deaf", mcpstdio.Config{ProbeTime: 200 * time.Millisecond, Grace: time.Second})
	c := s.dial("alice")
	answer := c.do(modern("1", "hex", strings.Repeat("x", 1<<20)))
	if !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603`) || !strings.Contains(answer, `"retryable":true`) {
		t.Errorf("answer %s", answer)
	}
}

func TestGW02WaitingRequestsAreBounded(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1, MaxWaiting: 1})
	c := s.dial("alice")
	c.do(modern("0", "pid", ""))
	held := `{"jsonrpc":"2.0","id":1,"result":"%s"}`
	first := c.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", fmt.Sprintf(held, "first")))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	second := c.start(&mcpmap.Call{Octets: []byte(modern("1.0", "say", fmt.Sprintf(held, "second")))})
	await(t, func() bool { return s.server.Stats().Waiting == 1 })
	if answer := c.do(modern("1e0", "pid", "")); !strings.Contains(answer, `"data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true}`) {
		t.Errorf("third: %s", answer)
	}
	c.do(modern("2", "release", ""))
	want(t, "first", (<-first).octets, fmt.Sprintf(held, "first"))
	want(t, "second", (<-second).octets, fmt.Sprintf(held, "second"))
}

func TestGW03HugeLineEndsTheChild(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	answer := c.do(modern("1", "huge", ""))
	if !strings.Contains(answer, `"data":{"code":"ERR_INVALID_MCP_PAYLOAD","retryable":false}`) {
		t.Errorf("answer %s", answer)
	}
	c.do(modern("2", "pid", "")) // the next child serves
	want(t, "why", fmt.Sprint(s.reasons()), "[proc: line above the limit]")
}

func TestGW03LineLimit(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxLine: 1000})
	c := s.dial("alice")
	for _, n := range []int{1000, 1001} {
		line := `{"jsonrpc":"2.0","id":1,"result":""}`
		line = strings.Replace(line, `""`, `"`+strings.Repeat("r", n-len(line))+`"`, 1)
		answer := c.do(modern("1", "say", line))
		want(t, fmt.Sprint(n, " octets arrive"), answer == line, n == 1000)
	}
}

func TestRS15LongMessagesOfAChildAreInTheBudget(t *testing.T) {
	const size = 1 << 20
	long := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("r", size) + `"}`
	for _, room := range []int{64 << 20, size} { // the second has no room for a line and the buffer before it
		b := memory.New(room)
		s := serve(t, "modern", mcpstdio.Config{Memory: b})
		c := s.dial("alice")
		answer := c.do(modern("1", "say", long))
		if fits := room > size; fits != (answer == long) || !fits && !strings.Contains(answer, "there is no room for a message of server") {
			t.Errorf("with a budget of %d: %.200s", room, answer)
		}
		c.do(modern("2", "pid", "")) // the buffer of a long line is given up with the next one
		await(t, func() bool { return b.Used() == 0 })
	}
}

func TestGW03NoiseIsSkipped(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	want(t, "result", decode[string](t, c.do(modern("1", "noise", ""))), "after the noise")
	want(t, "noise counted", s.server.Stats().Noise, 6)
	want(t, "noise reported", s.count(mcpstdio.Noise), 6)
}

func TestGW03StderrIsDrainedAndCut(t *testing.T) {
	effort.Unwatched(t)
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	want(t, "result", decode[string](t, c.do(modern("1", "complain", ""))), "done")
	lines := s.lines(mcpstdio.Stderr)
	if len(lines) == 0 || len(lines[0]) != 8<<10 {
		t.Fatalf("%d lines, want the first one of 8 KiB", len(lines))
	}
	for _, l := range lines[1:] {
		want(t, "line", string(l), complaint)
	}
}

func TestGW04EachPeerGetsItsOwnAnswer(t *testing.T) {
	for _, shared := range []int{1, 4} {
		t.Run(fmt.Sprint(shared, " children"), func(t *testing.T) {
			s := serve(t, "modern", mcpstdio.Config{MaxShared: shared})
			alice, bob := s.dial("alice"), s.dial("bob")
			call := func(c *caller, id, who string) <-chan outcome {
				return c.start(&mcpmap.Call{Octets: []byte(modern(id, "say", `{"jsonrpc":"2.0","id":`+id+`,"result":"`+who+`"}`))})
			}
			for i := range 50 {
				id := fmt.Sprint(i)
				a, b := call(alice, id, "alice"), call(bob, id, "bob")
				want(t, "alice", (<-a).octets, `{"jsonrpc":"2.0","id":`+id+`,"result":"alice"}`)
				want(t, "bob", (<-b).octets, `{"jsonrpc":"2.0","id":`+id+`,"result":"bob"}`)
			}
		})
	}
}

func TestGW04AnswersInReverseTwiceAndUnknown(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
	alice, bob := s.dial("alice"), s.dial("bob")
	alice.do(modern("0", "pid", ""))
	hold := func(c *caller, id, answer string) <-chan outcome {
		n := s.server.Stats().InFlight
		done := c.start(&mcpmap.Call{Octets: []byte(modern(id, "hold", answer))})
		await(t, func() bool { return s.server.Stats().InFlight == n+1 })
		return done
	}
	one, two := `{"jsonrpc":"2.0","id":1,"result":"for alice"}`, `{"jsonrpc":"2.0","id":2,"result":"for bob"}`
	a := hold(alice, "1", one+"\n"+one) // answered twice
	b := hold(bob, "2", two+"\n"+`{"jsonrpc":"2.0","id":77,"result":"for nobody"}`)
	alice.do(modern("3", "release", ""))
	want(t, "alice", (<-a).octets, one)
	want(t, "bob", (<-b).octets, two)
	alice.do(modern("4", "pid", ""))
	want(t, "dropped", s.server.Stats().Dropped, 2)
}

func TestRewrittenIDsFindTheirRequest(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	for _, r := range []struct{ sent, back string }{
		{"1.0", "1"}, {"1e2", "100"}, {"9007199254740993", "9007199254740992"}, {`"a"`, `"\u0061"`}, {"-0", "0"},
	} {
		line := `{"id":` + r.back + `,"jsonrpc":"2.0","result":{}}`
		want(t, r.sent, c.do(modern(r.sent, "say", line)), line)
	}
}

func TestConfusableIDsGoToDifferentChildren(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 2})
	c := s.dial("alice")
	held := `{"jsonrpc":"2.0","id":9007199254740993,"result":"held"}`
	first := c.start(&mcpmap.Call{Octets: []byte(modern("9007199254740993", "hold", held))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
	c.do(modern("9007199254740992", "pid", ""))
	want(t, "children", s.server.Stats().Children, 2)
	want(t, "starts", s.count(mcpstdio.Started), 2)
	// The first child is the one that has nothing to confuse.
	c.do(modern("5", "release", ""))
	want(t, "first", (<-first).octets, held)
}

func TestOutputWithoutAnIDBelongsToTheOnlyRequest(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
	c := s.dial("alice")
	null := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}`
	want(t, "answer", c.do(modern("1", "say", null)), null)
	absent := `{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse"}}`
	want(t, "answer", c.do(modern("1", "say", absent)), absent)

	// With two in flight nobody gets it.
	held := c.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", `{"jsonrpc":"2.0","id":1,"result":1}`))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	dropped := s.server.Stats().Dropped
	answer := `{"jsonrpc":"2.0","id":2,"result":2}`
	want(t, "answer", c.do(modern("2", "say", null+"\n"+answer)), answer)
	want(t, "dropped", s.server.Stats().Dropped, dropped+1)
	c.do(modern("3", "release", ""))
	<-held
}

func TestNotificationsFindTheirRequest(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
		c := s.dialOver(kind)
		var heard []string
		events := mcpmap.Events{Notification: func(b []byte) { heard = append(heard, string(b)) }}
		log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`
		progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t\u0031","progress":1}}`
		stray := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"other","progress":1}}`
		answer := `{"jsonrpc":"2.0","id":1,"result":1}`
		request := `{"jsonrpc":"2.0","id":1,"method":"say","params":{"_meta":{"progressToken":"t1","io.modelcontextprotocol/protocolVersion":"2026-07-28"},"text":` +
			quote(log+"\n"+progress+"\n"+stray+"\n"+answer) + `}}`
		out := <-c.start(&mcpmap.Call{Octets: []byte(request), Events: events})
		want(t, "answer", out.octets, answer)
		if !slices.Equal(heard, []string{log, progress}) {
			t.Errorf("heard %q", heard)
		}

		// A subscription is known by its id even while others are in flight.
		heard = nil
		ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`
		sub := c.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", `{"jsonrpc":"2.0","id":1,"result":{}}`)), Events: events})
		await(t, func() bool { return s.server.Stats().InFlight == 1 })
		two := `{"jsonrpc":"2.0","id":2,"result":2}`
		want(t, "answer", c.do(modern("2", "say", ack+"\n"+two)), two)
		c.do(modern("3", "release", ""))
		<-sub
		if !slices.Equal(heard, []string{ack}) {
			t.Errorf("heard %q, want the acknowledgement", heard)
		}
	})
}

func TestCancellationReachesTheChildAndItsLateAnswerIsDropped(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
		c := s.dialOver(kind)
		done := c.start(&mcpmap.Call{Octets: []byte(modern("1", "silent", ""))})
		await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x\u0079"}}`
		if err := c.client.Notify(t.Context(), "", "", []byte(cancel)); err != nil {
			t.Fatal(err)
		}
		if out := <-done; !errors.Is(out.err, mcpmap.ErrCancelled) {
			t.Errorf("%v, want ErrCancelled", out.err)
		}
		await(t, func() bool { return s.server.Stats().InFlight == 0 })
		held := decode[[]string](t, c.do(modern("2", "held", "")))
		if !slices.Equal(held, []string{cancel}) {
			t.Errorf("the child got %q", held)
		}
		// Its id stays taken until the child has answered.
		waiting := c.start(&mcpmap.Call{Octets: []byte(modern("1", "pid", ""))})
		await(t, func() bool { return s.server.Stats().Waiting == 1 })
		late := `{"jsonrpc":"2.0","id":1,"result":"late"}`
		three := `{"jsonrpc":"2.0","id":3,"result":3}`
		want(t, "answer", c.do(modern("3", "say", late+"\n"+three)), three)
		decode[int](t, (<-waiting).octets)
	})
}

func TestLostPeerCancelsAtTheChild(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		if kind == "pipe" || kind == "tcp" || kind == "tls" {
			t.Skip("the end of the only stream may be a half-close: the peer gets its answers")
		}
		s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
		alice, bob := s.dialOver(kind), s.dialOver(kind)
		done := alice.start(&mcpmap.Call{Octets: []byte(modern("1.0", "silent", ""))})
		await(t, func() bool { return s.server.Stats().InFlight == 1 && s.server.Stats().Waiting == 0 })
		alice.hangUp()
		<-done
		await(t, func() bool { return s.server.Stats().InFlight == 0 })
		held := decode[[]string](t, bob.do(modern("2", "held", "")))
		if exp := []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}`}; !slices.Equal(held, exp) {
			t.Errorf("the child got %q, want %q", held, exp)
		}
	})
}

func TestEraIsLearnedOnce(t *testing.T) {
	for _, c := range []struct {
		mode, answer string
		starts       int
	}{
		{"modern", `{"jsonrpc":"2.0","id":1,"result":{}}`, 1},
		{"", `{"jsonrpc":"2.0","id":1,"result":{}}`, 1}, // both eras
		{"legacy", `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}}`, 1},
	} {
		t.Run("server "+c.mode, func(t *testing.T) {
			s := serve(t, c.mode, mcpstdio.Config{})
			a := s.dial("alice")
			for range 3 {
				want(t, "answer", a.do(modern("1", "tools/list", "")), c.answer)
			}
			want(t, "starts", s.count(mcpstdio.Started), c.starts)
		})
	}
}

func TestLegacySessionsHaveAChildEach(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 2})
	alice, bob := s.dial("alice"), s.dial("bob")
	one, two := alice.initialize(mcpmap.Events{}), bob.initialize(mcpmap.Events{})
	pid := `{"jsonrpc":"2.0","id":1,"method":"pid"}`
	a, b := decode[int](t, alice.in(one, pid)), decode[int](t, bob.in(two, pid))
	if a == b {
		t.Error("two sessions share a child")
	}
	want(t, "same child again", decode[int](t, alice.in(one, pid)), a)
	alice.start(&mcpmap.Call{Session: one, Octets: []byte(`{"jsonrpc":"2.0","id":2,"method":"silent"}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	if out := <-alice.start(&mcpmap.Call{Octets: []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize"}`)}); !strings.Contains(out.octets, "ERR_RATE_LIMIT_EXCEEDED") {
		t.Errorf("third session: %v %s", out.err, out.octets)
	}
	if err := s.served.End(alice.far.Peer(), fmt.Appendf(nil, `{"session":%q}`, one)); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return s.server.Stats().Children == 1 })
	gone(t, a)
	decode[int](t, bob.in(two, pid))
}

func TestLegacyServerAsksItsClient(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, "legacy", mcpstdio.Config{})
		c := s.dialOver(kind)
		question := `{"jsonrpc":"2.0","id":9007199254740993,"method":"sampling/createMessage","params":{"a":1,"a":2}}`
		reply := `{"jsonrpc":"2.0",  "id":9007199254740993,"result":{"x":1.0}}`
		got := make(chan string, 1)
		session := c.initialize(mcpmap.Events{Request: func(a *mcpmap.Asked) {
			got <- string(a.Message.Octets())
			if err := a.Answer([]byte(reply)); err != nil {
				t.Error(err)
			}
		}})
		answer := c.in(session, `{"jsonrpc":"2.0","id":1,"method":"ask","params":`+quote(question)+`}`)
		want(t, "question", <-got, question)
		want(t, "reply at the child", unhex(t, answer), reply)
	})
}

func TestUnsolicitedNotificationReachesTheSession(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, "legacy", mcpstdio.Config{})
		c := s.dialOver(kind)
		heard := make(chan string, 1)
		session := c.initialize(mcpmap.Events{Notification: func(b []byte) { heard <- string(b) }})
		// The child says it when nothing is in flight: it answers first.
		changed := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		answer := `{"jsonrpc":"2.0","id":1,"result":1}`
		want(t, "answer", c.in(session, `{"jsonrpc":"2.0","id":1,"method":"say","params":`+quote(answer+"\n"+changed)+`}`), answer)
		want(t, "notification", <-heard, changed)
	})
}

func TestSessionEndsWithItsChild(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, "legacy", mcpstdio.Config{})
		c := s.dialOver(kind)
		session := c.initialize(mcpmap.Events{})
		if answer := c.in(session, `{"jsonrpc":"2.0","id":1,"method":"crash"}`); !strings.Contains(answer, "ERR_INTERNAL_ERROR") {
			t.Errorf("answer %s", answer)
		}
		await(t, func() bool { return s.served.Stats().Sessions == 0 })
		if answer := c.in(session, `{"jsonrpc":"2.0","id":2,"method":"pid"}`); !strings.Contains(answer, "ERR_NOT_FOUND") {
			t.Errorf("answer %s", answer)
		}
		c.initialize(mcpmap.Events{}) // nobody has to wait for it
	})
}

func TestIdleChildIsStopped(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{Idle: time.Second})
	c := s.dial("alice")
	pid := decode[int](t, c.do(modern("1", "pid", "")))
	await(t, func() bool { return s.server.Stats().Children == 0 })
	gone(t, pid)
	want(t, "why", fmt.Sprint(s.reasons()), "[<nil>]")
	decode[int](t, c.do(modern("2", "pid", ""))) // and started again without a pause
}

func TestOldChildIsReplaced(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{Lifetime: 300 * time.Millisecond})
	c := s.dial("alice")
	pid := decode[int](t, c.do(modern("1", "pid", "")))
	await(t, func() bool { return s.server.Stats().Children == 0 })
	if again := decode[int](t, c.do(modern("1", "pid", ""))); again == pid {
		t.Error("the same child answers")
	}
}

func TestQuietSessionIsEnded(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{SessionIdle: 200 * time.Millisecond})
	c := s.dial("alice")
	c.initialize(mcpmap.Events{})
	await(t, func() bool { return s.served.Stats().Sessions == 0 && s.server.Stats().Children == 0 })
}

func TestCloseLeavesNoProcessBehind(t *testing.T) {
	s := serve(t, "modern stubborn", mcpstdio.Config{Grace: 100 * time.Millisecond})
	c := s.dial("alice")
	child := decode[int](t, c.do(modern("1", "pid", "")))
	grandchild := decode[int](t, c.do(modern("2", "fork", "")))
	silent := c.start(&mcpmap.Call{Octets: []byte(modern("3", "silent", ""))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.server.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want the context's error for the call in flight", err)
	}
	if out := <-silent; !strings.Contains(out.octets, `"id":3,"error"`) {
		t.Errorf("call in flight: %v %s", out.err, out.octets)
	}
	gone(t, child)
	gone(t, grandchild)
	if answer := c.do(modern("4", "pid", "")); !strings.Contains(answer, "ERR_RATE_LIMIT_EXCEEDED") {
		t.Errorf("after Close: %s", answer)
	}
}

func TestCloseLetsCallsInFlightEnd(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{})
	c := s.dial("alice")
	session := c.initialize(mcpmap.Events{})
	held := `{"jsonrpc":"2.0","id":1,"result":"held"}`
	call := c.start(&mcpmap.Call{Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"hold","params":` + quote(held) + `}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	closed := make(chan error, 1)
	go func() { closed <- s.server.Close(t.Context()) }()
	await(t, func() bool {
		return strings.Contains(c.in(session, `{"jsonrpc":"2.0","id":2,"method":"pid"}`), "shutting down")
	})
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v with a call in flight", err)
	default:
	}
	if err := c.client.Notify(t.Context(), "", session, []byte(`{"jsonrpc":"2.0","method":"notifications/release"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, "call in flight", (<-call).octets, held)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// retire has the server of a site retire, and returns where the outcome will be.
func (s *site) retire(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.server.Retire(ctx) }()
	return done
}

func TestRetireServesUntilCallsAndSessionsHaveEnded(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{})
	c := s.dial("alice")
	session := c.initialize(mcpmap.Events{})
	pid := decode[int](t, c.in(session, `{"jsonrpc":"2.0","id":0,"method":"pid"}`))
	held := `{"jsonrpc":"2.0","id":1,"result":"held"}`
	call := c.start(&mcpmap.Call{Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"hold","params":` + quote(held) + `}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	retired := s.retire(t.Context())
	want(t, "during a call", decode[int](t, c.in(session, `{"jsonrpc":"2.0","id":2,"method":"pid"}`)), pid)
	if err := c.client.Notify(t.Context(), "", session, []byte(`{"jsonrpc":"2.0","method":"notifications/release"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, "call in flight", (<-call).octets, held)
	want(t, "during a session", decode[int](t, c.in(session, `{"jsonrpc":"2.0","id":3,"method":"pid"}`)), pid)
	select {
	case err := <-retired:
		t.Fatalf("Retire returned %v with a session open", err)
	default:
	}
	s.served.Close() // ends the session
	if err := <-retired; err != nil {
		t.Errorf("Retire: %v", err)
	}
	gone(t, pid)
}

func TestRetireGivesUpWhenItsContextEnds(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{Grace: 100 * time.Millisecond})
	c := s.dial("alice")
	child := decode[int](t, c.do(modern("1", "pid", "")))
	silent := c.start(&mcpmap.Call{Octets: []byte(modern("2", "silent", ""))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	retired := s.retire(ctx)
	cancel()
	if err := <-retired; !errors.Is(err, context.Canceled) {
		t.Errorf("Retire: %v, want the context's error for the call in flight", err)
	}
	if out := <-silent; !strings.Contains(out.octets, `"id":2,"error"`) {
		t.Errorf("call in flight: %v %s", out.err, out.octets)
	}
	gone(t, child)
}

func TestRetireReturnsOnceLeaveHasEndedASubscription(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	listening := c.start(&mcpmap.Call{Octets: []byte(modern("1", mcpmap.MethodListen, ""))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	retired := s.retire(t.Context())
	s.served.Leave("another")
	if answer := c.do(modern("2", "pid", "")); !strings.Contains(answer, `"result"`) {
		t.Errorf("meanwhile: %s", answer)
	}
	want(t, "in flight, when another has left", s.server.Stats().InFlight, 1)
	s.served.Leave("one")
	if out := <-listening; !strings.Contains(out.octets, "this server was changed or removed") || !strings.Contains(out.octets, `"retryable":true`) {
		t.Errorf("subscription: %v %s", out.err, out.octets)
	}
	if err := <-retired; err != nil {
		t.Errorf("Retire: %v", err)
	}
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	await(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || os.IsNotExist(err)
		}
		// A grandchild's body waits for whoever inherited it.
		return strings.Contains(string(stat), ") Z ")
	})
}

// await looks at something outside of this process, or counted by it, until it
// holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
}
