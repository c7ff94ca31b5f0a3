package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// errand asks something of the endpoint at an address of partners, "b/c". It returns why it
// got nothing.
type errand func(t *testing.T, ctx context.Context, s *session, at string) error

// errands are one of each kind that crosses.
var errands = map[string]errand{
	"state put": func(t *testing.T, ctx context.Context, s *session, at string) error {
		_, err := state.PutAll(ctx, opened(t, profiles.Toward(s.Session, at)), rpc.Sync, wanted)
		return err
	},
	"state get": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		_, err := state.Fetch(ctx, profiles.Toward(s.Session, at), wanted.ID)
		return err
	},
	"artifact put": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		octets, sum := octetsOf(100)
		u := artifact.Upload{ArtifactID: "x", Size: 100, Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
		return u.Send(ctx, profiles.Toward(s.Session, at))
	},
	"artifact get": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		d := artifact.Download{ArtifactID: "x", Sink: func(*artifact.Chunk) error { return nil }}
		_, err := d.Receive(ctx, profiles.Toward(s.Session, at))
		return err
	},
	"events publish": func(t *testing.T, ctx context.Context, s *session, at string) error {
		p := events.NewPublisher(opened(t, profiles.Toward(s.Session, at)), rpc.Sync)
		defer p.Close()
		if err := p.Publish(ctx, record("1", "k", "x")); err != nil {
			return err
		}
		return p.Sync(ctx)
	},
	"events subscribe": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		return subscribes(ctx, profiles.Toward(s.Session, at), events.SubscribeOptions{Filter: "type:k"})
	},
	"events subscribe, durable": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		return subscribes(ctx, profiles.Toward(s.Session, at), events.SubscribeOptions{Filter: "type:k", Name: "mine"})
	},
	"agdisc get": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		_, err := agdisc.Ask(ctx, profiles.Toward(s.Session, at), "x", "")
		return err
	},
	"tooldisc get": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		_, err := tooldisc.Find(ctx, profiles.Toward(s.Session, at), "x", "")
		return err
	},
	"tooldisc list": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		_, _, err := tooldisc.Page(ctx, profiles.Toward(s.Session, at), tooldisc.Query{})
		return err
	},
	"relay publish": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		_, err := relay.Send(ctx, profiles.Toward(s.Session, at), &relay.Publication{ID: []byte("1"), Topic: "t"})
		return err
	},
	"relay consume": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		c, err := s.relays.Consume(ctx, profiles.Toward(s.Session, at), "t", 1)
		if err == nil {
			c.Close()
		}
		return err
	},
	"rpc call": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		_, err := rpc.Call(ctx, profiles.Toward(s.Session, at), rpc.MethodEcho, nil)
		return err
	},
	"sdl req": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		octets, err := carriage.Call(ctx, profiles.Toward(s.Session, at), sdlToolCall("sys.ping").AppendJSON(nil))
		if err == nil && bytes.Contains(octets, []byte(`"code"`)) {
			err = errors.New(string(octets))
		}
		return err
	},
	"mcp, modern": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		return asks(ctx, s, mcpmap.Call{Target: at + "/child", Octets: []byte(modernCall)})
	},
	"mcp, legacy": func(_ *testing.T, ctx context.Context, s *session, at string) error {
		return asks(ctx, s, mcpmap.Call{Target: at + "/child", Octets: []byte(legacyBegin)})
	},
	"a2a task": func(t *testing.T, ctx context.Context, s *session, at string) error {
		d, err := s.tasks.Send(ctx, s.Session, &a2a.Task{Kind: "report", Input: []byte("x")}, a2a.SendOptions{Agent: at})
		if err != nil {
			return err
		}
		defer d.Close()
		if _, result := follow(t, d, ""); !result.OK {
			return errors.New(result.Reason)
		}
		return nil
	},
}

func subscribes(ctx context.Context, on profiles.Session, o events.SubscribeOptions) error {
	sub, err := events.Open(ctx, on, o)
	if err == nil {
		sub.Close()
	}
	return err
}

func asks(ctx context.Context, s *session, call mcpmap.Call) error {
	result, err := s.mapping.Client(s.Session).Do(ctx, &call)
	if err == nil && result.Error() != nil {
		err = errors.New(string(result.Error()))
	}
	return err
}

// each runs every errand to an address at once, but for some, and then judges them.
func each(t *testing.T, s *session, at string, judge func(name string, err error), but ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make(map[string]chan error)
	for name, do := range errands {
		if !slices.Contains(but, name) {
			told[name] = make(chan error, 1)
			c := told[name]
			go func() { c <- do(t, ctx, s, at) }()
		}
	}
	for name, err := range told {
		judge(name, <-err)
	}
}

// isRefused wants each errand refused with one of some texts.
func isRefused(t *testing.T, what string, texts ...string) func(name string, err error) {
	return func(name string, err error) {
		t.Helper()
		for _, text := range texts {
			if err != nil && strings.Contains(err.Error(), text) {
				return
			}
		}
		t.Errorf("%s, %s: %v, want one of %q", what, name, err, texts)
	}
}

// arrived notes the profiles of the messages that come to a partner.
func (h *hostile) arrived() (list func() string) {
	var mu sync.Mutex
	seen := make(map[string]bool)
	h.with(func(m *told) bool {
		what := fmt.Sprint(m.ProfileID)
		switch m.method() {
		case rpc.MethodInfo, agdisc.MethodList, rpc.MethodPing, relay.MethodDead: // of the link itself
			return false
		case "":
		default:
			what += " " + m.method()
		}
		mu.Lock()
		defer mu.Unlock()
		seen[what] = true
		return false
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(seen)
	}
}

// A message with a target never goes to a partner that would ignore it.
func TestAnOlderPartnerIsSentNoTarget(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		h.mu.Lock()
		h.info = bytes.Replace(h.info, []byte(`"0":[52],`), nil, 1)
		h.mu.Unlock()
		h.hangUp()
		a.until("the loss of b", func() bool { return !a.up("b") })
		a.connected("b")
		list := h.arrived()
		s := a.mustDial(a.addrs[transport])
		each(t, s, "b/c", isRefused(t, "behind an older partner", "extension 52"), "mcp, modern", "mcp, legacy", "a2a task", "relay publish")
		// Custody is here; the partner is not asked to take it.
		if err := errands["relay publish"](t, t.Context(), s, "b/c"); err != nil {
			t.Error(err)
		}
		becomes(t, s.Session, "1", relay.DeadState)
		if got := list(); got != "map[]" {
			t.Errorf("sent to it: %s", got)
		}
	})
}

// A partner that knows MCP and A2A only is sent nothing else, and whoever asks is told why.
func TestAPartnerOfMCPAndA2AIsAskedNothingElse(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		a.rewrite("  b: {", "  b: {profiles: [mcp, a2a], ")
		a.reloaded()
		a.connected("b")
		list := h.arrived()
		s := a.mustDial(a.addrs[transport])
		each(t, s, "b", isRefused(t, "at a partner of MCP and A2A", "partner b does not know of"), "mcp, modern", "mcp, legacy", "a2a task")
		if got := list(); got != "map[]" {
			t.Errorf("sent to it: %s", got)
		}
	})
}

func TestEachErrandEndsInACircle(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "a2a: {workers: {one: {kinds: [report], command: cat}}}\n"+childYAML(t))
		b.connected("a")
		s := a.mustDial(a.addrs[transport])
		each(t, s, strings.Repeat("b/a/", 4)+"b", isRefused(t, "nine hops", "passed on 8 times already", "has passed too many endpoints", "in a circle"), "relay publish", "artifact put")
		if err := errands["relay publish"](t, t.Context(), s, strings.Repeat("b/a/", 4)+"b"); err != nil {
			t.Error(err)
		}
		becomes(t, s.Session, "1", relay.DeadState)
	})
}

func TestEachErrandIsDeniedHereAndThere(t *testing.T) {
	t.Parallel()
	const nothing = "access: {rules: [{identity: 'spiffe://nobody.example/x'}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		denied := []string{"SECURITY_POLICY", "SECURITY_UNSUPPORTED", "unauthorized", "denied", "not allowed", "ERR_SECURITY_POLICY"}
		t.Run("here", func(t *testing.T) {
			a, _ := pairOf(t, transport, nothing, "")
			s := a.justDial(a.addrs[transport])
			each(t, s, "b", isRefused(t, "denied here", denied...), "agdisc get", "tooldisc get", "tooldisc list")
			isRefused(t, "denied here", "NOT_FOUND", denied[0])("agdisc get", errands["agdisc get"](t, t.Context(), s, "b"))
		})
		t.Run("there", func(t *testing.T) {
			a, _ := pairOf(t, transport, "", strings.Replace(nothing, "rules: [", "rules: [{identity: '**', profile: rpc, name: [swp.sync, swp.info]}, ", 1))
			s := a.mustDial(a.addrs[transport])
			// What one may not see does not exist: there are no events of it, and the list of tools is empty.
			each(t, s, "b", isRefused(t, "denied there", append(denied, "NOT_FOUND")...),
				"events subscribe", "events subscribe, durable", "tooldisc list", "relay publish", "rpc call")
			_, err := rpc.Call(t.Context(), profiles.Toward(s.Session, "b"), "method", nil) // echo is everybody's
			isRefused(t, "denied there", denied...)("rpc call", err)
			if err := errands["relay publish"](t, t.Context(), s, "b"); err != nil {
				t.Error(err)
			}
			becomes(t, s.Session, "1", relay.DeadState)
		})
	})
}

// Rules are asked before anything of a message is kept: after each kind of work was denied,
// here and on its way to a partner, the store, the artifacts, the relay and the memory of
// messages in flight are as they were.
func TestRS10NothingOfADeniedMessageIsKept(t *testing.T) {
	t.Parallel()
	const nothing = "access: {rules: [{identity: 'spiffe://nobody.example/x'}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := alone(t, nothing+servingErrands(t), "addresses: ['swp+tls://127.0.0.1:1']")
		kept := func() (all [4]string) {
			for i, series := range []string{"swpd_store_used_bytes", "swpd_relay_waiting", "swpd_relay_queues"} {
				all[i] = r.metric(series)
			}
			artifacts := 0
			for path, err := range files(filepath.Join(r.dir, "data", "artifacts")) {
				if err != nil {
					t.Fatal(err)
				}
				if filepath.Base(path) != "probe" { // it is written by the first check of the disk
					artifacts++
				}
			}
			all[3] = strconv.Itoa(artifacts)
			return all
		}
		before := kept()
		s := r.justDial(r.addrs[transport])
		for _, at := range []string{"b", ""} {
			each(t, s, at, func(name string, err error) {
				if err == nil {
					t.Errorf("%s at %q was not denied", name, at)
				}
			}, "tooldisc list", "rpc call", "a2a task") // lists are empty, echo is everybody's; a denied Task keeps its id: RS-10
		}
		for _, octets := range []string{modernCall, legacyBegin} {
			if err := asks(t.Context(), s, mcpmap.Call{Target: "child", Octets: []byte(octets)}); err == nil {
				t.Errorf("%s was not denied", octets)
			}
		}
		if after := kept(); after != before || before[0] == "" {
			t.Errorf("octets of the store, deliveries, queues, files: %v before, %v after the denials", before, after)
		}
		r.counts("swpd_in_flight_bytes", "0")
		if _, text := r.get("/metrics"); !strings.Contains(text, `swpd_denials_total{profile="artifact"}`) || !strings.Contains(text, `swpd_denials_total{profile="state"}`) {
			t.Errorf("not all was denied by rules: %s", text)
		}
	})
}

// Every peer may call some methods, but the outcome under an idempotency_key is stored, for
// identities with a rule for the method only.
func TestRS10NoOutcomeIsKeptForAPeerWithoutARule(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := open(t, "a", "access: {rules: [{identity: 'spiffe://nobody.example/x'}]}\n")
		s := r.justDial(r.addrs[transport])
		before := r.metric("swpd_store_used_bytes")
		for _, method := range all.Open() {
			if slices.Contains([]string{rpc.MethodPing, rpc.MethodSync, rpc.MethodReceipt}, method) {
				continue // they ignore the key
			}
			_, err := rpc.Invocation{Method: method, Params: []byte("{}"), IdempotencyKey: method}.Call(t.Context(), s)
			if fault, ok := errors.AsType[*rpc.Error](err); !ok || fault.Code != rpc.CodeUnauthorized {
				t.Errorf("%s with a key: %v", method, err)
			}
		}
		if got, err := rpc.Call(t.Context(), s, rpc.MethodEcho, []byte("x")); err != nil || string(got) != "x" {
			t.Errorf("without a key: %q, %v", got, err)
		}
		if after := r.metric("swpd_store_used_bytes"); after != before || before == "" {
			t.Errorf("octets of the store: %s before, %s after", before, after)
		}
		r.await(`"profile":"rpc","operation":"call","name":"swp.echo"`)

		r.rewrite("spiffe://nobody.example/x", "**")
		r.reloaded()
		call := rpc.Invocation{Method: rpc.MethodEcho, Params: []byte("x"), IdempotencyKey: "k"}
		for range 2 {
			if got, err := call.Call(t.Context(), s); err != nil || string(got) != "x" {
				t.Errorf("with a rule: %q, %v", got, err)
			}
		}
		if after := r.metric("swpd_store_used_bytes"); after == before {
			t.Error("nothing is stored for an identity with a rule")
		}
	})
}

// files are the files in a folder, of any depth; there may be none.
func files(dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if !yield(path, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield("", err)
		}
	}
}

func TestEachErrandToAPartnerThatIsAwayIsToldSo(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a := alone(t, "", "addresses: ['swp+tls://127.0.0.1:1']")
		a.await("partner not reached")
		s := a.mustDial(a.addrs[transport])
		each(t, s, "b", isRefused(t, "a partner that is away", "cannot be reached now"), "relay publish")
		if err := errands["relay publish"](t, t.Context(), s, "b"); err != nil {
			t.Error(err)
		}
		becomes(t, s.Session, "1", relay.Queued)
	})
}

// justDial dials without asking for anything that rules could deny.
func (o *organisation) justDial(address string) *session {
	o.t.Helper()
	s, err := o.dial(address)
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

// servingErrands configures what the errands ask for, but for a card and a modern MCP server.
func servingErrands(t *testing.T) string {
	t.Helper()
	return sdlOpen + "a2a: {workers: {one: {kinds: [report], command: cat}}}\n" + childYAML(t) +
		"tooldisc:\n  tools:\n    - {tool_id: x, name: X, version: '1', schema_ref: 'sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'}\n"
}

func TestEachErrandReachesTheThirdEndpoint(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, "", "", servingErrands(t))
		s := row[0].mustDial(row[0].addrs[transport])
		gets := []string{"state get", "artifact get"} // of what the others put
		each(t, s, "b/c", func(name string, err error) {
			if name == "agdisc get" { // nobody has a card there
				refusedBy(t, name, err, agdisc.CodeNotFound, row[2])
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}, append(gets, "mcp, modern")...)
		for _, name := range gets {
			if err := errands[name](t, t.Context(), s, "b/c"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Whoever asks again after the link was lost, or after either end was started again, gets what
// he asks for.
func TestEachErrandIsDoneAfterTheLinkOrEitherEndWasLost(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b, a := open(t, "b", servingErrands(t)), open(t, "a", "")
		var s *session
		dials := func(o *organisation) {
			if o == a {
				s = a.mustDial(a.addrs[transport])
			}
		}
		a.losesB(b, transport, dials, func(after string) {
			t.Helper()
			each(t, s, "b", func(name string, err error) {
				if name == "agdisc get" { // nobody has a card there
					refusedBy(t, after+", "+name, err, agdisc.CodeNotFound, b)
				} else if err != nil {
					t.Errorf("%s, %s: %v", after, name, err)
				}
			}, "mcp, modern", "state get", "artifact put", "artifact get")
		})
	})
}
