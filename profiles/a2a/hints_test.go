package a2a

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles"
)

func TestHintsAreStoredWithTheirTask(t *testing.T) {
	r := request{spec: spec{
		Owner: "o", ID: []byte("id"), Kind: "k", Nonce: newNonce(), Created: time.UnixMilli(1), Deadline: time.UnixMilli(2), Expires: time.UnixMilli(3),
		Hints: []profiles.Hint{
			{Key: "region", Value: "eu", Mode: profiles.Must, Scope: "task:6964"},
			{Key: "note", Value: "é", Mode: profiles.May, Scope: profiles.ScopeConnection},
		},
	}}
	back, err := decodeRequest(r.encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Hints, back.Hints); diff != "" {
		t.Errorf("the hints came back as others:\n%s", diff)
	}
	task := newTask(nil, back, sumTask("k", nil))
	if diff := cmp.Diff(r.Hints, profiles.HintsOf(withOrigin(t.Context(), task.Trace, task.Hints), "k")); diff != "" {
		t.Errorf("the context of the task has others:\n%s", diff)
	}
	r.Hints = nil
	if back, err := decodeRequest(r.encode()); err != nil || back.Hints != nil {
		t.Errorf("without hints: %+v, %v", back, err)
	}
}
