package endpoint_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// forbidding is a Policy that forbids acts on names that say so.
type forbidding struct{}

func (forbidding) Violated(_ context.Context, act *profiles.Act) *profiles.Violation {
	if act.Free || !strings.Contains(act.Name, "forbidden") {
		return nil
	}
	return &profiles.Violation{
		Key: "region", Scope: "connection", Reason: "UNSATISFIED",
		Notice: e1.Envelope{ProfileID: testProfile, MsgType: typeBoth, MsgID: []byte("notice--notice--"), Payload: []byte("notice")},
	}
}

// conditioned attaches a MUST to messages that say so, and what is known of their chain.
func conditioned(ctx context.Context, _ *profiles.Profile, req *profiles.Request) context.Context {
	mode := profiles.Should
	if bytes.Contains(req.Payload, []byte("must")) {
		mode = profiles.Must
	}
	ctx = profiles.WithPolicy(ctx, []profiles.Hint{{Key: "region", Value: "eu", Mode: mode, Scope: "connection"}}, forbidding{})
	switch id, _ := req.Extensions.Lookup(profiles.ExtChain); string(id) {
	case "known":
		return profiles.WithDelegation(ctx, &profiles.Delegation{ChainID: "known"})
	case "revoked":
		return profiles.WithoutDelegation(ctx, profiles.ErrRevoked)
	}
	return ctx
}

// unruly is an Access that allows only what says so.
type unruly struct{}

func (unruly) Allowed(_, _, _, name string) bool { return strings.Contains(name, "allowed") }

func TestPR13NothingIsHandledWhoseConditionsAreNotMet(t *testing.T) {
	var handled atomic.Int32
	p := telling(profile(counting(func(*profiles.Request) { handled.Add(1) })))
	p.Act = func(req *profiles.Request) (profiles.Act, error) {
		name := string(req.Payload)
		act := profiles.Act{Operation: "do", Name: name, Ruled: strings.Contains(name, "ruled"), Free: strings.Contains(name, "free"), Ends: strings.Contains(name, "ends")}
		switch {
		case strings.Contains(name, "malformed"):
			return act, profiles.Errorf(profiles.InvalidProfilePayload, "malformed")
		case strings.Contains(name, "panic"):
			panic("boom")
		}
		return act, nil
	}
	r := newRig(t, endpoint.Options{Tracer: endpoint.ContextFunc(conditioned), Access: unruly{}}, p)
	const ok = profiles.OK
	for i, test := range []struct {
		payload, chain string
		code           profiles.Code
		detail         string
		notice         bool
	}{
		{"must do it", "", ok, "", false},
		{"should do what is forbidden", "", ok, "", false},
		{"must do what is forbidden", "", profiles.SecurityPolicy, "policy_hint", true},
		{"must do what is forbidden and ruled", "", profiles.SecurityPolicy, "access", false},
		{"must do what is forbidden and ruled, and allowed", "", profiles.SecurityPolicy, "policy_hint", true},
		{"must do what is forbidden and free", "", ok, "", false},
		{"must do what is forbidden and ends something", "", ok, "", false},
		{"must do what is malformed", "", profiles.InvalidProfilePayload, "", false},
		{"must do what panics: panic", "", profiles.Internal, "", false},
		{"anything", "known", ok, "", false},
		{"anything", "revoked", profiles.SecurityPolicy, "cred_chain", false},
		{"anything", "unknown", profiles.SecurityPolicy, "cred_chain", false},
		{"what is free", "revoked", profiles.SecurityPolicy, "cred_chain", false},
		{"what ends something", "revoked", ok, "", false},
		{"must do what is forbidden", "known", profiles.SecurityPolicy, "policy_hint", true},
		{"must do what is forbidden", "revoked", profiles.SecurityPolicy, "cred_chain", false},
	} {
		env := request("0123456789abcdef", test.payload)
		if test.chain != "" {
			env.Extensions = e1.AppendExtension(nil, profiles.ExtChain, []byte(test.chain))
		}
		before := handled.Load()
		r.send(t, env)
		if test.notice {
			if got := r.recv(t); string(got.Payload) != "notice" {
				t.Fatalf("%q: %+v before the refusal, want the notice", test.payload, got)
			}
		}
		if test.code == ok {
			r.wantEcho(t, "0123456789abcdef", test.payload)
		} else {
			r.wantError(t, "0123456789abcdef", test.code)
		}
		v := r.rec.verdict(t, i+1)
		if v.Code != test.code || v.Detail != test.detail {
			t.Errorf("%q under %q: %v %q, want %v %q", test.payload, test.chain, v.Code, v.Detail, test.code, test.detail)
		}
		if n := handled.Load() - before; (n == 1) != (test.code == ok) {
			t.Errorf("%q under %q: handled %d times", test.payload, test.chain, n)
		}
	}
}

// Where nobody attaches anything to messages a chain is of no use, whoever it is.
func TestAChainNobodyLooksAtIsRefused(t *testing.T) {
	r := newRig(t, endpoint.Options{}, telling(profile(counting(func(*profiles.Request) { t.Error("handled") }))))
	env := request("0123456789abcdef", "x")
	env.Extensions = e1.AppendExtension(nil, profiles.ExtChain, []byte("any"))
	r.send(t, env)
	r.wantError(t, "0123456789abcdef", profiles.SecurityPolicy)
}

// A message without hints and without a chain costs no allocation for them, even if it has
// extensions and somebody looks for both.
func TestMessagesWithoutConditionsDoNotAllocate(t *testing.T) {
	effort.Unwatched(t) // under the race detector pools forget at random
	p := profile(echo)
	p.Act = func(*profiles.Request) (profiles.Act, error) { panic("nobody has to know") }
	reg, err := profiles.NewRegistry(p)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: reg, Tracer: endpoint.ContextFunc(
		func(ctx context.Context, _ *profiles.Profile, _ *profiles.Request) context.Context { return ctx },
	)})
	if err != nil {
		t.Fatal(err)
	}
	conn := newTreadmill()
	ep.Attach(conn)
	defer func() { _ = ep.Close() }()
	env := request("0123456789abcdef", string(make([]byte, 64)))
	env.Extensions = e1.AppendExtensionUvarint(e1.AppendExtensionUvarint(nil, profiles.ExtHops, 1), profiles.ExtDeadline, 1000)
	answered := request("0123456789abcdef", string(make([]byte, 64))) // is as long as the answer, see treadmill.run
	batch := bytes.Repeat(framed(env), 512)
	conn.due = 512 * len(framed(answered))
	conn.run(batch) // the first buffers come from the pools
	if allocs := testing.AllocsPerRun(100, func() { conn.run(batch) }); allocs >= 1 {
		t.Errorf("%.0f allocations for 512 messages, want 0", allocs)
	}
}
