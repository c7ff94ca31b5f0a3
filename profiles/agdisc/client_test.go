package agdisc_test

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

func TestEntriesGoOnUntilTheListingDoesNot(t *testing.T) {
	longest := strings.Repeat("a", agdisc.MaxText)
	for name, test := range map[string]struct {
		pages []string
		want  []string
		err   string
	}{
		"one page":                      {[]string{`{"agents":[{"agent_id":"a"},{"agent_id":"b"}]}`}, []string{"a", "b"}, ""},
		"two pages":                     {[]string{`{"agents":[{"agent_id":"a"}],"next":"a"}`, `{"agents":[{"agent_id":"b"}]}`}, []string{"a", "b"}, ""},
		"no agents":                     {[]string{`{"agents":[]}`}, nil, ""},
		"the same page again":           {[]string{`{"agents":[{"agent_id":"a"}],"next":"a"}`, `{"agents":[{"agent_id":"a"}],"next":"a"}`}, []string{"a"}, profiles.ErrNext.Error()},
		"an empty page before the next": {[]string{`{"agents":[],"next":"a"}`}, nil, profiles.ErrNext.Error()},
		"agents out of order":           {[]string{`{"agents":[{"agent_id":"b"},{"agent_id":"a"}]}`}, []string{"b"}, profiles.ErrNext.Error()},
		"an agent twice":                {[]string{`{"agents":[{"agent_id":"a"},{"agent_id":"a"}]}`}, []string{"a"}, profiles.ErrNext.Error()},
		"the longest name":              {[]string{`{"agents":[{"agent_id":"` + longest + `"}]}`}, []string{longest}, ""},
		"a name that is too long":       {[]string{`{"agents":[{"agent_id":"` + longest + `a"}]}`}, nil, "1025 octets"},
		"a revision that is too long":   {[]string{`{"agents":[{"agent_id":"a","schema_revision":"` + longest + `a"}]}`}, nil, "1025 octets"},
		"too many on a page":            {[]string{`{"agents":[` + strings.Repeat(`{"agent_id":"a"},`, profiles.MaxList) + `{"agent_id":"a"}]}`}, nil, "101 agents"},
		"no page":                       {[]string{`[]`}, nil, "cannot unmarshal"},
		"a page that is refused":        {[]string{`{"agents":[{"agent_id":"a"}],"next":"a"}`}, []string{"a"}, io.ErrUnexpectedEOF.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []any
			var got []string
			var last error
			for entry, err := range agdisc.Entries(func(params, result any) error {
				if asked = append(asked, params); len(asked) > len(test.pages) {
					return io.ErrUnexpectedEOF
				}
				return json.Unmarshal([]byte(test.pages[len(asked)-1]), result)
			}) {
				if last = err; err == nil {
					got = append(got, entry.AgentID)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("agents %q, want %q", got, test.want)
			}
			if (last == nil) != (test.err == "") || last != nil && !strings.Contains(last.Error(), test.err) {
				t.Errorf("error %v, want %q", last, test.err)
			}
			if next := (agdisc.ListParams{After: "a"}); len(asked) > 1 && asked[1] != next {
				t.Errorf("asked for the second page with %+v", asked[1])
			}
		})
	}
}

func TestEntriesThatNobodyWantsAreNotAskedFor(t *testing.T) {
	for _, err := range agdisc.Entries(func(params, result any) error {
		if params != (agdisc.ListParams{}) {
			return errors.New("asked for a second page")
		}
		return json.Unmarshal([]byte(`{"agents":[{"agent_id":"a"}],"next":"a"}`), result)
	}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
}
