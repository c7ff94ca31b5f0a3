package agdisc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

var peer = &profiles.Peer{Identity: "spiffe://test/peer"}

func list(t *testing.T, s *agdisc.Service, in agdisc.ListParams) agdisc.ListResult {
	t.Helper()
	params, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.List(t.Context(), peer, params)
	if err != nil {
		t.Fatal(err)
	}
	var out agdisc.ListResult
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// ids returns the agent_ids of all pages.
func ids(t *testing.T, s *agdisc.Service, limit int) (all []string) {
	t.Helper()
	in := agdisc.ListParams{Limit: limit}
	for {
		page := list(t, s, in)
		if len(page.Agents) > max(limit, 1) && limit > 0 || len(page.Agents) > profiles.MaxList {
			t.Fatalf("a page of %d agents for a limit of %d", len(page.Agents), limit)
		}
		for _, entry := range page.Agents {
			all = append(all, entry.AgentID)
		}
		if page.Next == "" {
			return all
		}
		in.After = page.Next
	}
}

func TestPagesNameEachAgentOnce(t *testing.T) {
	var many []agdisc.Card
	var want []string
	for i := range 250 {
		many = append(many, agdisc.Card{AgentID: fmt.Sprintf("agent-%d", i), Payload: []byte("{}")})
		want = append(want, many[i].AgentID)
	}
	slices.Sort(want)
	s := agdisc.New(agdisc.Options{Sources: []agdisc.Source{table(t, many[:200]...), table(t, many[100:]...)}})
	for _, limit := range []int{0, 1, 7, 99, 100, 101, 250, 1 << 30} {
		if got := ids(t, s, limit); !slices.Equal(got, want) {
			t.Errorf("limit %d: %d agents, want %d", limit, len(got), len(want))
		}
	}
	if got := ids(t, agdisc.New(agdisc.Options{}), 0); got != nil {
		t.Errorf("without agents: %v", got)
	}
}

// evens lets everybody see agents with an even number, and hears no other
// question.
type evens struct{ t *testing.T }

func (e evens) Allowed(_, _, _, _ string) bool { e.t.Error("a decision was asked for"); return false }

func (e evens) Would(identity, profile, operation, name string) bool {
	if identity != peer.Identity || profile != "agdisc" || operation != "get" {
		e.t.Errorf("asked about %s %s %s", identity, profile, operation)
	}
	return strings.HasSuffix(name, "0")
}

func TestListingsNameWhatTheCallerMayGet(t *testing.T) {
	var many []agdisc.Card
	for i := range 30 {
		many = append(many, agdisc.Card{AgentID: fmt.Sprintf("agent-%02d", i), Payload: []byte("{}")})
	}
	s := agdisc.New(agdisc.Options{Sources: []agdisc.Source{table(t, many...)}, Access: evens{t}})
	for _, limit := range []int{0, 1, 2, 3} {
		if got, want := ids(t, s, limit), []string{"agent-00", "agent-10", "agent-20"}; !slices.Equal(got, want) {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
	// A place in the listing may be of an agent that the caller does not see.
	if got := list(t, s, agdisc.ListParams{After: "agent-11"}); len(got.Agents) != 1 || got.Agents[0].AgentID != "agent-20" {
		t.Errorf("after agent-11: %v", got)
	}
}

// PR-17: a listing goes on after any text, which is a place and nothing more, and
// no number of agents that is asked for is one that is sent.
func TestPR17PlacesAndLimitsOfAPeer(t *testing.T) {
	var many []agdisc.Card
	for i := range 250 {
		many = append(many, agdisc.Card{AgentID: fmt.Sprintf("agent-%03d", i), Payload: []byte("{}")})
	}
	s := agdisc.New(agdisc.Options{Sources: []agdisc.Source{table(t, many...)}})
	for after, want := range map[string]int{
		"": 100, "-1": 100, "\x00": 100, "agent-249": 0, "agent-200": 49, "agent-2000": 49, "\U0010ffff": 0, "%": 100, "../": 100,
	} {
		if got := list(t, s, agdisc.ListParams{After: after, Limit: 1<<32 - 1}); len(got.Agents) != want {
			t.Errorf("after %q: %d agents, want %d", after, len(got.Agents), want)
		}
	}
	for _, params := range []string{
		`{"limit":-1}`, `{"limit":-9223372036854775808}`, `{"limit":9223372036854775808}`, `{"limit":1e999}`, `{"limit":1.5}`, `{"after":-1}`,
	} {
		if _, err := s.List(t.Context(), peer, []byte(params)); profiles.AsError(err).Code != profiles.InvalidProfilePayload {
			t.Errorf("params %s: %v, want ERR_INVALID_PROFILE_PAYLOAD", params, err)
		}
	}
}

func TestListingsRefuseOtherParams(t *testing.T) {
	s := agdisc.New(agdisc.Options{})
	for _, params := range []string{"[]", "1", `{"limit":-1}`, `{"limit":"1"}`, `{"after":1}`, "{", `{"after":"` + strings.Repeat("a", 8<<10) + `"}`} {
		_, err := s.List(t.Context(), peer, []byte(params))
		if profiles.AsError(err).Code != profiles.InvalidProfilePayload {
			t.Errorf("params %.40s: %v, want ERR_INVALID_PROFILE_PAYLOAD", params, err)
		}
	}
	if _, err := s.List(t.Context(), peer, nil); err != nil {
		t.Errorf("no params: %v", err)
	}
}

func TestTheFirstPageNamesKindsOfTasks(t *testing.T) {
	many := make([]string, profiles.MaxList+1)
	for i := range many {
		many[i] = fmt.Sprintf("k%03d", i)
	}
	s := agdisc.New(agdisc.Options{Kinds: func(identity string) []string {
		if identity != peer.Identity {
			t.Errorf("asked about %s", identity)
		}
		return many
	}})
	if got := list(t, s, agdisc.ListParams{}).Kinds; !slices.Equal(got, many[:profiles.MaxList]) {
		t.Errorf("%d kinds, want the first %d", len(got), profiles.MaxList)
	}
	if got := list(t, s, agdisc.ListParams{After: "a"}).Kinds; got != nil {
		t.Errorf("on a further page: %d kinds", len(got))
	}
}
