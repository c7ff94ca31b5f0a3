package agdisc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/proto/prototest"
)

// message is what all messages have.
type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	card := []byte{0, 0xff, '{', '\n'}
	prototest.Agree(t, "agdisc", map[string]prototest.Message{
		`get {agent_id: "é" if_none_match: "e"}`: &agdisc.Get{AgentID: []byte("é"), IfNoneMatch: []byte("e")},
		`doc {agent_id: "a" schema_revision: "v1" card_payload: "\000\377{\n" etag: "e" max_age_ms: 1099511627776}`: &agdisc.Doc{
			AgentID: []byte("a"), SchemaRevision: []byte("v1"), CardPayload: card, ETag: []byte("e"), MaxAgeMs: 1 << 40},
		`doc {agent_id: "a" schema_revision: "v1" card_payload: "\000\377{\n"}`: &agdisc.Doc{AgentID: []byte("a"), SchemaRevision: []byte("v1"), CardPayload: card},
		`not_modified {agent_id: "a" etag: "e"}`:                                &agdisc.NotModified{AgentID: []byte("a"), ETag: []byte("e")},
		`err {code: "NOT_FOUND" message: "é"}`:                                  &agdisc.Err{Code: []byte("NOT_FOUND"), Message: []byte("é")},
	})
}

func TestWhatIsRequiredAndWhatIsBounded(t *testing.T) {
	text := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	good := agdisc.Doc{AgentID: []byte("a"), SchemaRevision: []byte("v1"), CardPayload: []byte("{}")}
	doc := func(change func(*agdisc.Doc)) *agdisc.Doc { m := good; change(&m); return &m }
	for _, test := range []struct {
		name   string
		m      message
		detail string // "" is accepted, "*" refused without one
	}{
		{"get", &agdisc.Get{AgentID: text(agdisc.MaxText)}, ""},
		{"get without agent_id", &agdisc.Get{IfNoneMatch: []byte("e")}, p1.DetailRequired},
		{"get of a long agent_id", &agdisc.Get{AgentID: text(agdisc.MaxText + 1)}, "*"},
		{"get with a long etag", &agdisc.Get{AgentID: text(1), IfNoneMatch: text(agdisc.MaxText + 1)}, "*"},
		{"get that is not UTF-8", &agdisc.Get{AgentID: []byte("\xff")}, p1.DetailUTF8},
		{"doc", &good, ""},
		{"doc without agent_id", doc(func(m *agdisc.Doc) { m.AgentID = nil }), p1.DetailRequired},
		{"doc without schema_revision", doc(func(m *agdisc.Doc) { m.SchemaRevision = nil }), p1.DetailRequired},
		{"doc without card_payload", doc(func(m *agdisc.Doc) { m.CardPayload = nil }), p1.DetailRequired},
		{"doc with the largest card", doc(func(m *agdisc.Doc) { m.CardPayload = text(agdisc.MaxCard) }), ""},
		{"doc with a larger card", doc(func(m *agdisc.Doc) { m.CardPayload = text(agdisc.MaxCard + 1) }), "*"},
		{"doc with a long revision", doc(func(m *agdisc.Doc) { m.SchemaRevision = text(agdisc.MaxText + 1) }), "*"},
		{"doc with a long etag", doc(func(m *agdisc.Doc) { m.ETag = text(agdisc.MaxText + 1) }), "*"},
		{"not modified without etag", &agdisc.NotModified{AgentID: []byte("a")}, p1.DetailRequired},
		{"not modified without agent_id", &agdisc.NotModified{ETag: []byte("e")}, p1.DetailRequired},
		{"err without code", &agdisc.Err{Message: []byte("m")}, p1.DetailRequired},
	} {
		err := test.m.Decode(test.m.Append(nil))
		var fault *profiles.Error
		switch {
		case test.detail == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.detail == "":
		case !errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload || test.detail != "*" && fault.Detail != test.detail:
			t.Errorf("%s: %v, want ERR_INVALID_PROFILE_PAYLOAD · %s", test.name, err, test.detail)
		}
	}
}
