package crash

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/audit"
)

// plantedTrails is what two organisations have written of the work of clean, in which
// everything is right until a fault is planted.
type plantedTrails struct {
	h           *history
	noted       *noted
	near, far   *trail
	nears, fars []lived
}

// start is when the swpd of plantedTrails were started.
var start = time.Unix(1_800_000_000, 0)

func cleanTrails(t *testing.T) *plantedTrails {
	t.Helper()
	h, err := readAll(clean().write(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &plantedTrails{
		h: h, noted: newNoted(), near: &trail{name: "acme"}, far: &trail{name: "beta"},
		nears: []lived{{from: start, killed: start.Add(time.Hour)}}, fars: []lived{{from: start, killed: start.Add(time.Hour)}},
	}
	for e, n := range h.errands() {
		for i := range n {
			p.cross(e, i)
		}
	}
	return p
}

func sumHex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// cross adds what both ends have of an errand of a client at the partner.
func (p *plantedTrails) cross(e errand, n int) {
	id := fmt.Sprint(e, n)
	profile, operation, _ := strings.Cut(e.what, " ")
	r := record{Entry: audit.Entry{
		Time: start.Add(time.Minute), Took: time.Second, Action: "exchange", Sequence: uint64(len(p.far.partner) + 1), Profile: profile, Operation: operation, Name: e.of,
		Outcome: "ok", Request: sumHex("request " + id), Answer: sumHex("answer " + id),
	}, life: 1}
	if slices.Contains([]string{traced[aTask], traced[aCall], traced[aToolCall]}, e.what) {
		r.Name, r.Trace = method, e.of
	}
	near, far := r, r
	near.Partner, near.Name = p.far.name, p.far.name+"/"+r.Name
	far.MsgID, far.AnswerType = sumHex(id)[:32], 2
	sent := far
	sent.Action, sent.Name, sent.Outcome, sent.Partner = "exchange-sent", "", "answered", p.far.name
	p.near.clients, p.near.sent, p.far.partner = append(p.near.clients, near), append(p.near.sent, sent), append(p.far.partner, far)
	p.noted.take(&entry{What: didOpen, Payload: r.Request})
	p.noted.take(&entry{What: wasClosed, Payload: r.Request, Text: r.Answer, Topic: e.what})
}

// of returns the record of an operation.
func of(list []record, operation string) *record {
	i := slices.IndexFunc(list, func(r record) bool { return r.Operation == operation })
	return &list[i]
}

func without(list []record, operation string) []record {
	return slices.DeleteFunc(list, func(r record) bool { return r.Operation == operation })
}

func (p *plantedTrails) found() string {
	var list []string
	wrong := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	judgeNear(p.noted, p.near, wrong)
	judgeLink(p.near, p.far, p.nears, p.fars, wrong)
	judgeErrands(p.h, p.near, p.far, wrong)
	return strings.Join(list, "\n")
}

func TestTheJudgeOfTrailsFindsWhatIsPlanted(t *testing.T) {
	tool := traceOf(aToolCall, "caller-0.0.tool-0")
	for name, test := range map[string]struct {
		plant func(p *plantedTrails)
		want  []string
	}{
		"nothing": {func(*plantedTrails) {}, nil},

		"a record removed at the near end": {func(p *plantedTrails) { p.near.clients = without(p.near.clients, "tools/call") }, []string{
			"1 exchanges (mcp tools/call) were answered and have no record at acme", "acme has 0 records of mcp tools/call " + tool,
		}},
		"a record removed at the far end": {func(p *plantedTrails) { p.far.partner = without(p.far.partner, "tools/call") }, []string{
			"beta has answered it, and has no record of it: mcp tools/call", "beta has 0 records of mcp tools/call " + tool,
		}},
		"an outcome changed at the near end": {func(p *plantedTrails) { of(p.near.clients, "tools/call").Outcome = "failed" }, []string{
			"acme has 0 records of mcp tools/call",
		}},
		"an outcome changed at the far end": {func(p *plantedTrails) { of(p.far.partner, "put").Outcome = "denied" }, []string{
			"beta has 0 records of state put",
		}},
		"a digest changed at the near end": {func(p *plantedTrails) { of(p.near.clients, "task").Request = sumHex("another") }, []string{
			"no client has asked for it: a2a task", "(a2a task) were answered and have no record at acme",
		}},
		"the digest of an answer changed at the near end": {func(p *plantedTrails) { of(p.near.clients, "task").Answer = sumHex("another") }, []string{
			"(a2a task) were answered and have no record at acme",
		}},
		"a digest changed at the far end":                {func(p *plantedTrails) { of(p.far.partner, "task").Request = sumHex("another") }, []string{"differ in the request"}},
		"the digest of an answer changed at the far end": {func(p *plantedTrails) { of(p.far.partner, "task").Answer = sumHex("another") }, []string{"differ in the answer"}},
		"another caller at the far end":                  {func(p *plantedTrails) { of(p.far.partner, "task").Caller = sumHex("another") }, []string{"differ in the caller"}},

		"an answer that no record has": {func(p *plantedTrails) {
			p.noted.take(&entry{What: wasClosed, Payload: sumHex("q"), Text: sumHex("a"), Topic: "rpc RPC_REQ"})
		}, []string{"1 exchanges (rpc RPC_REQ) were answered and have no record at acme"}},
		"an answer twice, and one record": {func(p *plantedTrails) {
			r := of(p.near.clients, "task")
			p.noted.take(&entry{What: wasClosed, Payload: r.Request, Text: r.Answer, Topic: "a2a TASK"})
		}, []string{"1 exchanges (a2a TASK) were answered and have no record at acme"}},
		"a part of an upload that no record has": {func(p *plantedTrails) {
			p.noted.take(&entry{What: didOpen, Kind: aPart, Payload: sumHex("q")})
			p.noted.take(&entry{What: wasClosed, Payload: sumHex("q"), Text: sumHex("a"), Topic: "artifact ART_CHUNK"})
		}, nil},
		"a record of what no journal knows": {func(p *plantedTrails) { p.cross(errand{traced[aCall], traceOf(aCall, "another")}, 0) }, []string{
			"of acme: no journal knows of this rpc call " + traceOf(aCall, "another"), "of beta: no journal knows of this rpc call",
		}},
		"what a journal knows and no record": {func(p *plantedTrails) {
			w := p.h.work(anArtifact, "another")
			w.begun, w.ended = make([]outcome, 1), []outcome{{text: endOK}}
		}, []string{"acme has 0 records of artifact chunk another", "beta has 0 records of artifact chunk another"}},
		"fewer events than were acknowledged": {func(p *plantedTrails) { p.h.number(anEvent, "giver-0").acked++ }, []string{
			"acme has 4 records of events publish crash.count that are ok, want 5", "beta has 4 records of events publish",
		}},
		"what failed needs no record": {func(p *plantedTrails) {
			w := p.h.work(aCall, "another")
			w.begun, w.ended = make([]outcome, 1), []outcome{{text: "failed"}}
		}, nil},

		"a record of what was sent removed": {func(p *plantedTrails) {
			p.near.sent = without(p.near.sent, "task")
			p.nears[0].killed = start.Add(time.Second)
		}, []string{"acme has no record that it asked for it: a2a task"}},
		"a swpd killed before it had the answer": {func(p *plantedTrails) {
			p.near.sent = without(p.near.sent, "task")
			p.nears[0].killed = start.Add(time.Minute)
		}, nil},
		"a swpd killed before the other one has read what it sent": {func(p *plantedTrails) {
			p.near.sent = without(p.near.sent, "task")
			p.nears[0].killed = start.Add(time.Minute - time.Second - underWay)
		}, nil},
		"a swpd killed long before": {func(p *plantedTrails) {
			p.near.sent = without(p.near.sent, "task")
			p.nears[0].killed = start.Add(time.Minute - time.Second - underWay - 1)
		}, []string{"acme has no record that it asked for it: a2a task"}},
		"a swpd killed long after it had the answer": {func(p *plantedTrails) {
			for n := range overtaken + 2 {
				p.cross(errand{"rpc call", "swp.artifacts.list"}, n)
			}
			p.near.sent = without(p.near.sent, "task")
			p.nears[0].killed = start.Add(time.Minute + onItsWay + 1)
		}, []string{"acme has no record that it asked for it: a2a task"}},
		"a swpd killed while an answer that many others overtake may be on its way": {func(p *plantedTrails) {
			for n := range overtaken + 2 {
				p.cross(errand{"obs get", ""}, n)
			}
			p.near.sent = without(p.near.sent, "task")
			p.nears[0].killed = start.Add(time.Minute + onItsWay)
		}, nil},
		"a swpd killed long after a download that its client did not take": {func(p *plantedTrails) {
			p.cross(errand{"artifact get", "giver-0.0.artifact-0"}, 0)
			for n := range overtaken + 2 {
				p.cross(errand{"obs get", ""}, n)
			}
			p.near.sent = without(p.near.sent, "get")
			p.nears[0].killed = start.Add(time.Minute)
		}, nil},
		"a swpd killed before the end of what it answers": {func(p *plantedTrails) {
			p.cross(errand{"events subscribe", "crash.count"}, 0)
			p.far.partner = without(p.far.partner, "subscribe")
			of(p.near.sent, "subscribe").Incomplete = true
			p.fars[0].killed = start.Add(time.Minute)
		}, nil},
		"a stream without a record at a swpd that was not killed": {func(p *plantedTrails) {
			p.cross(errand{"events subscribe", "crash.count"}, 0)
			p.far.partner = without(p.far.partner, "subscribe")
			of(p.near.sent, "subscribe").Incomplete = true
			p.fars[0].killed = start.Add(time.Second)
		}, []string{"beta has answered it, and has no record of it: events subscribe"}},
		"a request that did not arrive": {func(p *plantedTrails) {
			p.cross(errand{"events subscribe", "crash.count"}, 0)
			p.far.partner = without(p.far.partner, "subscribe")
			sent := of(p.near.sent, "subscribe")
			sent.Incomplete, sent.AnswerType = true, 0
		}, nil},
		"a finding about receipts": {func(p *plantedTrails) {
			p.near.findings = append(p.near.findings, record{Entry: audit.Entry{Outcome: "receipt:unknown", Reason: "it does not know it"}})
		}, []string{"receipt:unknown: it does not know it"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := cleanTrails(t)
			test.plant(p)
			got := p.found()
			unfound := slices.ContainsFunc(test.want, func(want string) bool { return !strings.Contains(got, want) })
			if unfound || (got == "") != (test.want == nil) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestATrailThatWasChangedIsFound(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: "spiffe://acme.example/swpd"}); err != nil {
		t.Fatal(err)
	}
	files := devpki.Server(filepath.Join(dir, "pki"))
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := audit.Open(audit.Options{
		Dir:      filepath.Join(dir, "data", "audit"),
		Identity: func() string { return "spiffe://acme.example/swpd" }, Certificate: func() *tls.Certificate { return &pair },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		tr.Append(&audit.Record{Time: time.Now(), Identity: "spiffe://acme.example/swp-client", Profile: "rpc", Operation: "call", Name: method, Outcome: "ok", OK: true})
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	read := func() (records int, found string) {
		var list []string
		got, err := readTrail(t.Context(), trail{name: "acme", identity: "spiffe://acme.example/swpd"}, "spiffe://beta.example/swpd", dir,
			func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) })
		if err != nil {
			t.Fatal(err)
		}
		return len(got.clients), strings.Join(list, "\n")
	}
	if n, found := read(); n != 10 || found != "" {
		t.Errorf("%d records, %q", n, found)
	}
	file := filepath.Join(dir, "data", "audit", "00000001.jsonl")
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, changed := range map[string][]byte{
		"is not what was written": bytes.Replace(octets, []byte(`"swp.outcome":"ok"`), []byte(`"swp.outcome":"no"`), 1),
		"are missing": slices.Concat(slices.Collect(func(yield func([]byte) bool) {
			for i, line := range bytes.SplitAfter(octets, []byte("\n")) {
				if i != 6 && !yield(line) {
					return
				}
			}
		})...),
	} {
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, found := read(); !strings.Contains(found, what) {
			t.Errorf("found %q, want %q", found, what)
		}
	}
}
