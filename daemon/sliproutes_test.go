package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/transport/endpoint"
)

// said is a message that an agent got.
type said struct {
	Type    uint64
	Payload string
	Handles []messages.Meaning
}

// undelivered is a SLIP_ERR.
type undelivered struct{ MsgID, Code string }

// slipAgent is an agent that hears messages.
type slipAgent struct {
	t       *testing.T
	session *endpoint.Session
	relay   *relay.Service
	heard   chan said
	errs    chan undelivered
}

// speaks joins a daemon as an agent, and returns when it is known there.
func (o *organisation) speaks(address, id string) *slipAgent {
	o.t.Helper()
	return o.speaksAs(address, id, "")
}

// speaksAs is speaks with a declaration for the hints of others.
func (o *organisation) speaksAs(address, id, declares string) *slipAgent {
	o.t.Helper()
	a := &slipAgent{t: o.t, heard: make(chan said, 16), errs: make(chan undelivered, 16)}
	set, err := all.New(all.Options{A2A: a2a.Options{Declares: declares}, SLIP: messages.Options{
		Receive: func(_ profiles.Session, m *messages.Message) error {
			a.heard <- said{m.Type, string(m.Payload), slices.Clone(m.Handles)}
			return nil
		},
		Returned: func(_ profiles.Session, id []byte, e *profiles.PeerError) { a.errs <- undelivered{string(id), e.Code} },
	}})
	if err != nil {
		o.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	conn, err := connect(o.t, address, devpki.Client(filepath.Join(o.dir, "pki")))
	if err != nil {
		o.t.Fatal(err)
	}
	a.session, a.relay = ep.Attach(conn), set.Relay
	if err := set.A2A.Declare(o.t.Context(), a.session, id, nil); err != nil {
		o.t.Fatal(err)
	}
	o.until("agent "+id+" is known", func() bool {
		return a.lists(id, true)
	})
	return a
}

// lists reports whether the daemon of the agent lists another.
func (a *slipAgent) lists(id string, own bool) bool {
	a.t.Helper()
	octets, err := rpc.Call(a.t.Context(), a.session, agdisc.MethodList, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	var list agdisc.ListResult
	if err := json.Unmarshal(octets, &list); err != nil {
		a.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Agents, func(e agdisc.Entry) bool { return e.AgentID == id && (e.Own || !own) })
}

func (a *slipAgent) says(msgType uint64, payload string, handles ...messages.Meaning) string {
	a.t.Helper()
	id, err := messages.Send(a.t.Context(), a.session, msgType, []byte(payload), handles...)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(id)
}

func (a *slipAgent) hears() said { a.t.Helper(); return soon(a.t, a.heard) }

func (a *slipAgent) isRefused(msgID, code string) {
	a.t.Helper()
	if diff := cmp.Diff(undelivered{msgID, code}, soon(a.t, a.errs)); diff != "" {
		a.t.Error(diff)
	}
}

func soon[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return v
}

const numbers = "slip: {agents: {0: coordinator, 1: planner, 2: sleeper}, relay: [%s]}\n"

func TestSLIPBetweenAgentsOfTwoOrganisations(t *testing.T) {
	t.Parallel()
	for i, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			a := open(t, "a", fmt.Sprintf(numbers, ""))
			b := open(t, "b", fmt.Sprintf(numbers, "sleeper")+"partners:\n"+entry("a", a, a.addrs[i]))
			a.trusting("b", b)
			b.connected("a")
			a.connected("b")
			coordinator, planner := a.speaks(a.addrs[i], "coordinator"), b.speaks(b.addrs[i], "planner")

			text := `@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#`
			var m nslip.Message
			if err := (nslip.Codec{}).Parse(&m, []byte(text)); err != nil {
				t.Fatal(err)
			}
			binary, err := nslip.Codec{}.AppendBinary(nil, &m)
			if err != nil {
				t.Fatal(err)
			}
			handle := messages.Meaning{Code: nslip.TaskID, Reference: messages.Reference{Kind: "task", ID: "0011"}}
			for _, m := range []said{
				{messages.TypeNSLIP, text, []messages.Meaning{handle}},
				{messages.TypeSLIP, "SLIP v1 coordinator planner RequestReview auth_module", nil},
				{messages.TypeBinary, string(binary), []messages.Meaning{handle}},
			} {
				coordinator.says(m.Type, m.Payload, m.Handles...)
				if diff := cmp.Diff(m, planner.hears(), cmpopts.EquateEmpty()); diff != "" {
					t.Error(diff)
				}
			}
			planner.says(messages.TypeNSLIP, `@a6|f0|c3|S1|d0|T2|kg#`)
			if diff := cmp.Diff(said{messages.TypeNSLIP, `@a6|f0|c3|S1|d0|T2|kg#`, []messages.Meaning{handle}}, coordinator.hears()); diff != "" {
				t.Error(diff)
			}

			// Nobody, and what the far end does not know.
			coordinator.isRefused(coordinator.says(messages.TypeSLIP, "SLIP v1 coordinator nobody MetaAck"), messages.CodeUnknownDestination)
			coordinator.isRefused(coordinator.says(messages.TypeNSLIP, `@a6|f0|c3|S0|d9|T2#`), messages.CodeNoMapping)

			// Away, and kept by the relay of the far end.
			kept := "SLIP v1 coordinator sleeper RequestHelp"
			coordinator.says(messages.TypeSLIP, kept)
			sleeper := b.speaks(b.addrs[i], "other")
			c, err := sleeper.relay.Consume(t.Context(), sleeper.session, all.TopicSLIP+"sleeper", 1)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			d, err := c.Recv(ctx)
			if err != nil || string(d.Payload) != kept || profiles.Link(d.Publisher) != a.identity || d.Ack() != nil {
				t.Errorf("delivery %+v, %v", d, err)
			}

			// An agent that leaves is nobody, although it was announced.
			planner.session.Close(profiles.OK)
			b.until("planner is gone", func() bool { return !sleeper.lists("planner", false) })
			coordinator.isRefused(coordinator.says(messages.TypeSLIP, "SLIP v1 coordinator planner MetaAck"), messages.CodeUnknownDestination)
		})
	}
}

// What a message is under here it is under at the partner, which has its own declarations.
func TestConditionsOfSLIPGoToPartners(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := underConditions(t, transport)
		planner := b.speaksAs(b.addrs[transport], "planner", "region=eu-west-1")
		for i, row := range []struct {
			hint string
			kept bool
		}{
			{"", true},
			{"MUST region=eu", true},
			{"SHOULD region=mars", true},
			{"MUST region=mars", false},  // by neither
			{"MUST cost_limit=2", false}, // by the partner, as a has it
		} {
			coordinator := a.speaks(a.addrs[transport], "coordinator")
			on := &session{Session: coordinator.session}
			if row.hint != "" {
				on.put(t, on.Session, row.hint)
			}
			text := fmt.Sprintf("SLIP v1 coordinator planner RequestReview part_%d", i)
			id := coordinator.says(messages.TypeSLIP, text)
			if row.kept {
				if got := planner.hears(); got.Payload != text {
					t.Errorf("%q: %+v", row.hint, got)
				}
			} else if said := soon(t, coordinator.errs); said.MsgID != id {
				t.Errorf("%q: %+v", row.hint, said)
			}
			coordinator.session.Close(profiles.OK)
		}
		coordinator := a.speaks(a.addrs[transport], "coordinator")
		ctx := (&session{Session: coordinator.session}).present(t, "one")
		text := "SLIP v1 coordinator planner RequestReview under_a_chain"
		if _, err := messages.Send(ctx, coordinator.session, messages.TypeSLIP, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := planner.hears(); got.Payload != text {
			t.Errorf("%+v", got)
		}
		var hints map[string]int
		chains, records := 0, 0
		b.until("the records", func() bool {
			hints, chains, records = make(map[string]int), 0, 0
			for _, r := range b.trail() {
				if r.Entry.Profile == messages.Name && r.Outcome == "ok" && r.Identity == a.identity {
					hints[r.Hints]++
					records++
					if r.Chain != "" {
						chains++
					}
				}
			}
			return records == 4
		})
		if diff := cmp.Diff(map[string]int{"": 2, "region=eu;MUST": 1, "region=mars;SHOULD": 1}, hints); diff != "" || chains != 1 {
			t.Errorf("at the partner %d messages were under a chain, and under hints %s", chains, diff)
		}
	})
}

func TestSLIPIsDeniedToOthers(t *testing.T) {
	r := open(t, "a", "access: {rules: [{identity: '**'}], agents: [{identity: 'spiffe://a.example/**', agent_ids: [mine]}]}\n")
	a := r.speaks(r.addrs[0], "mine")
	a.isRefused(a.says(messages.TypeSLIP, "SLIP v1 theirs mine MetaAck"), messages.CodeDenied)
	a.says(messages.TypeSLIP, "SLIP v1 mine mine MetaAck") //nolint:dupword // to itself
	if m := a.hears(); !strings.HasSuffix(m.Payload, "MetaAck") {
		t.Errorf("%+v", m)
	}
}

// Agents that have joined again hear each other again.
func TestSLIPGoesOnAfterTheLinkOrEitherEndWasLost(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b, a := open(t, "b", ""), open(t, "a", "")
		var coordinator, planner *slipAgent
		joins := func(o *organisation) {
			if o == a {
				coordinator = a.speaks(a.addrs[transport], "coordinator")
			} else {
				planner = b.speaks(b.addrs[transport], "planner")
			}
		}
		sent := 0
		a.losesB(b, transport, joins, func(after string) {
			t.Helper()
			for _, one := range []struct {
				from, to *slipAgent
				ends     string
			}{{coordinator, planner, "coordinator planner"}, {planner, coordinator, "planner coordinator"}} {
				sent++
				text := fmt.Sprintf("SLIP v1 %s RequestReview part%d", one.ends, sent)
				one.from.says(messages.TypeSLIP, text)
				if m := one.to.hears(); m.Payload != text {
					t.Errorf("%s: heard %q, want %q", after, m.Payload, text)
				}
			}
		})
	})
}

// SLIP goes to agents that a partner announces itself, and no further: whoever sends is told.
func TestSLIPToAnAgentBehindAPartnersPartnerIsRefused(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, "", "", "")
		coordinator, planner := row[0].speaks(row[0].addrs[transport], "coordinator"), row[2].speaks(row[2].addrs[transport], "planner")
		middle := row[1].speaks(row[1].addrs[transport], "middle")
		middle.says(messages.TypeSLIP, "SLIP v1 middle planner MetaAck")
		planner.hears()
		for dst, code := range map[string]string{
			"planner": messages.CodeUnknownDestination, "c/planner": string(slipstream.BadAgentID), "b/c/planner": string(slipstream.BadAgentID),
		} {
			coordinator.isRefused(coordinator.says(messages.TypeSLIP, "SLIP v1 coordinator "+dst+" MetaAck"), code)
		}
		if len(planner.heard) > 0 {
			t.Errorf("heard %+v", <-planner.heard)
		}
	})
}

// A partner of MCP and A2A is sent no SLIP, whatever it announces.
func TestSLIPIsNotSentToAPartnerOfMCPAndA2A(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		a.rewrite("  b: {", "  b: {profiles: [mcp, a2a], ")
		a.reloaded()
		a.connected("b")
		var came atomic.Int32
		h.announces(func(*told) { came.Add(1) }, "remote")
		coordinator := a.speaks(a.addrs[transport], "coordinator")
		coordinator.isRefused(coordinator.says(messages.TypeSLIP, slips(1)), messages.CodeUnknownDestination)
		if n := came.Load(); n > 0 {
			t.Errorf("the partner got %d messages", n)
		}
	})
}
