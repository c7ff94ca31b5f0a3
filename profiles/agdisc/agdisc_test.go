package agdisc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/profiletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// card is a card with octets that no encoder would write.
var card = agdisc.Card{
	AgentID: "demo", Payload: []byte("{ \"version\" : \"1.\\u0032\",\r\n\"id\":9007199254740993, \"id\":1.0 }\n"), MaxAge: time.Minute,
}

func table(t testing.TB, cards ...agdisc.Card) *agdisc.Table {
	t.Helper()
	source, err := agdisc.NewTable(cards...)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func served(t testing.TB) *profiles.Profile {
	return agdisc.New(agdisc.Options{Sources: []agdisc.Source{table(t, card)}}).Profile()
}

func get(agentID, etag string) []byte {
	m := agdisc.Get{AgentID: []byte(agentID), IfNoneMatch: []byte(etag)}
	return m.Append(nil)
}

var contract = []profiletest.Case{
	{Name: "get", Type: agdisc.TypeGet, Payload: get("demo", ""), Answers: []uint64{agdisc.TypeDoc}},
	{Name: "get what is the same", Type: agdisc.TypeGet, Payload: get("demo", agdisc.HashOf(card.Payload)), Answers: []uint64{agdisc.TypeNotModified}},
	{Name: "get what is not there", Type: agdisc.TypeGet, Payload: get("nobody", ""), Code: profiles.NotFound},
	{Name: "unsolicited doc", Type: agdisc.TypeDoc, Payload: (&agdisc.Doc{
		AgentID: []byte("a"), SchemaRevision: []byte("v1"), CardPayload: []byte("{}"), ETag: []byte("e")}).Append(nil)},
	{Name: "unsolicited not modified", Type: agdisc.TypeNotModified, Payload: (&agdisc.NotModified{AgentID: []byte("a"), ETag: []byte("e")}).Append(nil)},
	{Name: "unsolicited error", Type: agdisc.TypeErr, Payload: (&agdisc.Err{Code: []byte("NOT_FOUND")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, served, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, served, contract...) }

func TestCardsAreToldOctetForOctet(t *testing.T) {
	h := profiletest.New(t, served(t))
	x := h.Serve(agdisc.TypeGet, get("demo", "another etag")).Wait()
	var doc agdisc.Doc
	if err := doc.Decode(x.Answers()[0].Payload); err != nil {
		t.Fatal(err)
	}
	want := agdisc.Doc{
		AgentID: []byte("demo"), SchemaRevision: []byte("1.2"), CardPayload: card.Payload,
		ETag: []byte(agdisc.HashOf(card.Payload)), MaxAgeMs: 60_000,
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameCardIsNotToldAgain(t *testing.T) {
	etag := agdisc.HashOf(card.Payload)
	h := profiletest.New(t, served(t))
	for given, want := range map[string]uint64{
		etag: agdisc.TypeNotModified, strings.ToUpper(etag): agdisc.TypeDoc, etag + " ": agdisc.TypeDoc, `"` + etag + `"`: agdisc.TypeDoc, "*": agdisc.TypeDoc,
	} {
		if got := h.Serve(agdisc.TypeGet, get("demo", given)).Wait().Answers()[0].MsgType; got != want {
			t.Errorf("if_none_match %q: answer of type %d, want %d", given, got, want)
		}
	}
}

// may is an Access that lets an identity do one thing.
type may [4]string

func (m may) Allowed(identity, profile, operation, name string) bool {
	return m == may{identity, profile, operation, name}
}

func TestPR04ADeniedCardLooksLikeNone(t *testing.T) {
	other := agdisc.Card{AgentID: "other", Payload: []byte("{}")}
	service := agdisc.New(agdisc.Options{
		Sources: []agdisc.Source{table(t, card, other)},
		Access:  may{"spiffe://profiletest/peer", "agdisc", "get", "demo"},
	})
	h := profiletest.New(t, service.Profile())
	if x := h.Serve(agdisc.TypeGet, get("demo", "")).Wait(); x.Err() != nil {
		t.Errorf("what is allowed: %v", x.Err())
	}
	denied, unknown := h.Serve(agdisc.TypeGet, get("other", "")).Wait().Err(), h.Serve(agdisc.TypeGet, get("nobody", "")).Wait().Err()
	if denied == nil || denied.Code != profiles.NotFound || !denied.Domain {
		t.Errorf("what is denied: %v, want ERR_NOT_FOUND as an answer of the domain", denied)
	}
	if diff := cmp.Diff(unknown, denied); diff != "" {
		t.Errorf("denied and unknown differ:\n%s", diff)
	}
}

func TestTheFirstSourceOfAnAgentCounts(t *testing.T) {
	first := agdisc.Card{AgentID: "demo", Payload: []byte("first")}
	service := agdisc.New(agdisc.Options{Sources: []agdisc.Source{table(t, first), table(t, card)}})
	var doc agdisc.Doc
	x := profiletest.New(t, service.Profile()).Serve(agdisc.TypeGet, get("demo", "")).Wait()
	if err := doc.Decode(x.Answers()[0].Payload); err != nil || string(doc.CardPayload) != "first" {
		t.Errorf("card %q, error %v", doc.CardPayload, err)
	}
}

func TestTablesRefuseWhatNobodyWouldTake(t *testing.T) {
	for name, cards := range map[string][]agdisc.Card{
		"no agent_id":          {{Payload: []byte("{}")}},
		"no octets":            {{AgentID: "a"}},
		"agent_id twice":       {{AgentID: "a", Payload: []byte("{}")}, {AgentID: "a", Payload: []byte("[]")}},
		"agent_id not UTF-8":   {{AgentID: "\xff", Payload: []byte("{}")}},
		"revision not UTF-8":   {{AgentID: "a", Revision: "\xff", Payload: []byte("{}")}},
		"PR-17 a large card":   {{AgentID: "a", Payload: make([]byte, agdisc.MaxCard+1)}},
		"a negative max_age":   {{AgentID: "a", Payload: []byte("{}"), MaxAge: -1}},
		"an agent_id too long": {{AgentID: strings.Repeat("a", agdisc.MaxText+1), Payload: []byte("{}")}},
	} {
		if _, err := agdisc.NewTable(cards...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := agdisc.NewTable(agdisc.Card{AgentID: "a", Payload: make([]byte, agdisc.MaxCard)}); err != nil {
		t.Errorf("the largest card: %v", err)
	}
}

func TestRevisionIsTheVersionOfTheCardElseItsHash(t *testing.T) {
	for payload, want := range map[string]string{
		`{"version":"2.0.1","name":"x"}`:  "2.0.1",
		`{"version":"1","version":"2"}`:   "2",
		`{"Version":"1"}`:                 "",
		`{"version":1}`:                   "",
		`{"version":""}`:                  "",
		`["version"]`:                     "",
		"not JSON at all":                 "",
		`{"version":"1.0"} and then more`: "",
	} {
		if want == "" {
			want = agdisc.HashOf([]byte(payload))
		}
		if got := agdisc.RevisionOf([]byte(payload)); got != want {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
}
