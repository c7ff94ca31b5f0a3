package telemetry

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
)

func TestLatencyHasLabelsOfAClosedSet(t *testing.T) {
	l := newLatency(all.Tables())
	for _, s := range []profiles.Subject{
		{Profile: "mcp", Operation: "tools/call"}, {Profile: "mcp", Operation: "a method of a peer"}, {Profile: "rpc", Operation: "RPC_REQ"},
		{Profile: "of a peer", Operation: "call"}, {Profile: "rpc", Operation: "call", Name: "a name of a peer"},
	} {
		l.observe(&s, profiles.OutcomeOK, 0.1)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(l.exchanges)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range families[0].GetMetric() {
		h := m.GetHistogram()
		if h.GetSampleCount() == 0 || len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%v: want buckets of both kinds", m)
		}
		of := make(map[string]string)
		for _, label := range m.GetLabel() {
			of[label.GetName()] = label.GetValue()
		}
		got = append(got, of["profile"]+"/"+of["operation"]+"/"+of["outcome"])
	}
	slices.Sort(got)
	want := "mcp/other/ok mcp/tools/call/ok other/other/ok rpc/call/ok rpc/other/ok"
	if strings.Join(got, " ") != want {
		t.Errorf("series %q, want %q", got, want)
	}
}
