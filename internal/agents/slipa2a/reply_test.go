package slipa2a

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/slip/ucr"
)

// answering is an agent that says the same to everyone: as an event if it streams.
type answering string

func (s answering) Run(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	if o, _ := a2abinding.OfKind(t.Kind); o.Streams {
		return nil, errors.Join(event("", []byte(s)), event("", []byte(`{"next":1}`)))
	}
	return []byte(s), nil
}

// in says the same message as one of the three forms of an answer.
var answerForms = map[string]func(message string) string{
	"message": func(m string) string { return `{ "message" : ` + m + ` }` },
	"task": func(m string) string {
		return `{"task":{"id":"t", "status":{"state":"S","message":` + m + `}, "x": 1.0}}`
	},
	"update": func(m string) string { return `{"statusUpdate":{"status":{"message":` + m + `},"taskId":"t"}}` },
}

func TestWrapChecksAnswersInSLIP(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		good, text := string(sayHash(ucr.CoreHash)), `{"parts":[{"text":"SLIP v1 is odd"}]}`
		unmarked := func(message string) bool { return !strings.Contains(message, URI) }
		for name, test := range map[string]struct {
			message string
			params  []string // of the client
			modes   string
			options Options
			want    string // class of the error; "as it is", or "unmarked"
		}{
			"good":                       {good, []string{Param}, "", Options{}, "as it is"},
			"not marked":                 {text, []string{Param}, "", Options{}, "as it is"},
			"not marked, not opted in":   {text, nil, "", Options{}, "as it is"},
			"not opted in":               {good, nil, "", Options{}, "unmarked"},
			"another mode":               {good, []string{Param}, `,"acceptedOutputModes":["text/plain"]`, Options{}, "unmarked"},
			"an unknown anchor":          {strings.Replace(good, "RequestReview", "RequestNothing", 1), []string{Param}, "", Options{}, "unknown_anchor"},
			"no line":                    {strings.Replace(good, "SLIP v1", "SLOP v1", 1), []string{Param}, "", Options{}, "bad_marker"},
			"other anchors":              {string(sayHash("sha256:00")), []string{Param}, "", Options{}, "ucr_mismatch"},
			"other anchors, as plain":    {string(sayHash("sha256:00")), []string{Param}, "", Options{Mismatch: Fallback}, "unmarked"},
			"unknown, for plain clients": {strings.Replace(good, "RequestReview", "RequestNothing", 1), nil, "", Options{}, "unmarked"},
		} {
			for form, write := range answerForms {
				for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
					said := write(test.message)
					var events []string
					output, err := way(extension(t, test.options), answering(said)).Run(t.Context(),
						task(operation, send([]byte(text), test.modes), test.params...), func(_ string, octets []byte) error {
							events = append(events, string(octets))
							return nil
						})
					got := string(output)
					if len(events) > 0 {
						got = events[0]
					}
					switch {
					case test.want == "as it is" && (err != nil || got != said),
						test.want == "unmarked" && (err != nil || !unmarked(got) || !strings.Contains(got, "SLIP v1")):
						t.Errorf("%s, %s, %s: %s, %v", name, form, operation, got, err)
					case test.want == "as it is", test.want == "unmarked":
						if operation == a2abinding.SendStreamingMessage && len(events) != 2 {
							t.Errorf("%s, %s: events %q", name, form, events)
						}
						continue
					}
					failed, ok := errors.AsType[*a2a.Failure](err)
					if !ok || !strings.Contains(string(failed.Output), `"code":-32006`) || !strings.Contains(string(failed.Output), `"class":"`+test.want+`"`) {
						t.Errorf("%s, %s, %s: %s, %v", name, form, operation, got, err)
					}
				}
			}
		}
	})
}

// Answers to other operations belong to no message of this client.
func TestWrapDoesNotCheckAnswersToOtherOperations(t *testing.T) {
	inBothWays(t, func(t *testing.T, way wrapping) {
		said := `{"message":` + strings.Replace(string(sayHash(ucr.CoreHash)), "RequestReview", "RequestNothing", 1) + `}`
		output, err := way(extension(t, Options{}), answering(said)).Run(t.Context(), task(a2abinding.GetTask, `{}`), nil)
		if err != nil || string(output) != said {
			t.Errorf("%s, %v", output, err)
		}
	})
}
