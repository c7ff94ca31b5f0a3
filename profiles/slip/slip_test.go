package slip_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/ucr"
)

const (
	text   = `@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#`
	binary = "\x08\x03\x10\x01\x28\x03\x20\x01\x3a\x02\x10\x11\x3a\x04\x08\x01\x10\x2a\x3a\x04\x08\x0a\x10\x02\x3a\x11\x08\x14\x1a\x0d" + "refactor_auth"
	words  = "SLIP v1 coordinator planner RequestReview auth_module"
)

// canonical is binary with its fields ascending.
var canonical = func() string {
	var m nslip.Message
	if err := (nslip.Codec{}).Parse(&m, []byte(text)); err != nil {
		panic(err)
	}
	b, err := nslip.Codec{}.AppendBinary(nil, &m)
	if err != nil {
		panic(err)
	}
	return string(b)
}()

func TestMessagesReachTheSessionThatDeclaredTheirAgent(t *testing.T) {
	h := newHub(t, "hub", nil)
	from, to := h.join("id-a", "coordinator"), h.join("id-b", "planner", "other")
	for _, want := range []got{{slip.TypeNSLIP, text, nil}, {slip.TypeSLIP, words, nil}, {slip.TypeBinary, binary, nil}} {
		from.send(want.Type, want.Payload)
		if diff := cmp.Diff(want, to.gets()); diff != "" {
			t.Error(diff)
		}
	}
	for i := range 3 {
		if v := from.verdict(i); v.Code != profiles.OK {
			t.Errorf("%+v", v)
		}
	}
}

func TestMessagesForOneAgentKeepTheirOrder(t *testing.T) {
	h := newHub(t, "hub", nil)
	from, to := h.join("id-a", "coordinator"), h.join("id-b", "planner")
	for i := range 50 {
		from.send(slip.TypeSLIP, fmt.Sprintf("SLIP v1 coordinator planner MetaAck %d", i))
	}
	for i := range 50 {
		if m := to.gets(); !strings.HasSuffix(m.Payload, fmt.Sprintf(" %d", i)) {
			t.Fatalf("message %d is %s", i, m.Payload)
		}
	}
}

func TestFormsAreConverted(t *testing.T) {
	h := newHub(t, "hub", func(o *slip.Options) {
		o.Forms = map[string]uint64{"planner": slip.TypeBinary, "executor": slip.TypeNSLIP}
	})
	from, planner, executor := h.join("id-a", "coordinator"), h.join("id-b", "planner"), h.join("id-c", "executor")
	from.send(slip.TypeNSLIP, " "+text+"\n")
	if diff := cmp.Diff(got{slip.TypeBinary, canonical, nil}, planner.gets()); diff != "" {
		t.Error(diff)
	}
	from.send(slip.TypeSLIP, words)
	if diff := cmp.Diff(got{slip.TypeSLIP, words, nil}, planner.gets()); diff != "" {
		t.Error(diff)
	}
	long := nslip.Message{Dst: 2, Slots: []nslip.Slot{{Code: nslip.Tag, Text: []byte(strings.Repeat("x", 1000))}}}
	octets, err := nslip.Codec{MaxString: 1000}.AppendBinary(nil, &long)
	if err != nil {
		t.Fatal(err)
	}
	from.send(slip.TypeBinary, string(octets))
	if m := executor.gets(); m.Type != slip.TypeNSLIP || m.Payload != `@a0|f0|c0|S0|d2|T0|t"`+strings.Repeat("x", 1000)+`"#` {
		t.Errorf("%+v", m)
	}
}

func TestAWordAndANumberAreOneAgent(t *testing.T) {
	h := newHub(t, "hub", nil)
	from, to := h.join("id-a", "coordinator"), h.join("id-b", "planner")
	from.send(slip.TypeNSLIP, `@a2|f4|c1|S0|d1|T1#`)
	if m := to.gets(); m.Type != slip.TypeNSLIP {
		t.Errorf("%+v", m)
	}
	if code := from.refused(from.send(slip.TypeNSLIP, `@a2|f4|c1|S0|d3|T1#`)); code != slip.CodeNoMapping {
		t.Error(code)
	}
	if code := from.refused(from.send(slip.TypeNSLIP, `@a2|f4|c1|S3|d0|T1#`)); code != slip.CodeNoMapping {
		t.Error(code)
	}
	if v := from.verdict(1); v.Code != profiles.NotFound || !v.Err.Domain || v.Err.Detail != "slip_no_mapping" {
		t.Errorf("%+v", v)
	}
}

func TestUnknownDestinationIsAClearError(t *testing.T) {
	h := newHub(t, "hub", nil)
	from := h.join("id-a", "coordinator")
	if code := from.refused(from.send(slip.TypeSLIP, words)); code != slip.CodeUnknownDestination {
		t.Error(code)
	}
	if v := from.verdict(0); v.Code != profiles.NotFound || !v.Err.Domain || !strings.Contains(v.Err.Text, `"planner"`) {
		t.Errorf("%+v", v)
	}
	away := h.join("id-b", "planner")
	away.session.Close()
	if code := from.refused(from.send(slip.TypeSLIP, words)); code != slip.CodeUnknownDestination {
		t.Error(code)
	}
}

// leaver is a session whose peer leaves as soon as it has got a message.
type leaver struct {
	profiles.Session
	leave func()
}

func (l leaver) Send(ctx context.Context, env e1.Envelope) error {
	err := l.Session.Send(ctx, env)
	l.leave()
	<-l.Context().Done()
	return err
}

func TestAMessageToAnAgentThatLeavesUponItIsNotRefused(t *testing.T) {
	for _, partner := range []bool{false, true} {
		h := newHub(t, "hub", nil)
		from, to := h.join("id-a", "coordinator"), h.join("id-b")
		last := leaver{to.hub, func() { to.gets(); to.session.Close() }}
		if partner {
			h.partners["planner"] = last
		} else {
			h.agents.declare("planner", "id-b", last)
		}
		from.send(slip.TypeSLIP, words)
		if v := from.verdict(0); v.Err != nil {
			t.Errorf("of a partner %v: %v", partner, v.Err)
		}
	}
}

func TestTheRelayKeepsWhatIsForAnAgentThatIsAway(t *testing.T) {
	relay := &box{agent: "planner", kept: make(chan kept, 1)}
	h := newHub(t, "hub", func(o *slip.Options) { o.Relay = relay })
	from := h.join("id-a", "coordinator")
	for payload, msgType := range map[string]uint64{text: slip.TypeNSLIP, words: slip.TypeSLIP} {
		id := from.send(msgType, payload)
		if diff := cmp.Diff(kept{"id-a", "planner", payload, id, 0}, wait(t, relay.kept)); diff != "" {
			t.Error(diff)
		}
	}
	id := from.send(slip.TypeBinary, binary)
	if diff := cmp.Diff(kept{"id-a", "planner", text, id, 0}, wait(t, relay.kept)); diff != "" {
		t.Errorf("binary is kept as text: %s", diff)
	}
	if code := from.refused(from.send(slip.TypeSLIP, "SLIP v1 coordinator executor MetaAck")); code != slip.CodeUnknownDestination {
		t.Error(code)
	}
	to := h.join("id-b", "planner")
	from.send(slip.TypeSLIP, words)
	if m := to.gets(); m.Payload != words {
		t.Errorf("%+v", m)
	}
}

func TestAFaultOfTheRelayIsTold(t *testing.T) {
	for fault, want := range map[error]string{
		profiles.Busy("store_quota", "no room"): "RATE_LIMIT_EXCEEDED",
		profiles.Unavailable(errStore):          "INTERNAL_ERROR",
	} {
		h := newHub(t, "hub", func(o *slip.Options) { o.Relay = &box{agent: "planner", fault: fault} })
		from := h.join("id-a", "coordinator")
		if code := from.refused(from.send(slip.TypeSLIP, words)); code != want {
			t.Errorf("%v: %s, want %s", fault, code, want)
		}
	}
}

// link connects two hubs: each has a session to the other, which names agents of it.
func link(t *testing.T, a, b *hub, ofA, ofB []string) {
	t.Helper()
	toB, toA := profiletest.Pair("id-"+a.name, a.registry, "id-"+b.name, b.registry, profiletest.SessionOptions{})
	t.Cleanup(func() {
		toA.Close()
		toA.Wait()
		toB.Wait()
	})
	for _, id := range ofA {
		b.partners[id] = toA
	}
	for _, id := range ofB {
		a.partners[id] = toB
	}
}

func TestMessagesGoThroughAPartner(t *testing.T) {
	a, b := newHub(t, "a", nil), newHub(t, "b", nil)
	link(t, a, b, []string{"coordinator"}, []string{"planner", "executor"})
	from, to := a.join("id-x", "coordinator"), b.join("id-y", "planner")
	for _, m := range []got{{slip.TypeNSLIP, text, nil}, {slip.TypeSLIP, words, nil}, {slip.TypeBinary, binary, nil}} {
		from.send(m.Type, m.Payload)
		if diff := cmp.Diff(m, to.gets()); diff != "" {
			t.Error(diff)
		}
	}
	to.send(slip.TypeSLIP, "SLIP v1 planner coordinator InformComplete")
	if m := from.gets(); m.Payload != "SLIP v1 planner coordinator InformComplete" {
		t.Errorf("%+v", m)
	}
	// What the far end refuses comes back as an answer to the message that was sent.
	if code := from.refused(from.send(slip.TypeSLIP, "SLIP v1 coordinator executor MetaAck")); code != slip.CodeUnknownDestination {
		t.Error(code)
	}
	if code := from.refused(from.send(slip.TypeSLIP, "SLIP v1 coordinator planner MetaAbort")); code != "not_now" {
		t.Error(code)
	}
}

func TestPartnersThatNameEachOtherEndIt(t *testing.T) {
	a, b := newHub(t, "a", nil), newHub(t, "b", nil)
	link(t, a, b, []string{"nobody"}, []string{"nobody"})
	from := a.join("id-x", "coordinator")
	if code := from.refused(from.send(slip.TypeSLIP, "SLIP v1 coordinator nobody MetaAck")); code != slip.CodeUnknownDestination {
		t.Error(code)
	}
}

func TestHopsAreBounded(t *testing.T) {
	a, b := newHub(t, "a", nil), newHub(t, "b", nil)
	link(t, a, b, nil, []string{"planner"})
	from, to := a.join("id-x", "coordinator"), b.join("id-y", "planner")
	for hops, passes := range map[uint64]bool{profiles.MaxHops - 1: true, profiles.MaxHops: false} {
		id := profiles.NewMsgID()
		err := from.session.Send(t.Context(), e1.Envelope{
			ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, MsgID: id, Payload: []byte(words),
			Extensions: e1.AppendExtensionUvarint(nil, profiles.ExtHops, hops),
		})
		if err != nil {
			t.Fatal(err)
		}
		if passes {
			to.gets()
		} else if code := from.refused(string(id)); code != slip.CodeUnknownDestination {
			t.Error(code)
		}
	}
}

func TestWhatBelongsToAnIdentityIsNotToldToPartners(t *testing.T) {
	a, b := newHub(t, "a", nil), newHub(t, "b", nil)
	link(t, a, b, nil, []string{"planner"})
	from, mine := a.join("id-x", "coordinator"), a.join("id-y", "planner")
	b.join("id-z", "planner")
	mine.session.Close()
	if code := from.refused(from.send(slip.TypeSLIP, words)); code != slip.CodeUnknownDestination {
		t.Error(code)
	}
}

func TestPR18SenderSpeaksAsItsOwnAgents(t *testing.T) {
	h := newHub(t, "hub", func(o *slip.Options) {
		o.MayUse = func(identity, agentID string) bool { return identity != "id-c" || agentID == "executor" }
		o.Access = allowed(func(identity, profile, operation, name string) bool {
			return profile == "slip" && operation == "send" && (identity != "id-c" || name != "coordinator")
		})
	})
	h.join("id-a", "coordinator")
	to := h.join("id-b", "planner")
	other := h.join("id-c")
	for payload, ok := range map[string]bool{
		"SLIP v1 executor planner MetaAck":     true,
		"SLIP v1 coordinator planner MetaAck":  false, // another identity has declared it
		"SLIP v1 nobody planner MetaAck":       false, // it may not use it
		"SLIP v1 executor coordinator MetaAck": false, // it may not send there
	} {
		id := other.send(slip.TypeSLIP, payload)
		if ok {
			to.gets()
		} else if code := other.refused(id); code != slip.CodeDenied {
			t.Errorf("%s: %s", payload, code)
		}
	}
	denials := 0
	for i := range 4 {
		if v := other.verdict(i); v.Code == profiles.SecurityPolicy && !v.Err.Domain {
			denials++
		}
	}
	if denials != 3 {
		t.Errorf("%d denials, want 3", denials)
	}
}

type allowed func(identity, profile, operation, name string) bool

func (f allowed) Allowed(identity, profile, operation, name string) bool {
	return f(identity, profile, operation, name)
}

// PR-18: shape, and anchors that others know, on the SWP side.
func TestPR18ShapeAndAnchors(t *testing.T) {
	h := newHub(t, "hub", nil)
	from, to := h.join("id-a", "coordinator"), h.join("id-b", "planner")
	n := 0
	for _, test := range []struct {
		msgType       uint64
		payload, code string
	}{
		{slip.TypeNSLIP, "@a3|f0|c3|S0|d1|T1", "framing"},
		{slip.TypeNSLIP, "@a3|f0|c3|S0|d1|T1|g1|g1#", "duplicate"},
		{slip.TypeNSLIP, binary, "framing"},
		{slip.TypeNSLIP, "@" + strings.Repeat("|", 4096) + "#", "too_long"},
		{slip.TypeBinary, words, "framing"},
		{slip.TypeSLIP, "SLIP v1 coordinator planner 0x0032", "hex_anchor"},
		{slip.TypeSLIP, words + "\nSLIP v1 planner coordinator MetaAck", "bad_delimiter"},
		{slip.TypeSLIP, "SLIP v1 coordinator planner LaunchRocket", "unknown_anchor"},
		{slip.TypeSLIP, words + " \xff", "bad_delimiter"},
	} {
		if code := from.refused(from.send(test.msgType, test.payload)); code != test.code {
			t.Errorf("%q: %s, want %s", test.payload, code, test.code)
		}
		if v := from.verdict(n); v.Code != profiles.InvalidProfilePayload || v.Err.Detail != "slip_"+test.code || v.Err.Domain {
			t.Errorf("%q: %+v", test.payload, v)
		}
		n++
	}
	for hash, ok := range map[string]bool{ucr.CoreHash: true, strings.ToUpper(ucr.CoreHash): false, "": false, "sha256:00": false} {
		id := profiles.NewMsgID()
		err := from.session.Send(t.Context(), e1.Envelope{
			ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, MsgID: id, Payload: []byte(words),
			Extensions: e1.AppendExtension(nil, slip.ExtUCRHash, []byte(hash)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			to.gets()
			if v := from.verdict(n); v.Code != profiles.OK { // told after the message has gone on
				t.Errorf("%q: %+v", hash, v)
			}
		} else {
			if code := from.refused(string(id)); code != slip.CodeMismatch {
				t.Errorf("%q: %s", hash, code)
			}
			if v := from.verdict(n); v.Code != profiles.CompatibilityPolicy {
				t.Errorf("%q: %+v", hash, v)
			}
		}
		n++
	}
}

func TestAnchorsOfTheInstallationAreKnown(t *testing.T) {
	table, err := ucr.NewTable(ucr.Anchor{Index: 0x8000, Mnemonic: "LaunchRocket"})
	if err != nil {
		t.Fatal(err)
	}
	a := newHub(t, "a", func(o *slip.Options) { o.Anchors = table })
	link(t, a, newHub(t, "b", nil), nil, []string{"planner"})
	from := a.join("id-a", "coordinator")
	if code := from.refused(from.send(slip.TypeSLIP, "SLIP v1 coordinator planner LaunchRocket")); code != "unknown_anchor" {
		t.Errorf("the far end, which does not know it, says %s", code)
	}
}

// An anchor that only the far end knows passes through this endpoint, and is refused for an
// agent here, and for one that nobody serves.
func TestAnchorsOfTheFarEndPassInTransit(t *testing.T) {
	table, err := ucr.NewTable(ucr.Anchor{Index: 0x8000, Mnemonic: "LaunchRocket"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := newHub(t, "a", nil), newHub(t, "b", func(o *slip.Options) { o.Anchors = table })
	link(t, a, b, []string{"coordinator"}, []string{"planner"})
	from := a.join("id-x", "coordinator")
	a.join("id-z", "near")
	came := make(chan string, 1)
	b.attach("id-y", &profiles.Profile{
		ID: slip.ProfileID, Name: "slip", Types: service(t, slip.Options{}).Profile().Types,
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			came <- string(req.Payload)
			return nil
		}),
	}, "planner")
	const text = "SLIP v1 coordinator planner LaunchRocket now"
	from.send(slip.TypeSLIP, text)
	if got := wait(t, came); got != text {
		t.Errorf("%q", got)
	}
	for _, dst := range []string{"near", "nobody"} {
		if code := from.refused(from.send(slip.TypeSLIP, "SLIP v1 coordinator "+dst+" LaunchRocket")); code != "unknown_anchor" {
			t.Errorf("to %s: %s", dst, code)
		}
	}
}

// A SLIP_ERR is for a message that was passed on to the same session, once.
func TestTL11OthersCanNotReturnAMessage(t *testing.T) {
	h := newHub(t, "hub", nil)
	from, third := h.join("id-a", "coordinator"), h.join("id-c")
	ids := make(chan []byte, 1)
	planner := h.attach("id-b", &profiles.Profile{
		ID: slip.ProfileID, Name: "slip", Types: service(t, slip.Options{}).Profile().Types,
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			ids <- slices.Clone(req.MsgID)
			return nil
		}),
	}, "planner")
	reply := func(a *agent, id []byte, code string) {
		t.Helper()
		n := len(a.hub.Verdicts())
		e := slip.Err{Code: []byte(code)}
		if err := a.session.Send(t.Context(), e1.Envelope{ProfileID: slip.ProfileID, MsgType: slip.TypeErr, MsgID: id, Payload: e.Append(nil)}); err != nil {
			t.Fatal(err)
		}
		if v := a.verdict(n); v.Code != profiles.OK {
			t.Errorf("%+v", v)
		}
	}
	first := from.send(slip.TypeSLIP, words)
	id := wait(t, ids)
	reply(third, id, "of another")
	reply(planner, id, "of planner")
	reply(planner, id, "again")
	second := from.send(slip.TypeSLIP, words)
	reply(planner, wait(t, ids), "next")
	for _, want := range []returned{{first, "of planner"}, {second, "next"}} { // what is returned to an identity keeps its order
		if diff := cmp.Diff(want, wait(t, from.errs)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWhatIsReturnedLateIsDropped(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1, 0)
	h := newHub(t, "hub", func(o *slip.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	from := h.join("id-a", "coordinator")
	ids := make(chan []byte, 1)
	planner := h.attach("id-b", &profiles.Profile{
		ID: slip.ProfileID, Name: "slip", Types: service(t, slip.Options{}).Profile().Types,
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			ids <- slices.Clone(req.MsgID)
			return nil
		}),
	}, "planner")
	for _, pass := range []time.Duration{time.Minute, time.Minute - 1} {
		id := from.send(slip.TypeSLIP, words)
		sent := wait(t, ids)
		mu.Lock()
		now = now.Add(pass)
		mu.Unlock()
		e := slip.Err{Code: []byte(pass.String())}
		if err := planner.session.Send(t.Context(), e1.Envelope{ProfileID: slip.ProfileID, MsgType: slip.TypeErr, MsgID: sent, Payload: e.Append(nil)}); err != nil {
			t.Fatal(err)
		}
		if pass < time.Minute { // the one before would have come first
			if diff := cmp.Diff(returned{id, pass.String()}, wait(t, from.errs)); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]slip.Options{
		"a negative bound":     {Waiting: -1},
		"an agent with blanks": {Numbers: map[uint64]string{1: "a b"}},
		"a form of words":      {Forms: map[string]uint64{"a": slip.TypeSLIP}},
	} {
		if _, err := slip.New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestReplyTurnsTheMessageRound(t *testing.T) {
	var m nslip.Message
	if err := (nslip.Codec{}).Parse(&m, []byte(text)); err != nil {
		t.Fatal(err)
	}
	line, err := nslip.Codec{}.Append(nil, slip.Reply(&m, nslip.Accept, nslip.Task, nslip.Slot{Code: nslip.TaskID, Int: 42}))
	if err != nil || string(line) != `@a6|f0|c3|S1|d0|T2|kg#` {
		t.Errorf("%s, %v", line, err)
	}
}

func TestErrIsTheP1Form(t *testing.T) {
	e := slip.Err{Code: []byte("denied"), Message: []byte("no")}
	if got := hex.EncodeToString(e.Append(nil)); got != "220c0a0664656e69656412026e6f" || len(e.Append(nil)) != e.Size() {
		t.Error(got)
	}
}
