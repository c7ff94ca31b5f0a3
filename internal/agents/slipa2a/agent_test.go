package slipa2a

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/slip/ucr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is what an agent was given.
type seen struct {
	task     a2a.Task
	incoming *Incoming
	last     []byte
	times    int
}

func (s *seen) Run(ctx context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
	s.task, s.times = *t, s.times+1
	s.incoming, _ = Of(ctx)
	return []byte(`{"name": "output"}`), nil
}

// again is an agent that goes on.
type again struct{ seen }

func (a *again) Resume(ctx context.Context, t *a2a.Task, last []byte, event func(string, []byte) error) ([]byte, error) {
	a.last = last
	return a.Run(ctx, t, event)
}

func task(operation, input string, params ...string) *a2a.Task {
	o, _ := a2abinding.Named(operation)
	return &a2a.Task{ID: []byte("0123456789abcdef"), Kind: o.Kind(), Input: []byte(input), Params: params, Peer: "spiffe://test/a"}
}

// send is the input of a send with a message.
func send(message []byte, modes string) string {
	return `{ "tenant":"t", "message" : ` + string(message) + ` , "configuration":{"historyLength": 1.0` + modes + `}}`
}

func TestWrapPassesGoodMessagesAsTheyAre(t *testing.T) {
	for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
		for _, message := range []string{string(sayHash(ucr.CoreHash)), string(say("")), `{"parts":[{"text":"SLIP v1"}]}`} {
			agent := new(seen)
			in := task(operation, send([]byte(message), ""), "a2a-version=1.0", Param)
			output, err := extension(t, Options{}).Wrap(agent).Run(t.Context(), in, nil)
			if err != nil || string(output) != `{"name": "output"}` {
				t.Fatalf("%s, %v", output, err)
			}
			if diff := cmp.Diff(*in, agent.task); diff != "" {
				t.Error(diff)
			}
			if agent.incoming == nil || !agent.incoming.OptedIn || !agent.incoming.TakesSLIP {
				t.Errorf("%+v", agent.incoming)
			}
		}
	}
}

func TestWrapPassesOtherOperationsAsTheyAre(t *testing.T) {
	for _, o := range a2abinding.Operations() {
		if o.Name == a2abinding.SendMessage || o.Name == a2abinding.SendStreamingMessage {
			continue
		}
		agent := new(seen)
		in := task(o.Name, `no JSON`)
		if _, err := extension(t, Options{Required: true}).Wrap(agent).Run(t.Context(), in, nil); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
		if diff := cmp.Diff(*in, agent.task); diff != "" || agent.incoming != nil {
			t.Errorf("%s: %s", o.Name, diff)
		}
	}
}

// failureOf is what the initiator of a task learns.
func failureOf(t *testing.T, err error) *a2abinding.Failure {
	t.Helper()
	f, ok := errors.AsType[*a2a.Failure](err)
	if !ok {
		t.Fatalf("%v is no failure for the initiator", err)
	}
	failure, octets := a2abinding.OfResult(&a2a.Result{Reason: f.Reason, Output: f.Output})
	if !json.Valid(octets) {
		t.Fatalf("%s", octets)
	}
	return failure
}

func TestPR18WrapRefuses(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		for name, test := range map[string]struct{ input, class string }{
			"another hash":     {send(sayHash(foreign), ""), "ucr_mismatch"},
			"an index":         {send([]byte(strings.Replace(string(say("")), "RequestReview", "0x0032", 1)), ""), "hex_anchor"},
			"no JSON":          {`{"message":`, "bad_message"},
			"no object":        {`[]`, "bad_message"},
			"two messages":     {`{"message":{},"message":` + string(sayHash(foreign)) + `}`, "bad_message"},
			"another spelling": {`{"message":{},"Message":` + string(sayHash(foreign)) + `}`, "bad_message"},
			"message is text":  {`{"message":"x"}`, "bad_message"},
			"modes are text":   {send(say(""), `,"acceptedOutputModes":"text/slip"`), "bad_message"},
		} {
			agent := new(seen)
			_, err := way(extension(t, Options{}), agent).Run(t.Context(), task(a2abinding.SendMessage, test.input, Param), nil)
			f := failureOf(t, err)
			var data []struct {
				Reason, Domain string
				Metadata       map[string]string
			}
			if err := json.Unmarshal(f.Data, &data); err != nil || len(data) != 1 {
				t.Fatalf("%s: %s, %v", name, f.Data, err)
			}
			if f.Code != a2abinding.CodeInvalidParams || f.Status() != 400 || data[0].Metadata["class"] != test.class || agent.times != 0 {
				t.Errorf("%s: %v %s, want %s; agent called %d times", name, f, f.Data, test.class, agent.times)
			}
			if hash := data[0].Metadata["ucrHash"]; (hash == ucr.CoreHash) != (test.class == "ucr_mismatch") {
				t.Errorf("%s: ucrHash %q", name, hash)
			}
		}
	})
}

func TestWrapBoundsMessages(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		message := say("")
		for limit, refused := range map[int]bool{len(message): false, len(message) - 1: true} {
			agent := new(seen)
			_, err := way(extension(t, Options{MaxMessage: limit}), agent).Run(t.Context(), task(a2abinding.SendMessage, send(message, "")), nil)
			if (err != nil) != refused || (agent.times == 0) != refused {
				t.Errorf("%d octets: %v, agent called %d times", limit, err, agent.times)
			}
		}
	})
}

func TestRequiredRefusesThoseWhoDoNotOptIn(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		x := extension(t, Options{Required: true})
		agent := new(seen)
		_, err := way(x, agent).Run(t.Context(), task(a2abinding.SendMessage, `{"message":{}}`, "a2a-extensions=urn:x"), nil)
		if f := failureOf(t, err); f.Code != a2abinding.CodeNeedsExtension || agent.times != 0 {
			t.Errorf("%v, agent called %d times", f, agent.times)
		}
		if _, err := way(x, agent).Run(t.Context(), task(a2abinding.SendMessage, `{"message":{}}`, Param), nil); err != nil || agent.times != 1 {
			t.Errorf("%v, agent called %d times", err, agent.times)
		}
	})
}

func TestFallbackHandsOnPlainText(t *testing.T) {
	agent := new(seen)
	in := task(a2abinding.SendMessage, send(sayHash(foreign), ""), "a2a-version=1.0", "a2a-extensions=urn:x, "+URI+",urn:y", Param, "x-other="+URI)
	given := *in
	if _, err := extension(t, Options{Mismatch: Fallback}).Wrap(agent).Run(t.Context(), in, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(given, *in); diff != "" {
		t.Errorf("the task of the Service was changed: %s", diff)
	}
	want := given
	want.Input = []byte(send([]byte(`{"messageId":"m","role":"ROLE_USER","parts":[{"data":1,"note":"text"},{"text":"SLIP v1 a b RequestReview x"},{"text":"more"}],`+
		`"extensions":["urn:other"],"metadata":{"urn:other":7}}`), ""))
	want.Params = []string{"a2a-version=1.0", "a2a-extensions=urn:x,urn:y", "x-other=" + URI}
	if diff := cmp.Diff(want, agent.task); diff != "" {
		t.Error(diff)
	}
	if in := agent.incoming; in.Kind != Plain || in.UCR != Differs || !in.OptedIn || in.TakesSLIP {
		t.Errorf("%+v", in)
	}
}

func TestFallbackTakesOutTheMarkWhereverItIs(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		meta := `"` + URI + `" : {"slipVersion":"v1","encoding":"mnemonic","ucrHash":"x"}`
		parts := `"parts":[{"text":"x"}]`
		for message, want := range map[string]string{
			`{"extensions":["@"],"metadata":{#},` + parts + `}`:                         `{"extensions":[],"metadata":{},` + parts + `}`,
			`{"extensions":[ "@" , "@" ],"metadata":{ # },` + parts + `}`:               `{"extensions":[  ],"metadata":{  },` + parts + `}`,
			`{"extensions":["@", "a" ,"@" , "b"],"metadata":{#, "a":1},` + parts + `}`:  `{"extensions":["a" , "b"],"metadata":{"a":1},` + parts + `}`,
			`{"metadata":{"a": 1 ,#},` + parts + `,"extensions":["a","@"]}`:             `{"metadata":{"a": 1},` + parts + `,"extensions":["a"]}`,
			`{"metadata":{"a":1, # , "b":2},` + parts + `,"extensions":["a","@", "b"]}`: `{"metadata":{"a":1 , "b":2},` + parts + `,"extensions":["a", "b"]}`,
		} {
			message = strings.NewReplacer("@", URI, "#", meta).Replace(message)
			agent := new(seen)
			if _, err := way(extension(t, Options{Mismatch: Fallback}), agent).Run(t.Context(), task(a2abinding.SendMessage, send([]byte(message), "")), nil); err != nil {
				t.Errorf("%s: %v", message, err)
				continue
			}
			if diff := cmp.Diff(send([]byte(want), ""), string(agent.task.Input)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestWrapIsAResumerIfTheAgentIs(t *testing.T) {
	x := extension(t, Options{Mismatch: Fallback})
	if _, ok := x.Wrap(new(seen)).(a2a.Resumer); ok {
		t.Error("a Resumer was made")
	}
	agent := new(again)
	resumer, ok := x.Wrap(agent).(a2a.Resumer)
	if !ok {
		t.Fatal("it is no Resumer any more")
	}
	in := task(a2abinding.SendStreamingMessage, send(sayHash(foreign), ""), Param)
	if _, err := resumer.Resume(t.Context(), in, []byte("last"), nil); err != nil {
		t.Fatal(err)
	}
	if string(agent.last) != "last" || strings.Contains(string(agent.task.Input), URI) || agent.incoming.Kind != Plain {
		t.Errorf("%s, %+v", agent.task.Input, agent.incoming)
	}
	if _, err := extension(t, Options{}).Wrap(agent).(a2a.Resumer).Resume(t.Context(), in, nil, nil); failureOf(t, err).Code != a2abinding.CodeInvalidParams {
		t.Error(err)
	}
}

func TestExtendedCardDeclares(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		x := extension(t, Options{})
		for card, declares := range map[string]bool{
			`{"name":"a"}`: true, `{"name":"a","signatures":[{}]}`: false, `no card`: false,
		} {
			agent := a2a.WorkerFunc(func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) { return []byte(card), nil })
			output, err := way(x, agent).Run(t.Context(), task(a2abinding.GetExtendedAgentCard, `{}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := Declared(output); (ok && err == nil) != declares || !declares && string(output) != card {
				t.Errorf("%s: %s", card, output)
			}
		}
	})
}

func TestOptedIn(t *testing.T) {
	for _, test := range []struct {
		params []string
		want   bool
	}{
		{nil, false},
		{[]string{Param}, true},
		{[]string{"A2A-Extensions=" + URI}, true},
		{[]string{"a2a-version=1.0", "a2a-extensions=urn:x", "a2a-extensions=urn:y,\t" + URI + " ,"}, true},
		{[]string{"a2a-extensions=" + URI + "/"}, false},
		{[]string{"a2a-extensions=" + strings.ToUpper(URI)}, false},
		{[]string{"a2a-extension=" + URI}, false},
		{[]string{"a2a-extensions"}, false},
	} {
		if got := OptedIn(test.params); got != test.want {
			t.Errorf("%q: %v", test.params, got)
		}
		if out := optedOut(test.params); OptedIn(out) || !test.want && !slices.Equal(out, test.params) {
			t.Errorf("%q: %q", test.params, out)
		}
	}
}

func TestTakesSLIP(t *testing.T) {
	for modes, want := range map[string]bool{
		``: true, `[]`: true, `null`: true, `["text/slip"]`: true, `["text/plain","Text/Slip; v=1"]`: true, `["text/*"]`: true, `["*/*"]`: true,
		`["text/plain"]`: false, `["text/slipstream"]`: false, `["image/*",7]`: false,
	} {
		if modes != "" {
			modes = `,"acceptedOutputModes":` + modes
		}
		for _, params := range [][]string{{Param}, nil} {
			agent := new(seen)
			if _, err := extension(t, Options{}).Wrap(agent).Run(t.Context(), task(a2abinding.SendMessage, send(say(""), modes), params...), nil); err != nil {
				t.Errorf("%s: %v", modes, err)
				continue
			}
			if got := agent.incoming.TakesSLIP; got != (want && params != nil) {
				t.Errorf("%s, %q: %v", modes, params, got)
			}
		}
	}
}

// ProtoJSON allows either name of a field.
func TestFieldsAreReadByEitherName(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		for modes, takes := range map[string]bool{`["text/slip"]`: true, `["text/plain"]`: false} {
			input := strings.Replace(send(say(""), `,"acceptedOutputModes":`+modes), "acceptedOutputModes", "accepted_output_modes", 1)
			for form, said := range map[string]string{
				"statusUpdate": answerForms["update"](string(say(""))), "status_update": strings.Replace(answerForms["update"](string(say(""))), "statusUpdate", "status_update", 1),
			} {
				output, err := way(extension(t, Options{}), answering(said)).Run(t.Context(), task(a2abinding.SendMessage, input, Param), nil)
				if err != nil || strings.Contains(string(output), URI) != takes {
					t.Errorf("%s, %s: %s, %v", modes, form, output, err)
				}
			}
		}
	})
}
