package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// answering are servers that say their name to workers, agents and members of teams.
// Those who say hold wait until release is closed.
type answering struct {
	first, second string
	held, release chan struct{}
}

func newAnswering(t *testing.T) *answering {
	a := &answering{held: make(chan struct{}, 1), release: make(chan struct{})}
	serve := func(name string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "hold") {
				a.held <- struct{}{}
				<-a.release
			}
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/worker":
				_, _ = fmt.Fprintf(w, "{\"output\":%q}\n", name)
			case "/agent":
				var request struct{ ID json.RawMessage }
				_ = json.Unmarshal(body, &request)
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":%q}]}}}`, request.ID, name)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	a.first, a.second = serve("first"), serve("second")
	return a
}

// What carries out tasks comes, changes and goes while tasks are under way: each task
// gets its result, or the reason why nobody carries it out.
func TestThoseWhoCarryOutTasksChangeUnderTraffic(t *testing.T) {
	t.Parallel()
	message := func(text string) string {
		return fmt.Sprintf(`{"message":{"role":"ROLE_USER","parts":[{"text":%q}],"messageId":"1"}}`, text)
	}
	for name, section := range map[string]struct {
		always      func(a *answering) string
		yaml        func(a *answering, second bool) string
		kind, agent string
		changed     string
		input       func(text string) string
		label       string
	}{
		"workers": {
			yaml: func(a *answering, second bool) string {
				return fmt.Sprintf("a2a: {workers: {one: {kinds: k, url: '%s/worker'}}}\n", a.url(second))
			},
			kind: "k", changed: "a2a.workers.one", input: func(text string) string { return text }, label: `worker="one"`,
		},
		"agents": {
			yaml: func(a *answering, second bool) string {
				return fmt.Sprintf("a2a: {agents: {billing: {url: '%s/agent', binding: jsonrpc}}}\n", a.url(second))
			},
			kind: "a2a/1.0/SendMessage", agent: "billing", changed: "a2a.agents.billing", input: message, label: `agent="billing"`,
		},
		"teams": {
			always: func(a *answering) string {
				return fmt.Sprintf("a2a: {agents: {first: {url: '%s/agent', binding: jsonrpc}, second: {url: '%s/agent', binding: jsonrpc}}}\n", a.first, a.second)
			},
			yaml: func(_ *answering, second bool) string {
				return "teams: {desk: {default: " + map[bool]string{false: "first", true: "second"}[second] + ", members: {first: {routes: false}, second: {routes: false}}}}\n"
			},
			kind: "a2a/1.0/SendMessage", agent: "desk", changed: "teams.desk", input: message, label: `team="desk"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			overTLSAndQUIC(t, func(t *testing.T, transport int) {
				a := newAnswering(t)
				yaml := everyoneYAML
				if section.always != nil {
					yaml = section.always(a) + yaml
				}
				r := start(t, yaml)
				s := r.mustDial(r.addrs[transport])
				ask := func(text string) *a2a.Result {
					_, result := s.hand(t, &a2a.Task{Kind: section.kind, Input: []byte(section.input(text))}, a2a.SendOptions{Agent: section.agent})
					return result
				}
				says := func(want string) {
					t.Helper()
					if got := ask("hello"); !got.OK || !strings.Contains(string(got.Output), want) {
						t.Errorf("%+v, want %s", got, want)
					}
				}
				refused := func() {
					t.Helper()
					if got := ask("hello"); got.OK || !strings.HasPrefix(got.Reason, "unsupported capability: ") {
						t.Errorf("%+v, want it refused", got)
					}
				}
				reload := func(old, now string) {
					t.Helper()
					r.rewrite(old, now)
					if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 || !slices.Equal(got.Changed, []string{section.changed}) {
						t.Errorf("answer %+v", got)
					}
				}
				refused()
				first, second := section.yaml(a, false), section.yaml(a, true)
				reload("access:", first+"access:")
				says("first")
				held := make(chan *a2a.Result, 1)
				go func() { held <- ask("hold") }()
				<-a.held

				ctx, stop := context.WithCancel(t.Context())
				var load sync.WaitGroup
				load.Go(func() {
					for ctx.Err() == nil {
						if got := ask("hello"); !got.OK {
							t.Errorf("a task during reloads: %+v", got)
							return
						}
					}
				})
				reload(first, second)
				reload(second, first)
				reload(first, second)
				stop()
				load.Wait()
				says("second")
				reload(second, "")
				refused()
				close(a.release)
				if got := <-held; !got.OK || !strings.Contains(string(got.Output), "first") {
					t.Errorf("the task that was under way: %+v", got)
				}
				r.eventually("the end of all that is gone", func() bool {
					_, body := r.get("/metrics")
					return !strings.Contains(body, section.label)
				})
			})
		})
	}
}

func (a *answering) url(second bool) string {
	if second {
		return a.second
	}
	return a.first
}

// A name may move from one section to another in one reload.
func TestANameMovesFromAnAgentToATeam(t *testing.T) {
	a := newAnswering(t)
	agent := fmt.Sprintf("a2a: {agents: {desk: {url: '%s/agent', binding: jsonrpc}}}\n", a.first)
	r := start(t, agent+everyoneYAML)
	s := r.mustDial(r.addrs[0])
	says := func(want string) {
		t.Helper()
		input := `{"message":{"role":"ROLE_USER","parts":[{"text":"hello"}],"messageId":"1"}}`
		_, got := s.hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(input)}, a2a.SendOptions{Agent: "desk"})
		if !got.OK || !strings.Contains(string(got.Output), want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	says("first")
	team := fmt.Sprintf("a2a: {agents: {other: {url: '%s/agent', binding: jsonrpc}}}\nteams: {desk: {default: other, members: {other: {routes: false}}}}\n", a.second)
	r.rewrite(agent, team)
	if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
		t.Errorf("answer %+v", got)
	}
	says("second")
	r.rewrite(team, agent)
	r.reloads()
	says("first")
}

func TestWhoTheAgentsOfNSLIPAreChangesUnderTraffic(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := open(t, "a", fmt.Sprintf(numbers, ""))
		coordinator, planner := r.speaks(r.addrs[transport], "coordinator"), r.speaks(r.addrs[transport], "planner")
		const known, unknown = `@a6|f0|c3|S0|d1|T2#`, `@a6|f0|c3|S0|d9|T2#`
		hears := func(text string) {
			t.Helper()
			coordinator.says(messages.TypeNSLIP, text)
			if got := planner.hears(); got.Payload != text {
				t.Errorf("%+v, want %s", got, text)
			}
		}
		const other = `@a6|f0|c3|S2|d0|T2#` // for an agent that every configuration has
		sender := r.speaks(r.addrs[transport], "sleeper")
		hears(known)
		l := under(t, func() error {
			sender.says(messages.TypeNSLIP, other)
			if got := coordinator.hears(); got.Payload != other {
				return fmt.Errorf("%+v, want %s", got, other)
			}
			return nil
		})
		defer l.end()
		coordinator.isRefused(coordinator.says(messages.TypeNSLIP, unknown), messages.CodeNoMapping)
		r.rewrite("1: planner,", "1: planner, 9: planner,")
		r.reloaded()
		l.goesOn()
		hears(known)
		hears(unknown)
		r.rewrite("1: planner, 9: planner,", "9: planner,")
		r.reloaded()
		l.goesOn()
		coordinator.isRefused(coordinator.says(messages.TypeNSLIP, known), messages.CodeNoMapping)
		hears(unknown)
	})
}

func TestWhatSDLLetsAgentsCallChangesOnASession(t *testing.T) {
	r := start(t, sdlOpen+sdlAccess)
	s := r.speak(t)
	may := func(want bool) {
		t.Helper()
		if ok, _ := s.ask(t, sdl.JSON, sdlToolCall("sys.ping")).Payload.Get("ok").Bool(); ok != want {
			t.Errorf("sys.ping: %v, want %v", ok, want)
		}
	}
	may(true)
	r.rewrite("allow: [sys.ping,", "allow: [")
	r.reloaded()
	may(false)
	r.rewrite("allow: [", "allow: [sys.ping,")
	r.reloaded()
	may(true)
	r.rewrite("sdl: {agent_id: "+sdlServer+",", "sdl: {")
	r.rewrite(", modern/nothing]}}", "]}}")
	if got := r.reloads(); len(got.Changed) > 0 || !slices.Equal(got.Later, []string{}) || len(got.Problems) != 1 {
		t.Errorf("answer %+v", got)
	}
	may(true)
}

func TestLimitsChangeForConnectionsThatComeLater(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, "limits: {connections_per_identity: 2}\n")
		early := r.mustDial(r.addrs[transport])
		r.rewrite("connections_per_identity: 2", "connections_per_identity: 1")
		if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
			t.Errorf("answer %+v", got)
		}
		if late, err := r.dial(r.addrs[transport]); err == nil && echo(t, late) == nil {
			t.Error("one connection more than there may be is served")
		}
		if err := echo(t, early); err != nil {
			t.Errorf("the connection that was there: %v", err)
		}
		r.rewrite("connections_per_identity: 1", "connections_per_identity: 3")
		r.reloads()
		for range 2 {
			if err := echo(t, r.mustDial(r.addrs[transport])); err != nil {
				t.Errorf("as many connections as there may be: %v", err)
			}
		}
	})
}

func TestQuotasChangeUnderTraffic(t *testing.T) {
	r := start(t, "quota: {total: 8MiB, per_identity: 1MiB}\nartifact: {quota: {total: 8MiB, per_identity: 1MiB}}\n")
	r.counts("swpd_store_quota_bytes", "8.388608e+06")
	var work []func() error
	for _, address := range r.addrs[:2] {
		s := r.mustDial(address)
		work = append(work, func() error { return upload(t.Context(), s.Session, "artifact on "+address) })
	}
	l := under(t, work...)
	defer l.end()
	for _, row := range [][3]string{
		{"quota: {total: 8MiB, per_identity: 1MiB}\n", "quota: {total: 16MiB, per_identity: 2MiB}\n", "quota.per_identity quota.total"},
		{"artifact: {", "artifact: {max_size: 4KiB, ", "artifact.max_size"},
		{"artifact: {", "relay: {window: 1h, max_attempts: 7, max_payload: 4}\nartifact: {", "relay.max_attempts relay.max_payload relay.window"},
	} {
		r.changes(row[0], row[1], strings.Fields(row[2])...)
		l.goesOn()
	}
	r.counts("swpd_store_quota_bytes", "1.6777216e+07")
	_, publisher := relayPeer(t, r, r.addrs[0])
	publish := func(payload string) error {
		_, err := relay.Send(t.Context(), publisher, &relay.Publication{ID: []byte(payload), Topic: "t", Payload: []byte(payload)})
		return err
	}
	refused := (*profiles.PeerError)(nil)
	if err := publish("fives"); !errors.As(err, &refused) || !strings.Contains(refused.Message, "want at most 4") {
		t.Errorf("a payload above max_payload: %v", err)
	}
	r.changes("max_payload: 4", "max_payload: 5", "relay.max_payload")
	if err := publish("fives"); err != nil {
		t.Error(err)
	}
}

// traffic is work that is done again and again until end. Work that fails fails the test.
type traffic struct {
	t     *testing.T
	ctx   context.Context // ends with end, and with work that fails
	stop  context.CancelFunc
	load  sync.WaitGroup
	round chan struct{} // gets a value for each work that is done while goesOn waits
}

// under begins traffic: each of work in a goroutine. The caller calls end, which may be
// called twice.
func under(t *testing.T, work ...func() error) *traffic {
	t.Helper()
	l := &traffic{t: t, round: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(t.Context())
	for _, once := range work {
		l.load.Go(func() {
			for l.ctx.Err() == nil {
				if err := once(); err != nil {
					t.Errorf("under traffic: %v", err)
					l.stop()
					return
				}
				select {
				case l.round <- struct{}{}:
				default:
				}
			}
		})
	}
	l.goesOn()
	return l
}

// goesOn waits until work was done four times.
func (l *traffic) goesOn() {
	l.t.Helper()
	timeout := time.After(patience)
	for range 4 {
		select {
		case <-l.round:
		case <-l.ctx.Done():
			return
		case <-timeout:
			l.t.Fatal("traffic stands still")
		}
	}
}

func (l *traffic) end() {
	l.stop()
	l.load.Wait()
}

// changes rewrites the configuration and reloads: these keys are in force then, sorted, and
// nothing waits.
func (r *running) changes(from, to string, keys ...string) {
	r.t.Helper()
	before := r.log.String()
	r.rewrite(from, to)
	got := r.reloads()
	if len(got.Problems)+len(got.Later) > 0 || !slices.Equal(got.Changed, keys) && (len(got.Changed) > 0 || r.log.String() == before) {
		r.t.Errorf("from %q to %q: answer %+v, want %q", from, to, got, keys)
	}
}

func TestWhenToolsAreReadChangesUnderTraffic(t *testing.T) {
	r := start(t, childYAML(t)+"tooldisc: {refresh: 1h}\n")
	r.changes("refresh: 1h", "refresh: 2h, eager: true", "tooldisc.eager", "tooldisc.refresh")
	r.counts(`swpd_mcp_child_starts_total{server="child"}`, "1") // though nobody has asked
	var work []func() error
	for _, address := range r.addrs[:2] {
		s := r.mustDial(address)
		work = append(work, func() error {
			ids, err := toolsOf(t.Context(), s.Session)
			if err == nil && len(ids) != 2 {
				err = fmt.Errorf("%d tools, want 2", len(ids))
			}
			return err
		})
	}
	l := under(t, work...)
	defer l.end()
	r.changes("refresh: 2h, eager: true", "refresh: 1m, idle: 1m", "tooldisc.eager", "tooldisc.idle", "tooldisc.refresh")
	l.goesOn()
	r.changes("refresh: 1m, idle: 1m", "eager: true", "tooldisc.eager", "tooldisc.idle", "tooldisc.refresh")
	l.goesOn()
}

func TestTheFrontsOfHTTPChangeUnderTraffic(t *testing.T) {
	const card = "{ \"name\" : \"f\\u0061r\",\"signatures\":[{}],\"supportedInterfaces\":[] }\n"
	r := startWith(t, httpYAML+"agdisc: {cards: {near: {file: card.json}}}\naccess: {rules: [{identity: '**'}], agents: [{identity: '**', agent_ids: '**'}]}\n", "card.json", card)
	front := r.front()
	params := make(chan []string, 1)
	near := &organisation{running: r, name: "swpd"}
	near.agent("near", func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		if strings.Contains(string(task.Input), "hold") {
			params <- task.Params
			<-params
		}
		return task.Input, nil
	}, a2abinding.Kinds()...)
	ask := func(authorization, body string, headers ...string) (int, string) {
		status, _, got := post(t, front+"/a2a/near/message:send", body, append([]string{version, "Authorization: " + authorization}, headers...)...)
		return status, got
	}
	l := under(t, func() error {
		if status, got := ask("Bearer secret-a", `{"n":1}`); status != 200 || got != `{"n":1}` {
			return fmt.Errorf("%d %s", status, got)
		}
		return nil
	})
	defer l.end()
	if status, _, _ := fetch(t, front+a2afront.CardPath); status != 404 {
		t.Errorf("the card of nobody: %d", status)
	}
	r.changes("http: {", "http: {calls: 2, url: 'https://front.example', a2a: {default: near, parameters: [x-tenant]}, ", "http.a2a.default", "http.a2a.parameters", "http.calls", "http.url")
	l.goesOn()
	if status, _, got := fetch(t, front+a2afront.CardPath); status != 200 || !strings.Contains(got, `"https://front.example/a2a/near"`) {
		t.Errorf("the card of the default agent: %d %s", status, got)
	}
	held := make(chan int, 1)
	go func() {
		status, _ := ask("Bearer secret-a", `{"hold":1}`, "X-Tenant: t1")
		held <- status
	}()
	if got := <-params; !slices.Contains(got, "x-tenant=t1") {
		t.Errorf("parameters %q", got)
	}
	l.end() // one is still under way
	r.changes("calls: 2", "calls: 1", "http.calls")
	if status, got := ask("Bearer secret-a", `{}`); status != 429 {
		t.Errorf("more than one call: %d %s", status, got)
	}
	r.changes("calls: 1", "calls: 3", "http.calls")
	if status, got := ask("Bearer secret-a", `{}`); status != 200 {
		t.Errorf("as many as there may be: %d %s", status, got)
	}
	params <- nil
	if status := <-held; status != 200 {
		t.Errorf("the call that was under way: %d", status)
	}
	r.changes("a2a: {default: near, parameters: [x-tenant]}", "a2a: {default: near, card: verbatim}", "http.a2a.card", "http.a2a.parameters")
	if status, _, got := fetch(t, front+a2afront.CardPath); status != 200 || got != card {
		t.Errorf("the card as it is: %d %s", status, got)
	}
}

func TestTheNameAndTheBoundsOfSDLChangeUnderTraffic(t *testing.T) {
	r := start(t, sdlOpen+sdlAccess)
	s := r.speak(t)
	const renamed = "did:web:other.example"
	names := []string{sdlServer, renamed} // the first until it is refused, then the second: refusals end a session
	l := under(t, func() error {
		for ; len(names) > 0; names = names[1:] {
			v := sdlToolCall("sys.ping")
			v = v.With("to", v.Get("to").With("agent_id", canonical.String(names[0])))
			if ok, _ := s.ask(t, sdl.JSON, v).Payload.Get("ok").Bool(); ok {
				return nil
			}
		}
		return errors.New("sys.ping is not allowed")
	})
	defer l.end()
	begun, end := make(chan struct{}), make(chan struct{})
	(&organisation{running: r, name: "swpd"}).agent("digger", func(_ context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		begun <- struct{}{}
		<-end
		return []byte(`{"depth":2.0}`), nil
	}, "sdl/task.v1")
	s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask))
	<-begun
	r.changes("sdl: {", "sdl: {tasks: 1, deadline: 20m, ", "sdl.deadline", "sdl.tasks")
	l.goesOn()
	second := sdlRequest(sdl.CTTask, strings.Replace(sdlTask, "t1", "t2", 1))
	if e := s.ask(t, sdl.JSON, second); e.CT != sdl.CTError || !strings.Contains(string(e.Payload.AppendJSON(nil)), "concurrency_limit") {
		t.Errorf("one task more than there may be: %s", e.Value.AppendJSON(nil))
	}
	r.changes("tasks: 1", "tasks: 2", "sdl.tasks")
	s.ask(t, sdl.JSON, second)
	<-begun
	r.changes("agent_id: "+sdlServer, "agent_id: "+renamed, "sdl.agent_id")
	l.goesOn()
	close(end)
	s.states(t)
}

// The deadline of a method changes for later calls; the idle timeout of a connection
// never does.
func TestTheIdleTimeAndTheTimeOfHandlersChangeUnderTraffic(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		dir := t.TempDir()
		if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
			t.Fatal(err)
		}
		left := rpc.Method{Repeatable: true, Detached: func(ctx context.Context, _ *profiles.Request, _ []byte, _ func([]byte) error) ([]byte, error) {
			deadline, _ := ctx.Deadline()
			return json.Marshal(time.Until(deadline) > 5*time.Minute)
		}}
		r := startIn(t, dir, "limits: {idle: 9m, handler: 4m}\n", func(o *Options) { o.Methods = map[string]rpc.Method{"own.left": left} })
		s := r.mustDial(r.addrs[transport])
		idle := func(on *session, want time.Duration) {
			t.Helper()
			var info rpc.Info
			if err := rpc.CallJSON(t.Context(), on.Session, rpc.MethodInfo, nil, &info); err != nil || info.Idle() != want {
				t.Errorf("the idle timeout is %v, want %v, error %v", info.Idle(), want, err)
			}
		}
		long := func(key string, want string) {
			t.Helper()
			got, err := rpc.Invocation{Method: "own.left", IdempotencyKey: key}.Call(t.Context(), s.Session)
			if err != nil || string(got) != want {
				t.Errorf("key %q: more than five minutes: %s, want %s, error %v", key, got, want, err)
			}
		}
		idle(s, 9*time.Minute)
		long("", "false")
		long("a", "false")
		l := under(t, func() error { return echo(t, s) })
		defer l.end()
		r.changes("idle: 9m, handler: 4m", "idle: 8m, handler: 6m", "limits.handler", "limits.idle")
		l.goesOn()
		idle(s, 9*time.Minute)
		idle(r.mustDial(r.addrs[transport]), 8*time.Minute)
		long("", "true")
		long("b", "true")
	})
}

func TestTheTimesOfStoredDataChangeUnderTraffic(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, everyoneYAML)
		deadlines := make(chan time.Time, 1)
		(&organisation{running: r, name: "swpd"}).agent("near", func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			select {
			case deadlines <- task.Deadline:
			default:
			}
			return task.Input, nil
		})
		s := r.mustDial(r.addrs[transport])
		n := 0
		l := under(t, func() error {
			n++
			blob := fmt.Appendf(nil, "state %d", n)
			return put(t.Context(), s.Session, stateprofile.State{ID: stateprofile.IDOf(blob), Blob: blob})
		}, func() error {
			if _, result := s.hand(t, &a2a.Task{Kind: "k", Input: []byte("x")}, a2a.SendOptions{Agent: "near"}); !result.OK {
				return fmt.Errorf("%+v", result)
			}
			return nil
		})
		defer l.end()
		r.changes("access:", "a2a: {deadline: 30m, retention: 1h, abandoned: 2m}\nrpc: {replay_window: 1h}\nevents: {retention: 1h}\nstate: {retention: 1h}\naccess:",
			"a2a.abandoned", "a2a.deadline", "a2a.retention", "events.retention", "rpc.replay_window", "state.retention")
		for len(deadlines) > 0 {
			<-deadlines
		}
		<-deadlines // of a task that may have begun before
		if left := time.Until(<-deadlines); left > 30*time.Minute {
			t.Errorf("a later task has %v", left)
		}
		r.changes("state: {retention: 1h}", "state: {retention: 0s}", "state.retention")
		l.goesOn()
		r.rewrite("events: {retention: 1h}", "events: {retention: 0s}")
		if got := r.reloads(); !slices.Equal(got.Later, []string{"events.retention"}) || !strings.Contains(got.Reasons["events.retention"], "decided at the start") {
			t.Errorf("answer %+v", got)
		}
	})
}

func TestTheCollectorOfSpansChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		first, inFirst := collected(t)
		second, inSecond := collected(t)
		dir := t.TempDir()
		if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
			t.Fatal(err)
		}
		begun, end := make(chan struct{}), make(chan struct{})
		held := rpc.Method{Repeatable: true, Detached: func(context.Context, *profiles.Request, []byte, func([]byte) error) ([]byte, error) {
			begun <- struct{}{}
			<-end
			return nil, nil
		}}
		r := startIn(t, dir, everyoneYAML, func(o *Options) { o.Methods = map[string]rpc.Method{"own.held": held} })
		s := r.mustDial(r.addrs[transport])
		l := under(t, func() error { return echo(t, s) })
		defer l.end()
		r.changes("access:", "telemetry: {otlp: '"+first+"'}\naccess:", "telemetry.otlp")
		done := make(chan error, 1)
		go func() {
			_, err := rpc.Call(t.Context(), s.Session, "own.held", nil)
			done <- err
		}()
		<-begun
		l.goesOn()
		r.changes(first, second, "telemetry.otlp")
		l.goesOn()
		l.end()
		before := len(inFirst())
		r.eventually("the spans of the first collector but one", func() bool {
			now := len(inFirst())
			same := now == before
			before = now
			return same && now >= 4
		})
		close(end) // the collector of its beginning gets it
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.eventually("the span that was not over", func() bool { return len(inFirst()) > before })
		r.changes("telemetry: {otlp: '"+second+"'}\n", "", "telemetry.otlp")
		r.eventually("the spans of the second collector", func() bool { return len(inSecond()) >= 4 })
		r.eventually("the counts of both", func() bool {
			return r.metric("swpd_spans_sent_total") == fmt.Sprint(len(inFirst())+len(inSecond()))
		})
	})
}

func TestForwardingOfCredentialsChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, backend := newFar(t)
		near, _ := credYAML(t, false)
		there, _ := credYAML(t, false)
		a, _ := pairOf(t, transport, near, there+backend+modernYAML(t))
		s := a.mustDial(a.addrs[transport])
		credential, delegation := grant(t, theIssuer, theCaller, "read write", 2*time.Hour), grant(t, theCaller, theEnd, "read", time.Hour)
		ctx := s.show(t, "one", credential, delegation)
		call := func() (delegation string, err error) {
			_, err = rpc.Call(ctx, s.Session, "b/echo", []byte("{}"))
			if err != nil {
				return "", err
			}
			return (<-f.asked).Header.Get("Swp-Delegation"), nil
		}
		l := under(t, func() error {
			result, err := s.mapping.Client(s.Session).Do(t.Context(), &mcpmap.Call{Target: "b/modern", Octets: []byte(modernCall)})
			if err == nil && !strings.Contains(string(result.Octets), `"result"`) {
				err = errors.New(string(result.Octets))
			}
			return err
		})
		defer l.end()
		if said, err := call(); err != nil || said != "" {
			t.Errorf("not forwarded: %q, %v", said, err)
		}
		a.changes("forward: false", "forward: true", "cred.forward")
		l.goesOn()
		if _, err := call(); err == nil || !strings.Contains(err.Error(), "present them again") {
			t.Errorf("credentials from before: %v", err)
		}
		s.show(t, "one", credential, delegation)
		if said, err := call(); err != nil || !strings.Contains(said, "depth=2") {
			t.Errorf("presented again: %q, %v", said, err)
		}
		a.changes("forward: true", "forward: false", "cred.forward")
		l.goesOn()
		if said, err := call(); err != nil || said != "" {
			t.Errorf("not forwarded any more: %q, %v", said, err)
		}
	})
}

// identified is the part of a configuration of startIn that names an identity.
const identified = "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\n"

func TestADevelopmentIdentityIsReplacedUnderTraffic(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		dir := t.TempDir()
		if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: "spiffe://localhost/other"}); err != nil {
			t.Fatal(err)
		}
		r := startIn(t, dir, "", func(o *Options) {
			file := o.Config.Source
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, bytes.Replace(text, []byte(identified), nil, 1), 0o600)
			}
			if err == nil {
				o.Config, err = config.Load(file, nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
		as := devpki.Client(filepath.Join(dir, "data", "pki"))
		s, err := dialWith(t, r.addrs[transport], as)
		if err != nil {
			t.Fatal(err)
		}
		l := under(t, func() error { return echo(t, s) })
		defer l.end()
		both := strings.Replace(identified, "pki/ca.crt]", "pki/ca.crt, data/pki/ca.crt]", 1)
		r.changes("admin:", both+"admin:", "identity.cert", "identity.key", "trust.ca")
		l.goesOn()
		if got := r.mustDial(r.addrs[transport]).Peer().Identity; got != "spiffe://localhost/other" {
			t.Errorf("the server is %q", got)
		}
		r.changes(both, "", "identity.cert", "identity.key", "trust.ca")
		l.goesOn()
		if _, err := dialWith(t, r.addrs[transport], as); err != nil {
			t.Errorf("as it was at the start: %v", err)
		}
	})
}

func TestADevelopmentIdentityInPlaceOfAnotherWaits(t *testing.T) {
	r := start(t, "")
	r.rewrite(identified, "")
	got := r.reloads()
	if !slices.Equal(got.Later, []string{"identity.cert", "identity.key", "trust.ca"}) || !strings.Contains(got.Reasons["identity.cert"], "loopback") {
		t.Errorf("answer %+v", got)
	}
	if err := echo(t, r.mustDial(r.addrs[0])); err != nil {
		t.Error(err)
	}
}
