package a2afront

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// TestAGapIsSaidAndNeverSkipped is R4 and extension 21: what is no longer held ends
// the stream.
func TestAGapIsSaidAndNeverSkipped(t *testing.T) {
	o, _ := a2abinding.Named(a2abinding.SubscribeToTask)
	for _, row := range []struct {
		last  uint64 // that the client has
		event a2a.Event
		lost  bool
	}{
		{0, a2a.Event{Seq: 1}, false},
		{3, a2a.Event{Seq: 4}, false},
		{3, a2a.Event{Seq: 4, FirstHeld: 4}, false}, // others are gone that the client has
		{3, a2a.Event{Seq: 5, FirstHeld: 5}, true},
		{0, a2a.Event{Seq: 2, FirstHeld: 2}, true},
	} {
		got := 0
		d := &delivery{last: row.last, call: &call{operation: o, event: func([]byte) error { got++; return nil }}}
		row.event.Payload = []byte(`{}`)
		err := d.take(&row.event)
		if failure, _ := errors.AsType[*a2abinding.Failure](err); (failure != nil) != row.lost || (got == 0) != row.lost {
			t.Errorf("event %d from %d on after %d: %v", row.event.Seq, row.event.FirstHeld, row.last, err)
		}
	}
	for _, row := range []struct {
		last   uint64
		result a2a.Result
		lost   bool
	}{
		{0, a2a.Result{OK: true}, false},
		{3, a2a.Result{OK: true, Last: 3}, false},
		{2, a2a.Result{OK: true, Last: 3}, true},
		{3, a2a.Result{OK: true, FirstHeld: 5}, true},
	} {
		d := &delivery{last: row.last, call: &call{operation: o}}
		if out := d.result(&row.result); (out.failure != nil) != row.lost || row.lost && out.failure.Status() != 503 {
			t.Errorf("a result after %d of %d: %v", row.last, row.result.Last, out.failure)
		}
	}
}
