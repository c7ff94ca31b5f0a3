package slipa2a

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/slip/ucr"
)

const asked = "SLIP v1 planner reviewer RequestReview a:b"

func TestALineBecomesAMessageThatIsReadAsTheSameLine(t *testing.T) {
	x := extension(t, Options{})
	for same, want := range map[bool]UCR{true: Match, false: Unknown} {
		input, err := x.FromLine("m", Line{asked, same})
		if err != nil {
			t.Fatal(err)
		}
		in, _, err := x.admit(task(a2abinding.SendMessage, string(input), Param))
		if err != nil || in.Text != asked || in.UCR != want || !in.TakesSLIP {
			t.Errorf("%s: %+v, %v", input, in, err)
		}
		_, _, err = extension(t, Options{RequireHash: true}).admit(task(a2abinding.SendMessage, string(input), Param))
		if (err == nil) != same {
			t.Errorf("same %v, where a ucrHash is required: %v", same, err)
		}
	}
	if input, err := extension(t, Options{MaxMessage: 100}).FromLine("m", Line{asked, true}); err == nil {
		t.Errorf("%s", input)
	}
}

func TestAnAnswerBecomesALine(t *testing.T) {
	x := extension(t, Options{})
	marked := strings.Replace(string(sayHash(ucr.CoreHash)), "SLIP v1 a b RequestReview x", "SLIP v1 reviewer planner EvalApprove x", 1)
	marked = strings.Replace(strings.Replace(marked, `{"data":1,"note":"text"},`, "", 1), `,{"text":"more"}`, "", 1)
	for name, row := range map[string]struct{ answer, line, class string }{
		"marked":           {marked, "SLIP v1 reviewer planner EvalApprove x", ""},
		"plain":            {`{"parts":[{"text":"all is well"}]}`, `SLIP v1 reviewer planner Fallback "all is well"`, ""},
		"two parts":        {`{"parts":[{"text":"all is well"},{"data":1}]}`, "", "not_carried"},
		"with more":        {strings.Replace(marked, `"parts":[`, `"parts":[{"data":1},`, 1), "", "not_carried"},
		"no text":          {`{"parts":[{"data":1}]}`, "", "no_text_part"},
		"a quote":          {`{"parts":[{"text":"say \"yes\""}]}`, "", "bad_token"},
		"two lines":        {`{"parts":[{"text":"one\ntwo"}]}`, "", "bad_token"},
		"to another":       {strings.Replace(marked, "planner EvalApprove", "boss EvalApprove", 1), "", "other_agent"},
		"from another":     {strings.Replace(marked, "v1 reviewer", "v1 boss", 1), "", "other_agent"},
		"of other anchors": {strings.Replace(marked, ucr.CoreHash, foreign, 1), "", "ucr_mismatch"},
	} {
		for form, write := range answerForms {
			line, err := x.ToLine([]byte(write(row.answer)), "reviewer", "planner")
			got := ""
			if e, ok := errors.AsType[*Error](err); ok {
				got = string(e.Class)
			}
			if line.Text != row.line || got != row.class {
				t.Errorf("%s, %s: %+v, %v", name, form, line, err)
			}
		}
	}
	for _, answer := range []string{`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`, `no JSON`, `{"message":{"parts":[{"text":"a"}]},"message":{}}`} {
		if line, err := x.ToLine([]byte(answer), "reviewer", "planner"); err == nil {
			t.Errorf("%s: %+v", answer, line)
		}
	}
}

func TestLinesCarriesTheLineAndAcknowledges(t *testing.T) {
	x := extension(t, Options{})
	input := func(change ...string) string {
		octets, err := x.FromLine("m", Line{asked, true})
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer(change...).Replace(string(octets))
	}
	var carried []string
	w := x.Lines("reviewer", func(_ context.Context, _ *a2a.Task, line Line) error {
		if carried = append(carried, line.Text); !line.Same {
			carried = append(carried, "unknown anchors")
		}
		return nil
	})
	slip := `"text":"SLIP v1 reviewer planner MetaAck"`
	for name, row := range map[string]struct {
		input  string
		params []string
		want   string // in the answer
	}{
		"in SLIP":    {input(), []string{Param}, slip},
		"in text":    {input(), nil, `"text":"received`},
		"in context": {input(`"messageId":"m"`, `"messageId":"m","contextId":"c"`), []string{Param}, `"contextId":"c"`},
	} {
		carried = nil
		output, err := w.Run(t.Context(), task(a2abinding.SendMessage, row.input, row.params...), nil)
		if err != nil || !strings.Contains(string(output), row.want) || strings.Contains(string(output), URI) != (row.params != nil) {
			t.Errorf("%s: %s, %v", name, output, err)
		}
		if diff := cmp.Diff([]string{asked}, carried); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	carried = nil
	for name, row := range map[string]struct {
		input string
		code  int
		class Class
	}{
		"no SLIP":           {`{"message":{"parts":[{"text":"hello"}]}}`, a2abinding.CodeContentType, ""},
		"to another":        {input(" reviewer ", " boss "), a2abinding.CodeInvalidParams, OtherAgent},
		"an attachment":     {input(`"parts":[`, `"parts":[{"data":1},`), a2abinding.CodeInvalidParams, NotCarried},
		"a confidence":      {input(`"encoding"`, `"confidence":1,"encoding"`), a2abinding.CodeInvalidParams, NotCarried},
		"another extension": {input(`"extensions":[`, `"extensions":["urn:x",`), a2abinding.CodeInvalidParams, NotCarried},
		"other metadata":    {input(`"metadata":{`, `"metadata":{"urn:x":1,`), a2abinding.CodeInvalidParams, NotCarried},
		"a task":            {input(`"messageId":"m"`, `"messageId":"m","taskId":"t"`), a2abinding.CodeTaskNotFound, ""},
		"a task, spelled":   {input(`"messageId":"m"`, `"messageId":"m","task_id":"t"`), a2abinding.CodeTaskNotFound, ""},
		"other anchors":     {input(ucr.CoreHash, "sha256:00"), a2abinding.CodeInvalidParams, UCRMismatch},
		"an index":          {input("RequestReview", "0x0032"), a2abinding.CodeInvalidParams, "hex_anchor"},
	} {
		for _, mismatch := range []Mismatch{Refuse, Fallback} {
			w := extension(t, Options{Mismatch: mismatch}).Lines("reviewer", func(context.Context, *a2a.Task, Line) error {
				t.Errorf("%s: carried", name)
				return nil
			})
			_, err := w.Run(t.Context(), task(a2abinding.SendMessage, row.input, Param), nil)
			if f := failureOf(t, err); f.Code != row.code || ClassOf(f) != row.class {
				t.Errorf("%s: %v %s", name, f, f.Data)
			}
		}
	}
	wrong := errors.New("no way")
	w = x.Lines("reviewer", func(context.Context, *a2a.Task, Line) error { return wrong })
	if _, err := w.Run(t.Context(), task(a2abinding.SendMessage, input(), Param), nil); !errors.Is(err, wrong) {
		t.Error(err)
	}
}
