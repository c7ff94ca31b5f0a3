package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
)

// announces has a partner say that agents are there, and answer other messages of SLIP so.
func (h *hostile) announces(answer func(m *told), agents ...string) {
	slices.Sort(agents)
	h.with(func(m *told) bool {
		switch {
		case m.method() == agdisc.MethodList:
			var list agdisc.ListResult
			for _, id := range agents {
				list.Agents = append(list.Agents, agdisc.Entry{AgentID: id})
			}
			octets, err := json.Marshal(list)
			if err != nil {
				return false
			}
			m.returns(octets)
			return true
		case m.ProfileID == messages.ProfileID && answer != nil:
			answer(m)
			return true
		}
		return false
	})
}

// slips sends a message to a partner's agent.
func slips(n int) string { return fmt.Sprintf("SLIP v1 coordinator remote RequestReview part%d", n) }

func TestPR19AnAgentHereIsNotAtAPartnerThatSaysSo(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		var came atomic.Int32
		h.announces(func(*told) { came.Add(1) }, "coordinator", "planner", "remote")
		coordinator, planner := a.speaks(a.addrs[transport], "coordinator"), a.speaks(a.addrs[transport], "planner")
		coordinator.says(messages.TypeSLIP, "SLIP v1 coordinator planner MetaAck")
		if m := planner.hears(); !strings.HasSuffix(m.Payload, "MetaAck") {
			t.Errorf("heard %+v", m)
		}
		planner.session.Close(profiles.OK) // it is away, and still nobody else's
		a.until("planner is gone", func() bool { return !coordinator.lists("planner", true) })
		coordinator.isRefused(coordinator.says(messages.TypeSLIP, "SLIP v1 coordinator planner MetaAck"), messages.CodeUnknownDestination)
		if n := came.Load(); n > 0 {
			t.Errorf("the partner got %d messages for agents here", n)
		}
		coordinator.says(messages.TypeSLIP, slips(1))
		a.until("the message for the agent there", func() bool { return came.Load() == 1 })
	})
}

func TestPR19APartnerSpeaksForNoAgentHere(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		coordinator, planner := a.speaks(a.addrs[transport], "coordinator"), a.speaks(a.addrs[transport], "planner")
		refused := make(chan string, 1)
		h.announces(func(m *told) {
			if m.MsgType == messages.TypeErr {
				var e messages.Err
				_ = e.Decode(m.Payload)
				refused <- string(e.Code)
				return
			}
			m.MsgID = []byte("of the partner's")
			m.answer(messages.TypeSLIP, []byte("SLIP v1 coordinator planner MetaAck"))
		}, "remote")
		coordinator.says(messages.TypeSLIP, slips(1))
		if code := soon(t, refused); code != messages.CodeDenied {
			t.Errorf("refused with %s, want %s", code, messages.CodeDenied)
		}
		if len(planner.heard) > 0 {
			t.Errorf("heard %+v", <-planner.heard)
		}
	})
}

// An error goes to who has sent the message, once.
func TestPR19OneErrorOfAPartnerGoesToTheSenderOfItsMessage(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		coordinator, other := a.speaks(a.addrs[transport], "coordinator"), a.speaks(a.addrs[transport], "planner")
		fails := func(code string) []byte {
			return encode(&messages.Err{Code: []byte(code), Message: []byte(strings.Repeat("x", 30_000))})
		}
		h.announces(func(m *told) {
			m.answer(messages.TypeErr, fails("the first"))
			m.answer(messages.TypeErr, fails("the second"))
			m.ProfileID = rpc.ProfileID
			m.answer(rpc.TypeResp, encode(&rpc.Resp{RPCID: []byte("an id of a call."), Result: []byte("x")}))
			m.ProfileID = messages.ProfileID
			m.MsgID = []byte("a msg_id of none")
			m.answer(messages.TypeErr, fails("nobody's"))
			m.answer(messages.TypeErr, []byte{0xff})
		}, "remote")
		coordinator.isRefused(coordinator.says(messages.TypeSLIP, slips(1)), "the first")
		s := a.mustDial(a.addrs[transport])
		s.pings(t, "afterwards")
		if len(coordinator.errs) > 0 || len(other.errs) > 0 {
			t.Errorf("told more: %d, %d", len(coordinator.errs), len(other.errs))
		}
	})
}

// Lists without an end, and none at all, hold up no message for long.
func TestPR19AMessageIsNotHeldUpByTheListOfAPartner(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(m *told, n int){
		"silence": func(*told, int) {},
		"pages without an end": func(m *told, n int) {
			page := agdisc.ListResult{Next: fmt.Sprintf("%08d", n*100+99)}
			for i := range 100 {
				page.Agents = append(page.Agents, agdisc.Entry{AgentID: fmt.Sprintf("%08d", n*100+i)})
			}
			octets, _ := json.Marshal(page) //nolint:errchkjson // it is plain
			m.returns(octets)
		},
		"what is no list": func(m *told, _ int) { m.returns([]byte("[]")) },
	} {
		t.Run(name, func(t *testing.T) {
			overTLSAndQUIC(t, func(t *testing.T, transport int) {
				t.Parallel()
				c := open(t, "c", "")
				remote := c.speaks(c.addrs[transport], "remote")
				a, h := atHostile(t, transport, "")
				c.trusting("a", a)
				a.trusting("c", c, c.addrs[transport])
				a.connected("c")
				var lists, pages atomic.Int32
				h.with(func(m *told) bool {
					var req rpc.Req
					if m.method() != agdisc.MethodList || req.Decode(m.Payload) != nil {
						return false
					}
					if !strings.Contains(string(req.Params), "after") {
						lists.Add(1)
						pages.Store(0)
					}
					list(m, int(pages.Add(1))-1)
					return true
				})
				coordinator := a.speaks(a.addrs[transport], "coordinator")
				for i := range 3 {
					text := slips(i)
					coordinator.says(messages.TypeSLIP, text)
					if m := remote.hears(); m.Payload != text {
						t.Errorf("heard %+v, want %s", m, text)
					}
					time.Sleep(1100 * time.Millisecond) // a list may be asked for again after a second
				}
				coordinator.isRefused(coordinator.says(messages.TypeSLIP, "SLIP v1 coordinator nobody MetaAck"), messages.CodeUnknownDestination)
				if n := lists.Load(); name == "silence" && n > 1 {
					t.Errorf("asked %d times for messages to others, although it was silent", n)
				}
				s := a.mustDial(a.addrs[transport])
				s.pings(t, "meanwhile")
			})
		})
	}
}
