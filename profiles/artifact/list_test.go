package artifact_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
)

func TestEntriesGoOnBehindThePageBefore(t *testing.T) {
	for name, test := range map[string]struct {
		pages map[string]string // by the After that asks for them
		want  []string
		err   error
	}{
		"from where it is asked for": {map[string]string{"b": `{"artifacts":[{"artifact_id":"c"}],"next":"c"}`, "c": `{"artifacts":[{"artifact_id":"d"}]}`}, []string{"c", "d"}, nil},
		"over an empty page":         {map[string]string{"b": `{"artifacts":[],"next":"c"}`, "c": `{"artifacts":[{"artifact_id":"d"}]}`}, []string{"d"}, nil},
		"never the same page":        {map[string]string{"b": `{"artifacts":[{"artifact_id":"c"}],"next":"b"}`}, []string{"c"}, profiles.ErrNext},
		"never backwards":            {map[string]string{"b": `{"artifacts":[{"artifact_id":"c"}],"next":"a"}`}, []string{"c"}, profiles.ErrNext},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			var last error
			for entry, err := range artifact.Entries(artifact.ListParams{After: "b"}, func(params, result any) error {
				return json.Unmarshal([]byte(test.pages[params.(artifact.ListParams).After]), result)
			}) {
				if last = err; err == nil {
					got = append(got, entry.ArtifactID)
				}
			}
			if !slices.Equal(got, test.want) || !errors.Is(last, test.err) {
				t.Errorf("artifacts %q, error %v; want %q, %v", got, last, test.want, test.err)
			}
		})
	}
}
