package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// wrongs waits until as many wrong answers of b are counted for a profile.
func (o *organisation) wrongs(profile string, n int) {
	o.t.Helper()
	o.counts(`swpd_partner_wrong_answers_total{partner="b",profile="`+profile+`"}`, fmt.Sprint(n))
}

// What an answer has of one hop, or for one, stays on it.
func TestPR19ExtensionsOfAPartnersAnswerThatAreAboutAHopGoNoFurther(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		large := strings.Repeat("x", 3<<10)
		h.with(when(state.ProfileID, state.TypeGet, func(m *told) {
			var ext e1.Extensions
			for typ := uint64(profiles.ExtHops); typ < profiles.ExtEndpoint; typ++ {
				ext = e1.AppendExtension(ext, typ, []byte("b/b"))
			}
			ext = e1.AppendExtension(ext, 70, []byte(large))
			m.answer(state.TypePut, encode(&state.Put{StateID: wanted.ID[:], Blob: wanted.Blob}), ext)
		}))
		call, err := profiles.Toward(s.Session, "b").Call(t.Context(), e1.Envelope{
			ProfileID: state.ProfileID, MsgType: state.TypeGet, Payload: encode(&state.Get{StateID: wanted.ID[:]}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		env, err := call.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for typ, value := range env.Extensions.All() {
			if n++; typ != 70 || string(value) != large {
				t.Errorf("extension %d of %d octets has crossed", typ, len(value))
			}
		}
		if n != 1 || env.MsgType != state.TypePut {
			t.Errorf("%d extensions of message %d", n, env.MsgType)
		}
	})
}

// An answer above a limit of the envelope is refused unread.
func TestPR19AnAnswerWithHugeExtensionsIsNone(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		h.with(when(state.ProfileID, state.TypeGet, func(m *told) {
			m.answer(state.TypePut, encode(&state.Put{StateID: wanted.ID[:], Blob: wanted.Blob}), e1.AppendExtension(nil, 70, make([]byte, 1<<20)))
		}))
		want := []string{"partner b was lost", "partner b broke the protocol"}[transport] // QUIC has a stream for it
		if err := fetches(t, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("who waited for the partner is told %v", err)
		}
		h.with(nil)
		if _, err := rpc.Call(t.Context(), s.Session, "b/"+rpc.MethodPing, nil); err != nil {
			t.Errorf("others afterwards: %v", err)
		}
	})
}

// A partner may end the tasks that it was given, each once.
func TestPR19APartnerEndsTheTasksThatItWasGivenAndEachOnce(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		release := make(chan struct{})
		a.agent("here", func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
			<-release
			return []byte("of its worker"), nil
		})
		s := a.mustDial(a.addrs[transport])
		local, err := s.tasks.Send(t.Context(), s.Session, &a2a.Task{ID: []byte("a task that b was not given"), Kind: "k", Input: []byte("x")}, a2a.SendOptions{Agent: "here"})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		h.with(when(a2a.ProfileID, a2a.TypeTask, func(m *told) {
			var task a2a.TaskBody
			_ = task.Decode(m.Payload)
			for i, id := range []string{"a task that b was not given", "a task of nobody", string(task.TaskID)} {
				m.MsgID = fmt.Appendf(nil, "of the partner's %d", i) // else it would be the answer to the Task
				for _, output := range []string{"one", "two"} {
					m.answer(a2a.TypeResult, encode(&a2a.ResultBody{TaskID: []byte(id), OK: true, Output: []byte(output)}))
				}
				m.answer(a2a.TypeEvent, encode(&a2a.EventBody{TaskID: []byte(id), Message: []byte("late")}))
			}
		}))
		messages, result := s.hand(t, &a2a.Task{Kind: "k", Input: []byte("x")}, a2a.SendOptions{Agent: "b/agent"})
		if result == nil || !result.OK || string(result.Output) != "one" || slices.Contains(messages, "late") {
			t.Errorf("%q, %+v", messages, result)
		}
		close(release)
		if list, result := follow(t, local, ""); result == nil || string(result.Output) != "of its worker" || len(list) > 0 {
			t.Errorf("the task of another: %q, %+v", list, result)
		}
	})
}

// Custody is the partner's when it says so of this delivery.
func TestPR19AnACKForAnotherDeliveryIsNoCustody(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "relay: {backoff: 1ms, max_backoff: 10ms}\n")
		_, s := relayPeer(t, a.running, a.addrs[transport])
		var ids [][]byte
		h.with(when(relay.ProfileID, relay.TypePublish, func(m *told) {
			var p relay.Publish
			_ = p.Decode(m.Payload)
			ids = append(ids, p.DeliveryID)
			switch len(ids) {
			case 1:
				m.answer(relay.TypeAck, encode(&relay.Ack{DeliveryID: []byte("another")}))
			case 2:
				m.answer(relay.TypeStatus, encode(&relay.Status{DeliveryID: p.DeliveryID, State: []byte("dead"), Attempts: 1}))
			case 3:
				m.answer(relay.TypeAck, encode(&relay.Ack{DeliveryID: p.DeliveryID}))
			}
		}))
		if _, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte("1"), Topic: "b/t", Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		a.wrongs("relay", 2)
		h.with(func(m *told) bool { // the partner has it, and is asked
			if m.ProfileID != relay.ProfileID || m.MsgType != relay.TypeStatus {
				return false
			}
			var q relay.Status
			_ = q.Decode(m.Payload)
			m.answer(relay.TypeStatus, encode(&relay.Status{DeliveryID: q.DeliveryID, State: []byte(relay.Acked), Attempts: 1}))
			return true
		})
		a.await(`"msg":"wrong answer of partner","partner":"b","peer":"` + theCaller + `","profile":"relay","operation":"publish","name":"b/t"`)
	})
}

// What nobody has asked for costs the partner its connection, and nobody else anything.
func TestPR19AFloodThatNobodyAskedForEndsTheConnectionAndNoOther(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		before := h.dialled.Load()
		h.with(when(state.ProfileID, state.TypeGet, func(*told) { h.flood(t.Context()) }))
		if err := fetches(t, s); err == nil || !strings.Contains(err.Error(), "partner b was lost") {
			t.Errorf("who waited for the partner is told %v", err)
		}
		h.with(nil)
		a.until("a new connection to b", func() bool { return h.dialled.Load() > before })
		for _, method := range []string{rpc.MethodPing, "b/" + rpc.MethodPing} {
			if _, err := rpc.Call(t.Context(), s.Session, method, nil); err != nil {
				t.Errorf("%s afterwards: %v", method, err)
			}
		}
	})
}

// Items of a call that its caller has cancelled are dropped, up to a bound.
func TestPR19AnswersAfterACancellationAreDropped(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		h.with(func(m *told) bool {
			var req rpc.Req
			if m.ProfileID == rpc.ProfileID && m.MsgType == rpc.TypeCancel {
				return true // and goes on
			}
			if m.method() != "method" || req.Decode(m.Payload) != nil {
				return false
			}
			go func() {
				for i := range uint64(3000) {
					m.answer(rpc.TypeStreamItem, encode(&rpc.StreamItem{RPCID: req.RPCID, SeqNo: i + 1, Item: make([]byte, 100)}))
				}
			}()
			return true
		})
		stream, err := rpc.Open(t.Context(), s.Session, "b/method", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(t.Context()); err != nil {
			t.Error(err)
		}
		stream.Close()
		for range 10 {
			if _, err := rpc.Call(t.Context(), s.Session, "b/"+rpc.MethodPing, nil); err != nil && !strings.Contains(err.Error(), "the link to partner b was lost") {
				t.Errorf("others meanwhile: %v", err)
			}
		}
		if err := echo(t, s); err != nil {
			t.Errorf("who had asked: %v", err)
		}
	})
}

// Silence is told at the deadline of who asks, and holds up nobody else.
func TestPR19ASilentPartnerHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		h.with(func(m *told) bool {
			return m.ProfileID == state.ProfileID || m.method() == "method" || m.ProfileID == agdisc.ProfileID
		})
		silent := make(chan error, 60)
		for range cap(silent) / 2 {
			go func() {
				call, err := profiles.Toward(s.Session, "b").Call(t.Context(), e1.Envelope{
					ProfileID: state.ProfileID, MsgType: state.TypeGet, Payload: encode(&state.Get{StateID: wanted.ID[:]}),
					Extensions: e1.AppendExtensionUvarint(nil, profiles.ExtDeadline, 500),
				})
				if err == nil {
					var env *e1.Envelope
					if env, err = call.Recv(t.Context()); err == nil {
						err = fmt.Errorf("%s", env.Payload)
					}
					call.Close()
				}
				silent <- err
			}()
			go func() {
				_, err := rpc.Invocation{Method: "b/method", Deadline: 500 * time.Millisecond}.Call(t.Context(), s.Session)
				silent <- err
			}()
		}
		for range 10 {
			if _, err := rpc.Call(t.Context(), s.Session, "b/"+rpc.MethodPing, nil); err != nil {
				t.Errorf("others meanwhile: %v", err)
			}
		}
		for range cap(silent) {
			if err := <-silent; err == nil || !strings.Contains(err.Error(), "did not answer in time") && !strings.Contains(err.Error(), "took too long") {
				t.Errorf("who waited is told %v", err)
			}
		}
	})
}

// tool is a descriptor.
func tool(id string, payload int) tooldisc.Descriptor {
	return tooldisc.Descriptor{
		ToolID: []byte(id), Name: []byte("name"), Version: []byte("1"), SchemaRef: []byte("sha256:" + strings.Repeat("0", 64)), DescriptorPayload: make([]byte, payload),
	}
}

// page answers with a page of tools.
func (m *told) page(next string, tools ...tooldisc.Descriptor) {
	m.answer(tooldisc.TypeListResp, encode(&tooldisc.ListResp{Tools: tools, NextPageToken: []byte(next)}))
}

func TestPR19AnEndlessListOfToolsIsBounded(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		for name, test := range map[string]struct {
			page   func(m *told, n int)
			listed int
			wrong  int
		}{
			"10,001 tools": {func(m *told, n int) {
				var page []tooldisc.Descriptor
				for i := range 100 {
					page = append(page, tool(fmt.Sprintf("t%05d", n*100+i), 0))
				}
				m.page(fmt.Sprint(n), page...)
			}, tooldisc.MaxPartnerTools, 1},
			"more than 64 MiB": {func(m *told, n int) {
				var page []tooldisc.Descriptor
				for i := range 50 {
					page = append(page, tool(fmt.Sprintf("t%05d", n*50+i), 60_000))
				}
				m.page(fmt.Sprint(n), page...)
			}, 64 << 20 / 60_000, 1},
			"a page that repeats": {func(m *told, _ int) { m.page("again", tool("t", 0)) }, 0, 1},
			"two pages in turns":  {func(m *told, n int) { m.page(fmt.Sprint(n%2), tool("t", 0), tool("u", 0)) }, 0, 1},
		} {
			t.Run(name, func(t *testing.T) {
				a, h := atHostile(t, transport, "")
				s := a.mustDial(a.addrs[transport])
				var n atomic.Int32
				h.with(when(tooldisc.ProfileID, tooldisc.TypeListReq, func(m *told) { test.page(m, int(n.Add(1))-1) }))
				listed := 0
				list := func() bool { // an answer waits ten seconds for the list of a partner
					listed = 0
					for found, err := range tooldisc.List(t.Context(), s.Session, tooldisc.Query{}) {
						if err != nil {
							t.Fatal(err)
						}
						if listed++; !strings.HasPrefix(found.ID, "b/") {
							t.Errorf("tool %s", found.ID)
						}
					}
					return listed > 0 || test.listed == 0
				}
				a.eventually("the tools of the partner", list)
				if listed > test.listed || listed < test.listed*9/10 {
					t.Errorf("%d tools are listed, want %d", listed, test.listed)
				}
				a.wrongs("tooldisc", test.wrong)
				asked := n.Load()
				if _, _, err := tooldisc.Page(t.Context(), s.Session, tooldisc.Query{}); err != nil || n.Load() != asked {
					t.Errorf("who lists again: %v, and the partner is asked %d times", err, n.Load()-asked)
				}
			})
		}
	})
}

func TestPR19AnEndlessListOfAgentsIsBounded(t *testing.T) {
	t.Parallel()
	a, h := atHostile(t, 0, "")
	s := a.mustDial(a.addrs[0])
	list := func(next string, entries ...agdisc.Entry) []byte {
		octets, err := json.Marshal(agdisc.ListResult{Agents: entries, Next: next})
		if err != nil {
			t.Fatal(err)
		}
		return octets
	}
	many := func(from, n int) (entries []agdisc.Entry) {
		for i := range n {
			entries = append(entries, agdisc.Entry{AgentID: fmt.Sprintf("%08d", from+i)})
		}
		return entries
	}
	for i, test := range []struct {
		name   string
		page   func(n int) []byte
		listed int // stays as it was where the listing is none
	}{
		{"1,025 agents", func(n int) []byte { return list(fmt.Sprintf("%08d", n*100+99), many(n*100, 100)...) }, agdisc.MaxPartnerAgents},
		{"a revision of a megabyte", func(int) []byte { return list("", agdisc.Entry{AgentID: "x", Revision: strings.Repeat("r", 1<<20)}) }, agdisc.MaxPartnerAgents},
		{"a name of a megabyte", func(int) []byte { return list("", agdisc.Entry{AgentID: strings.Repeat("r", 1<<20)}) }, agdisc.MaxPartnerAgents},
		{"101 agents on a page", func(int) []byte { return list("", many(0, 101)...) }, agdisc.MaxPartnerAgents},
		{"a page that repeats", func(int) []byte { return list(fmt.Sprintf("%08d", 9), many(0, 10)...) }, 10},
		{"an agent twice", func(int) []byte { return list("", slices.Repeat(many(0, 1), 2)...) }, 1},
		{"pages without agents", func(n int) []byte { return list(fmt.Sprint(n + 1)) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := 0
			h.with(func(m *told) bool {
				if m.method() != agdisc.MethodList {
					return false
				}
				m.returns(test.page(n))
				n++
				return true
			})
			h.hangUp() // the list is asked for on the next connection
			a.wrongs("agdisc", i+1)
			a.until("the agents that count", func() bool {
				all := 0
				for _, err := range agdisc.Entries(func(params, result any) error {
					return rpc.CallJSON(t.Context(), s.Session, agdisc.MethodList, params, result)
				}) {
					if err != nil {
						t.Fatal(err)
					}
					all++
				}
				return all == test.listed
			})
		})
	}
}

func TestPR19APartnerThatSaysTooMuchOfItselfIsNoPartner(t *testing.T) {
	t.Parallel()
	a, h := atHostile(t, 0, "")
	honest := h.info
	for i, info := range [][]byte{
		append(slices.Clone(honest), make([]byte, 1<<20)...),
		[]byte(`{"profiles":"all of them"}`),
	} {
		h.mu.Lock()
		h.info = info
		h.mu.Unlock()
		h.hangUp()
		a.until("that it is told", func() bool {
			return a.metric(`swpd_partner_wrong_answers_total{partner="b",profile="rpc"}`) > fmt.Sprint(i)
		})
		a.until("that it is down", func() bool { return !a.up("b") })
		h.mu.Lock()
		h.info = honest
		h.mu.Unlock()
		a.connected("b")
	}
}

// A list that takes longer than somebody waits for it is there for the next, and is not
// asked for from the beginning.
func TestAListOfAPartnerGoesOnWithoutWhoHasAskedForIt(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		var asked atomic.Int32
		began, answer := make(chan struct{}), make(chan struct{})
		h.with(when(tooldisc.ProfileID, tooldisc.TypeListReq, func(m *told) {
			if asked.Add(1) == 1 {
				close(began)
			}
			<-answer
			m.page("", tool("t", 0))
		}))
		impatient := a.mustDial(a.addrs[transport])
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, _, err := tooldisc.Page(ctx, impatient.Session, tooldisc.Query{})
			left <- err
		}()
		<-began
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who has left is told %v", err)
		}
		impatient.Close(profiles.OK)
		a.eventually("the end of what nobody waits for", func() bool {
			_, status := a.get("/status")
			return strings.Contains(status, `"handlers":0,`)
		})
		close(answer)
		s := a.mustDial(a.addrs[transport])
		a.eventually("the tools of the partner", func() bool {
			tools, _, err := tooldisc.Page(t.Context(), s.Session, tooldisc.Query{})
			return err == nil && len(tools) == 1
		})
		if n := asked.Load(); n != 1 {
			t.Errorf("the partner was asked %d times", n)
		}
	})
}
