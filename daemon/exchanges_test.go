package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	messages "github.com/slimwire/swp/profiles/slip"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

const (
	accessAll = "log: {access: all}\n"
	ruleAll   = "access: {rules: [{identity: '**'}]}\n"
)

// accessLine is what a line of the access log says.
type accessLine struct {
	Class, Msg, Peer, For, Profile, Operation, Name, Partner, Outcome, Transport, Trace string
	In, Out, Session                                                                    uint64
	MS                                                                                  *float64
}

// accessLines returns those of the log so far.
func (r *running) accessLines() (list []accessLine) {
	r.t.Helper()
	for text := range strings.Lines(r.log.String()) {
		var line accessLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			r.t.Fatalf("%s: %v", text, err)
		}
		if line.Class == "access" && line.Msg == "exchange" {
			list = append(list, line)
		}
	}
	return list
}

// awaitLine waits for a line that is about something.
func (r *running) awaitLine(profile, operation, name string) accessLine {
	r.t.Helper()
	for timeout := time.After(patience); ; {
		for _, line := range r.accessLines() {
			if line.Profile == profile && line.Operation == operation && line.Name == name {
				return line
			}
		}
		select {
		case <-r.log.grown:
		case <-timeout:
			r.t.Fatalf("no line %s %s %q:\n%s", profile, operation, name, r.log)
		}
	}
}

// secret is in every payload that has room for it.
const secret = "not-for-any-log"

func TestEachOperationHasOneLine(t *testing.T) {
	t.Parallel()
	blob := []byte(secret)
	sum := sha256.Sum256(blob)
	record := events.Record{EventID: []byte("e"), Timestamp: 1, EventType: []byte("build.done"), Severity: []byte("info"), TaskID: []byte("t"), Body: blob}
	hidden := record
	hidden.EventType = []byte("hidden")
	words := func(dst string) []byte { return []byte("SLIP v1 planner " + dst + " RequestReview " + secret) }
	envelope := sdlRequest(sdl.CTToolCall, `{"tool":"sys.ping","call_id":"c1","args":{"n":"`+secret+`"},"expect":{}}`)
	stranger := envelope.With("from", envelope.Get("from").With("agent_id", canonical.String("hidden")))
	rows := []struct {
		profileID, msgType uint64
		payload            []byte

		profile, operation, name, outcome string
	}{
		{rpc.ProfileID, rpc.TypeReq, (&rpc.Req{RPCID: []byte("1"), Method: []byte("swp.echo"), Params: blob}).Append(nil), "rpc", "call", "swp.echo", "ok"},
		{rpc.ProfileID, rpc.TypeReq, (&rpc.Req{RPCID: []byte("2"), Method: []byte("nobody.has")}).Append(nil), "rpc", "call", "nobody.has", "failed"},
		{rpc.ProfileID, rpc.TypeReq, (&rpc.Req{RPCID: []byte("3"), Method: []byte("hidden")}).Append(nil), "rpc", "call", "hidden", "denied"},
		{rpc.ProfileID, rpc.TypeReq, []byte{0xff}, "rpc", "RPC_REQ", "", "refused:ERR_INVALID_PROFILE_PAYLOAD"},
		{rpc.ProfileID, rpc.TypeCancel, (&rpc.Cancel{RPCID: []byte("1")}).Append(nil), "rpc", "cancel", "", "ok"},
		{events.ProfileID, events.TypePublish, (&events.Publish{Event: record}).Append(nil), "events", "publish", "build.done", "ok"},
		{events.ProfileID, events.TypePublish, (&events.Publish{Event: hidden}).Append(nil), "events", "publish", "hidden", "denied"},
		{events.ProfileID, events.TypeSubscribe, (&events.Subscribe{Filter: []byte("type:build.done")}).Append(nil), "events", "subscribe", "type:build.done", "lost"},
		{stateprofile.ProfileID, stateprofile.TypePut, (&stateprofile.Put{StateID: sum[:], Blob: blob}).Append(nil), "state", "put", hex.EncodeToString(sum[:]), "ok"},
		{artifact.ProfileID, artifact.TypeGet, (&artifact.Get{ArtifactID: []byte("nothing")}).Append(nil), "artifact", "get", "nothing", "failed"},
		{artifact.ProfileID, artifact.TypeGet, (&artifact.Get{ArtifactID: []byte("hidden")}).Append(nil), "artifact", "get", "hidden", "denied"},
		{agdisc.ProfileID, agdisc.TypeGet, (&agdisc.Get{AgentID: []byte("nobody")}).Append(nil), "agdisc", "get", "nobody", "failed"},
		{agdisc.ProfileID, agdisc.TypeGet, (&agdisc.Get{AgentID: []byte("hidden")}).Append(nil), "agdisc", "get", "hidden", "denied"},
		{tooldisc.ProfileID, tooldisc.TypeListReq, (&tooldisc.ListReq{}).Append(nil), "tooldisc", "list", "", "ok"},
		{tooldisc.ProfileID, tooldisc.TypeGetReq, (&tooldisc.GetReq{ToolID: []byte("hidden")}).Append(nil), "tooldisc", "get", "hidden", "denied"},
		{obs.ProfileID, obs.TypeGet, (&obs.Get{}).Append(nil), "obs", "get", "", "ok"},
		{policyhint.ProfileID, policyhint.TypeSet, (&policyhint.Set{}).Append(nil), "policyhint", "set", "", "ok"},
		{cred.ProfileID, cred.TypeRevoke, (&cred.Revoke{ChainID: []byte("x")}).Append(nil), "cred", "revoke", "", "ok"},
		{relay.ProfileID, relay.TypePublish, (&relay.Publish{DeliveryID: []byte("d"), Topic: []byte("builds"), Payload: blob}).Append(nil), "relay", "publish", "builds", "ok"},
		{relay.ProfileID, relay.TypePublish, (&relay.Publish{DeliveryID: []byte("d"), Topic: []byte("hidden"), Payload: blob}).Append(nil), "relay", "publish", "hidden", "denied"},
		{a2a.ProfileID, a2a.TypeTask, (&a2a.TaskBody{TaskID: []byte("t1"), Kind: []byte("nobody.does"), Input: blob}).Append(nil), "a2a", "task", "nobody.does", "failed"},
		{a2a.ProfileID, a2a.TypeTask, (&a2a.TaskBody{TaskID: []byte("t2"), Kind: []byte("hidden"), Input: blob}).Append(nil), "a2a", "task", "hidden", "denied"},
		{messages.ProfileID, messages.TypeSLIP, words("nobody"), "slip", "send", "nobody", "failed"},
		{messages.ProfileID, messages.TypeSLIP, words("hidden"), "slip", "send", "hidden", "denied"},
		{carriage.ProfileID, carriage.TypeReq, sdl.JSON.Append(nil, envelope), "sdl", "send", sdlCaller, "ok"},
		{carriage.ProfileID, carriage.TypeReq, sdl.JSON.Append(nil, stranger), "sdl", "send", "hidden", "denied"},
	}
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, accessAll+"access: {rules: [{identity: 'spiffe://localhost/**', profile: [obs, policyhint, cred, state]}, "+
			"{identity: 'spiffe://localhost/**', name: [swp.echo, nobody.has, build.done, builds, nothing, nobody, nobody.does, '"+sdlCaller+"']}], "+
			"agents: [{identity: 'spiffe://localhost/**', agent_ids: [planner, '"+sdlCaller+"']}]}\n"+sdlOpen)
		for _, row := range rows {
			s := r.raw(r.addrs[transport])
			octets := message(row.profileID, row.msgType, 0, "an-id-of-its-own", string(row.payload))
			send(t, s, octets)
			if row.outcome == "lost" {
				if _, err := s.Read(make([]byte, 512)); err != nil { // its confirmation
					t.Fatal(err)
				}
				s.Reset(0)
			}
			line := r.awaitLine(row.profile, row.operation, row.name)
			if line.Outcome != row.outcome {
				t.Errorf("%s %s %q: %s, want %s", row.profile, row.operation, row.name, line.Outcome, row.outcome)
			}
			if line.Peer != "spiffe://localhost/swp-client" || line.Transport != []string{"tls", "quic"}[transport] || line.In != uint64(len(octets)) || line.MS == nil || line.Session == 0 {
				t.Errorf("%+v, of a message of %d octets", line, len(octets))
			}
			if answered := row.operation == "call" || row.profile == "tooldisc" || row.profile == "relay"; answered && line.Out == 0 {
				t.Errorf("%+v: nothing went out", line)
			}
		}
		if n := len(r.accessLines()); n != len(rows) {
			t.Errorf("%d lines, want %d:\n%s", n, len(rows), r.log)
		}
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("a payload is in the log:\n%s", r.log)
		}
		r.counts("swpd_access_lines_total", strconv.Itoa(len(rows)))
		for _, labels := range []string{
			`operation="call",outcome="ok",profile="rpc"`, `operation="call",outcome="failed",profile="rpc"`, `operation="call",outcome="denied",profile="rpc"`,
			`operation="publish",outcome="ok",profile="relay"`, `operation="publish",outcome="denied",profile="events"`, `operation="task",outcome="denied",profile="a2a"`,
		} {
			r.counts("swpd_exchange_seconds_count{"+labels+"}", "1")
			r.counts("swpd_exchange_seconds_bucket{"+labels+`,le="+Inf"}`, "1")
		}
	})
}

// What is answered to whom the rules refuse has no word of them.
func TestARefusalHasNoTextOfARule(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, accessAll+"access: {rules: [{identity: 'spiffe://never-told/**'}, {identity: 'spiffe://localhost/**', name: [never-told, 'never-told/**']}]}\n")
		record := events.Record{EventID: []byte("e"), Timestamp: 1, EventType: []byte("hidden"), Severity: []byte("info"), TaskID: []byte("t")}
		for _, row := range []struct {
			name               string
			profileID, msgType uint64
			payload            []byte
		}{
			{"rpc", rpc.ProfileID, rpc.TypeReq, (&rpc.Req{RPCID: []byte("3"), Method: []byte("hidden")}).Append(nil)},
			{"events", events.ProfileID, events.TypePublish, (&events.Publish{Event: record}).Append(nil)},
			{"artifact", artifact.ProfileID, artifact.TypeGet, (&artifact.Get{ArtifactID: []byte("hidden")}).Append(nil)},
			{"relay", relay.ProfileID, relay.TypePublish, (&relay.Publish{DeliveryID: []byte("d"), Topic: []byte("hidden")}).Append(nil)},
			{"a2a", a2a.ProfileID, a2a.TypeTask, (&a2a.TaskBody{TaskID: []byte("t2"), Kind: []byte("hidden")}).Append(nil)},
			{"tooldisc", tooldisc.ProfileID, tooldisc.TypeGetReq, (&tooldisc.GetReq{ToolID: []byte("hidden")}).Append(nil)},
		} {
			s := r.raw(r.addrs[transport])
			send(t, s, message(row.profileID, row.msgType, 0, "an-id-of-its-own", string(row.payload)))
			answer := make([]byte, 4096)
			n, err := s.Read(answer)
			if n == 0 {
				t.Errorf("%s: no answer: %v", row.name, err)
			}
			if bytes.Contains(answer[:n], []byte("never-told")) || bytes.Contains(answer[:n], []byte("rules[")) {
				t.Errorf("%s: %q", row.name, answer[:n])
			}
		}
	})
}

func TestWhatIsPassedOnNamesItsPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pairOf(t, transport, accessAll+ruleAll, accessAll+ruleAll+modernYAML(t))
		a.mustDial(a.addrs[0]).mustAsk(t, "b/modern", modernCall)
		here, there := a.awaitLine("mcp", "tools/call", "b/modern/exact"), b.awaitLine("mcp", "tools/call", "modern/exact")
		if here.Partner != "b" || here.Outcome != "ok" || here.Out == 0 || there.Partner != "" || there.Peer != a.identity {
			t.Errorf("here %+v\nthere %+v", here, there)
		}
		a.counts(`swpd_partner_seconds_count{outcome="ok",partner="b",profile="mcp"}`, "1")
		b.counts(`swpd_mcp_seconds_count{outcome="ok",server="modern"}`, "1")
		a.rewrite("  b: {", "  other: {")
		a.reloaded()
		if _, metrics := a.get("/metrics"); strings.Contains(metrics, `partner="b"`) {
			t.Error("a partner that was removed is still counted")
		}
	})
}

// What a partner refuses is told from what fails or is denied here.
func TestARefusalByAPartnerIsNoFailureHere(t *testing.T) {
	t.Parallel()
	record := events.Record{EventID: []byte("e"), Timestamp: 1, EventType: []byte("b/hidden"), Severity: []byte("info"), TaskID: []byte("t")}
	rows := []struct {
		profileID, msgType       uint64
		payload                  []byte
		profile, operation, name string
	}{
		{rpc.ProfileID, rpc.TypeReq, (&rpc.Req{RPCID: []byte("1"), Method: []byte("b/hidden")}).Append(nil), "rpc", "call", "b/hidden"},
		{events.ProfileID, events.TypePublish, (&events.Publish{Event: record}).Append(nil), "events", "publish", "b/hidden"},
		{events.ProfileID, events.TypeSubscribe, (&events.Subscribe{Filter: []byte("type:b/hidden")}).Append(nil), "events", "subscribe", "b/hidden"},
		{artifact.ProfileID, artifact.TypeGet, (&artifact.Get{ArtifactID: []byte("b/hidden")}).Append(nil), "artifact", "get", "b/hidden"},
		{agdisc.ProfileID, agdisc.TypeGet, (&agdisc.Get{AgentID: []byte("b/hidden")}).Append(nil), "agdisc", "get", "b/hidden"},
		{tooldisc.ProfileID, tooldisc.TypeGetReq, (&tooldisc.GetReq{ToolID: []byte("b/hidden")}).Append(nil), "tooldisc", "get", "b/hidden"},
	}
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pairOf(t, transport, accessAll+ruleAll, "access: {rules: [{identity: 'spiffe://a.example/**', name: [modern, modern/exact]}]}\n"+modernYAML(t))
		raw := a.raw(a.addrs[transport])
		for i, row := range rows {
			send(t, raw, message(row.profileID, row.msgType, 0, fmt.Sprintf("an-id-of-row-%d", i), string(row.payload)))
			if line := a.awaitLine(row.profile, row.operation, row.name); line.Outcome != "refused_by_partner" || line.Partner != "b" {
				t.Errorf("%+v", line)
			}
		}
		s := a.mustDial(a.addrs[transport])
		s.mustAsk(t, "b/modern", strings.Replace(modernCall, `\u0065xact`, "write", 1))
		_, _ = s.hand(t, &a2a.Task{Kind: "hidden"}, a2a.SendOptions{Agent: "b/x"})
		for _, name := range []string{"b/modern/write", "b/x/hidden"} {
			profile, operation := "mcp", "tools/call"
			if name == "b/x/hidden" {
				profile, operation = "a2a", "task"
			}
			if line := a.awaitLine(profile, operation, name); line.Outcome != "refused_by_partner" || line.Partner != "b" {
				t.Errorf("%+v", line)
			}
		}
		_, _ = rpc.Call(t.Context(), s.Session, "nobody.has", nil)
		if line := a.awaitLine("rpc", "call", "nobody.has"); line.Outcome != "failed" {
			t.Errorf("a failure here: %+v", line)
		}
		a.counts(`swpd_exchange_seconds_count{operation="call",outcome="refused_by_partner",profile="rpc"}`, "1")
	})
}

func TestACallOverHTTPHasOneLine(t *testing.T) {
	d := open(t, "a", accessAll+ruleAll+httpYAML+modernYAML(t))
	if status, _, got := post(t, d.front()+"/mcp/modern", modernCall, modernHeaders...); status != http.StatusOK {
		t.Fatalf("%d %s", status, got)
	}
	line := d.awaitLine("mcp", "tools/call", "modern/exact")
	if line.Transport != "http" || line.Outcome != "ok" || len(d.accessLines()) != 1 {
		t.Errorf("%+v, of %d lines", line, len(d.accessLines()))
	}
}

func TestDeniedHasDenialsAlone(t *testing.T) {
	r := start(t, "log: {access: denied}\naccess: {}\n")
	s := r.mustDial(r.addrs[0])
	if err := echo(t, s); err != nil {
		t.Fatal(err)
	}
	_, _ = rpc.Call(t.Context(), s.Session, "hidden", nil)
	if line := r.awaitLine("rpc", "call", "hidden"); line.Outcome != "denied" || len(r.accessLines()) != 1 {
		t.Errorf("%+v, of %d lines", line, len(r.accessLines()))
	}
}

func TestStoreAndQueuesAreMeasured(t *testing.T) {
	r := start(t, "")
	s := r.raw(r.addrs[0])
	for _, id := range []string{"first", "second"} {
		send(t, s, message(relay.ProfileID, relay.TypePublish, 0, "an-id-of "+id, string((&relay.Publish{DeliveryID: []byte(id), Topic: []byte("builds")}).Append(nil))))
	}
	r.counts("swpd_relay_waiting", "2")
	r.counts("swpd_relay_queues", "1")
	for _, name := range []string{"swpd_store_used_bytes", "swpd_store_quota_bytes", "swpd_store_file_bytes", "swpd_store_commit_seconds_count", "swpd_store_commits_total"} {
		if got := r.metric(name); got == "" || got == "0" {
			t.Errorf("%s is %q", name, got)
		}
	}
	r.counts("swpd_a2a_waiting", "0")
}

func TestTheAccessLogFollowsAReload(t *testing.T) {
	r := start(t, "log: {access: 'off'}\n"+ruleAll)
	s := r.mustDial(r.addrs[0])
	if err := echo(t, s); err != nil {
		t.Fatal(err)
	}
	r.rewrite("log: {access: 'off'}", "log: {access: all, access_file: access.log}")
	r.reloaded()
	file := filepath.Join(r.dir, "access.log")
	for _, moved := range []string{file + ".1", file + ".2"} {
		if err := echo(t, s); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"name":"swp.echo"`) {
				break
			}
			if time.Since(began) > patience {
				t.Fatalf("%s has no line", file)
			}
		}
		if err := os.Rename(file, moved); err != nil {
			t.Fatal(err)
		}
		r.reloaded()
	}
	if lines := r.accessLines(); len(lines) > 0 {
		t.Errorf("beside the file: %+v", lines)
	}
	r.rewrite("access_file: access.log", "access_file: no/such/place.log")
	if _, body := r.post(); !strings.Contains(body, "log.access_file") {
		t.Errorf("a file that cannot be opened: %s", body)
	}
}
