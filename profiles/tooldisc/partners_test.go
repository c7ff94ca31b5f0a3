package tooldisc_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// got is the answer of a partner to a question for a tool.
func got(id, version string, payload []byte) *e1.Envelope {
	m := tooldisc.GetResp{Tool: tooldisc.Descriptor{
		ToolID: []byte(id), Name: []byte("n"), Version: []byte(version), SchemaRef: []byte("https://example.org/s"), DescriptorPayload: payload,
	}}
	return &e1.Envelope{ProfileID: tooldisc.ProfileID, MsgType: tooldisc.TypeGetResp, Payload: m.Append(nil)}
}

// recalled asks for what is kept of a tool.
func recalled(c *profiles.Crossing, name, id, version string) (d tooldisc.GetResp, ext e1.Extensions, ok bool) {
	m := tooldisc.GetReq{ToolID: []byte(id), Version: []byte(version)}
	answer, ok := c.Kept(name, "", &e1.Envelope{MsgType: tooldisc.TypeGetReq, Payload: m.Append(nil)}, 1500*time.Millisecond)
	return d, answer.Extensions, ok && d.Decode(answer.Payload) == nil
}

// keep notes an answer to a question for a version of a tool.
func keep(c *profiles.Crossing, name, version string, answer *e1.Envelope) {
	m := tooldisc.GetReq{ToolID: []byte(name), Version: []byte(version)}
	c.Keep(name, "", &e1.Envelope{MsgType: tooldisc.TypeGetReq, Payload: m.Append(nil)}, answer)
}

func has(c *profiles.Crossing, name string) bool {
	_, _, ok := recalled(c, name, name, "")
	return ok
}

func TestToolsOfPartnersAreToldAsTheyWere(t *testing.T) {
	s := newService(t, tooldisc.Options{})
	c := s.Profile().Crossing
	listed := tooldisc.Tool{ID: "listed", Name: "n", Version: "1", SchemaRef: "https://example.org/s", Payload: []byte("listed")}
	s.SetPartner("b", []tooldisc.Tool{listed}, nil)
	for _, version := range []string{"2", "10", "9"} {
		keep(c, "b/got", version, got("got", version, []byte(version)))
	}
	keep(c, "b/got", "9", got("got", "9", []byte("nine again")))
	keep(c, "b/got", "", got("got", "10", []byte("any")))
	for _, test := range []struct{ name, id, version, want string }{
		{"b/listed", "listed", "", "listed"}, {"b/listed", "b/listed", "1", "listed"},
		{"b/got", "b/got", "", "any"}, {"b/got", "got", "9", "nine again"}, {"b/got", "got", "3", ""}, {"b/none", "none", "", ""}, {"c/got", "got", "", ""},
	} {
		d, ext, ok := recalled(c, test.name, test.id, test.version)
		if ok != (test.want != "") || ok && (string(d.Tool.DescriptorPayload) != test.want || string(d.Tool.ToolID) != test.id) {
			t.Errorf("%s %s: %+v, %v", test.name, test.version, d, ok)
		}
		if stale := profiles.StaleOf(ext, tooldisc.ExtStale); ok && stale != 1500*time.Millisecond {
			t.Errorf("%s: away for %v", test.name, stale)
		}
	}
	refused := tooldisc.Err{Code: []byte(tooldisc.CodeNotFound)}
	keep(c, "b/got", "", &e1.Envelope{ProfileID: tooldisc.ProfileID, MsgType: tooldisc.TypeErr, Payload: refused.Append(nil)})
	if has(c, "b/got") || !has(c, "b/listed") {
		t.Error("what the partner does not have any more is kept, or more is gone")
	}
	keep(c, "b/got", "", got("got", "1", nil))
	s.SetPartner("b", []tooldisc.Tool{listed}, nil)
	if has(c, "b/got") {
		t.Error("what was got before the partner listed its tools is kept")
	}
	s.ForgetPartner("b")
	if has(c, "b/listed") {
		t.Error("what was forgotten is kept")
	}
}

func TestToolsOfAPartnerAreBounded(t *testing.T) {
	s := newService(t, tooldisc.Options{})
	c := s.Profile().Crossing
	list := make([]tooldisc.Tool, tooldisc.MaxPartnerTools-1)
	for i := range list {
		list[i] = tooldisc.Tool{ID: fmt.Sprintf("%05d", i), Name: "n", Version: "1", SchemaRef: "https://example.org/s"}
	}
	s.SetPartner("b", list, nil)
	keep(c, "b/got", "", got("got", "1", nil))
	keep(c, "b/more", "", got("more", "1", nil))
	if !has(c, "b/got") || has(c, "b/more") {
		t.Error("the bound on tools does not hold, or holds too soon")
	}
	last, over := list[0], list[0]
	last.ID, over.ID = "last", "over"
	s.SetPartner("b", append(list, last, over), nil)
	if !has(c, "b/last") || has(c, "b/over") {
		t.Error("the bound on a list does not hold, or holds too soon")
	}

	const mega = 1 << 20
	big := bytes.Repeat([]byte("x"), mega)
	list = list[:tooldisc.MaxPartnerOctets/mega-1]
	own := len("b/got") + len("n") + len("1") + len("https://example.org/s")
	rest := tooldisc.MaxPartnerOctets
	for i := range list {
		list[i].Payload = big
		rest -= own + len(list[i].ID) - len("got") + mega
	}
	s.SetPartner("b", list, nil)
	keep(c, "b/got", "", got("got", "1", make([]byte, rest-own+1)))
	if has(c, "b/got") {
		t.Error("an octet more than the bound is kept")
	}
	keep(c, "b/got", "", got("got", "1", make([]byte, rest-own)))
	if !has(c, "b/got") {
		t.Error("what reaches the bound is not kept")
	}
}
