package obs_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

func TestFromHeaderTakesOneTraceparentThatIsOne(t *testing.T) {
	const one = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, row := range []struct {
		parents, states []string
		want            profiles.Trace
	}{
		{nil, nil, profiles.Trace{}},
		{[]string{one}, nil, profiles.Trace{Parent: one}},
		{[]string{one}, []string{"a=1", "b=2"}, profiles.Trace{Parent: one, State: "a=1,b=2"}},
		{[]string{one}, []string{strings.Repeat("a", obs.MaxTracestate)}, profiles.Trace{Parent: one, State: strings.Repeat("a", obs.MaxTracestate)}},
		{[]string{one}, []string{strings.Repeat("a", obs.MaxTracestate+1)}, profiles.Trace{Parent: one}},
		{[]string{one}, []string{"a=\x01"}, profiles.Trace{Parent: one}},
		{[]string{one, one}, nil, profiles.Trace{}},
		{[]string{one + " "}, []string{"a=1"}, profiles.Trace{}},
		{[]string{""}, []string{"a=1"}, profiles.Trace{}},
		{nil, []string{"a=1"}, profiles.Trace{}},
	} {
		if got := obs.FromHeader(map[string][]string{"Traceparent": row.parents, "Tracestate": row.states}); got != row.want {
			t.Errorf("%q, %q: %+v", row.parents, row.states, got)
		}
	}
}
