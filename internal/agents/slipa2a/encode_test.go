package slipa2a

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

func TestEncode(t *testing.T) {
	high := 0.9
	got, err := extension(t, Options{}).Encode(Outgoing{
		MessageID: "m1", ContextID: "c1", TaskID: "t1",
		SLIP: slipstream.Say("planner", "reviewer", "RequestReview", "auth_module"), Confidence: &high,
		Attachments: []json.RawMessage{[]byte(`{"data": {"n":9007199254740993}}`), []byte(`{"text":"<second>"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER","extensions":["` + URI + `"],` +
		`"metadata":{"` + URI + `":{"slipVersion":"v1","ucrVersion":"1.0.0","ucrHash":"` + ucr.CoreHash + `","encoding":"mnemonic","confidence":0.9}},` +
		`"parts":[{"text":"SLIP v1 planner reviewer RequestReview auth_module"},{"data": {"n":9007199254740993}},{"text":"<second>"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	x := extension(t, Options{RequireHash: true})
	for _, confidence := range []*float64{nil, new(0.0), new(1.0)} {
		octets, err := x.Encode(Outgoing{MessageID: "m", SLIP: slipstream.Plain("devops", "sre", "check the pod logs"), Confidence: confidence})
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Decode(octets)
		if err != nil || r.Kind != SLIP || r.UCR != Match || r.Message.Text() != "check the pod logs" || r.Attachments != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(confidence, r.Confidence); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	x := extension(t, Options{MaxParts: 2, MaxMessage: 1000})
	fits := Outgoing{MessageID: "m", SLIP: slipstream.Say("a", "b", "MetaAck"), Attachments: []json.RawMessage{[]byte(" {} ")}}
	if _, err := x.Encode(fits); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Outgoing){
		"no SLIP":               func(o *Outgoing) { o.SLIP = nil },
		"no id":                 func(o *Outgoing) { o.MessageID = "" },
		"an unknown anchor":     func(o *Outgoing) { o.SLIP = slipstream.Say("a", "b", "LaunchRocket") },
		"a confidence of 1.1":   func(o *Outgoing) { o.Confidence = new(1.1) },
		"a confidence below 0":  func(o *Outgoing) { o.Confidence = new(-0.1) },
		"no number":             func(o *Outgoing) { o.Confidence = new(math.NaN()) },
		"an empty attachment":   func(o *Outgoing) { o.Attachments[0] = nil },
		"an attachment in text": func(o *Outgoing) { o.Attachments[0] = []byte(`"x"`) },
		"two attachments":       func(o *Outgoing) { o.Attachments[0] = []byte(`{},{}`) },
		"broken JSON":           func(o *Outgoing) { o.Attachments[0] = []byte(`{`) },
		"too many parts":        func(o *Outgoing) { o.Attachments = append(o.Attachments, []byte("{}")) },
		"too many octets": func(o *Outgoing) {
			o.Attachments[0] = []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
		},
	} {
		out := fits
		out.Attachments = slices.Clone(fits.Attachments)
		change(&out)
		if octets, err := x.Encode(out); err == nil {
			t.Errorf("%s: %s", name, octets)
		}
	}
}

func TestAnswerIsInSLIPOnlyForThoseWhoTakeIt(t *testing.T) {
	x := extension(t, Options{})
	out := Outgoing{MessageID: "m", SLIP: slipstream.Say("b", "a", "InformComplete", "review"), Attachments: []json.RawMessage{[]byte(`{"data":1}`)}}
	for _, in := range []*Incoming{nil, {OptedIn: true}} {
		octets, err := x.Answer(in, out, "the review is complete")
		want := `{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"the review is complete"},{"data":1}]}`
		if err != nil || string(octets) != want {
			t.Errorf("%s, %v", octets, err)
		}
	}
	octets, err := x.Answer(&Incoming{OptedIn: true, TakesSLIP: true}, out, "the review is complete")
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.Decode(octets)
	if err != nil || r.Kind != SLIP || r.Text != "SLIP v1 b a InformComplete review" || len(r.Attachments) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if !strings.Contains(string(octets), RoleAgent) {
		t.Errorf("%s", octets)
	}
}
